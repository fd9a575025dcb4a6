"""Ising grids with random couplings against the Kac-Ward determinant, which itself is held against enumeration."""
from __future__ import annotations

import numpy as np
import pytest
from factors import brute
from factors.brute import Model
from factors.kac_ward import Couplings, draw_couplings, factors_of, log_partition, sizes_of

from jitfuse import factors


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (2, 2), (2, 3), (3, 3), (3, 5), (4, 4)])
def test_the_determinant_against_enumeration(rows: int, columns: int) -> None:
    couplings = draw_couplings(rows, columns, rows * columns)
    model = Model(dict(sizes_of(rows, columns)), list(factors_of(couplings)))
    expected = float(brute.log_sum(brute.log_weights(model, {})))
    assert log_partition(rows, columns, couplings) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("n", [*range(2, 13), 16])
def test_square_grids(n: int) -> None:
    couplings = draw_couplings(n, n, seed=n)
    graph = factors.FactorGraph(sizes_of(n, n), factors_of(couplings))
    assert graph.log_partition() == pytest.approx(log_partition(n, n, couplings), rel=1e-10)


@pytest.mark.parametrize(("rows", "columns"), [(2, 60), (100, 3), (7, 40)])
def test_long_grids(rows: int, columns: int) -> None:
    couplings = draw_couplings(rows, columns, seed=rows)
    graph = factors.FactorGraph(sizes_of(rows, columns), factors_of(couplings))
    assert graph.log_partition() == pytest.approx(log_partition(rows, columns, couplings), rel=1e-10)


def by_rows(rows: int, columns: int, couplings: Couplings) -> float:
    """Return log Z row by row, in logarithms: strong couplings leave no digits to a determinant."""
    spins = 1 - 2 * np.array(list(np.ndindex((2,) * columns)), float)
    total = np.zeros(len(spins))
    for i in range(rows):
        if i:
            down = np.array([couplings[(i - 1, j), (i, j)] for j in range(columns)])
            total = np.logaddexp.reduce(total[:, None] + (spins * down) @ spins.T, axis=0)
        for j in range(columns - 1):
            total = total + couplings[(i, j), (i, j + 1)] * spins[:, j] * spins[:, j + 1]
    return float(np.logaddexp.reduce(total))


@pytest.mark.parametrize("scale", [0.5, 40.0, 300.0])
def test_strong_couplings_whose_weights_leave_the_range_of_float64(scale: float) -> None:
    """At 300 the tables themselves would overflow, so that logarithms are given."""
    couplings = draw_couplings(8, 8, seed=1, scale=scale)
    expected = by_rows(8, 8, couplings)
    assert scale > 1 or expected == pytest.approx(log_partition(8, 8, couplings), rel=1e-12)
    logs = [(edge, j * np.array([[1.0, -1.0], [-1.0, 1.0]])) for edge, j in couplings.items()]
    assert factors.FactorGraph(sizes_of(8, 8), logs, log=True).log_partition() == pytest.approx(expected, rel=1e-12)
    if scale < 100:
        graph = factors.FactorGraph(sizes_of(8, 8), factors_of(couplings))
        assert graph.log_partition() == pytest.approx(expected, rel=1e-12)


def test_logarithms_of_a_grid() -> None:
    couplings = draw_couplings(9, 9, seed=9)
    logs = [(edge, np.log(table)) for edge, table in factors_of(couplings)]
    graph = factors.FactorGraph(sizes_of(9, 9), logs, log=True)
    assert graph.partition("log") == pytest.approx(log_partition(9, 9, couplings), rel=1e-10)


def test_marginals_are_the_derivatives_of_log_z() -> None:
    """A coupling's expected product of spins is the derivative of log Z in it, here by central differences."""
    couplings = draw_couplings(6, 6, seed=6)
    graph = factors.FactorGraph(sizes_of(6, 6), factors_of(couplings))
    for edge in list(couplings)[::17]:
        table = np.asarray(graph.marginal(*edge))
        moved = [log_partition(6, 6, {**couplings, edge: couplings[edge] + step}) for step in (1e-5, -1e-5)]
        product_of_spins = table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]
        assert product_of_spins == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-7)


def test_marginals_without_a_field_are_even() -> None:
    marginals = factors.FactorGraph(sizes_of(10, 10), factors_of(draw_couplings(10, 10, seed=3))).marginals()
    assert max(np.max(np.abs(np.asarray(chances) - 0.5)) for chances in marginals.values()) < 1e-12
