"""Slices beside their structures: as much memory as is allowed, no more work than is said, or an error with figures."""
from __future__ import annotations

import time
from itertools import product
from math import prod

import numpy as np
import pytest

from jitfuse.errors import TooLargeError
from jitfuse.factors.orders.cost import buckets, cost
from jitfuse.factors.orders.search import best_order
from jitfuse.factors.orders.slicing import conditioned, sliced_variables
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import complete, grid


@pytest.mark.parametrize(("structure", "limit", "keep"), [
    (grid(8, 8), 2000, False), (grid(8, 8), 20_000, True), (grid(5, 5, 3), 1000, False), (grid(5, 5, 3), 6000, True),
    (complete(9), 500, False), (complete(9), 1000, True),
])
def test_slices_fit(structure: Structure, limit: int, keep: bool) -> None:
    whole = best_order(structure, budget=1000)
    found = best_order(structure, budget=1000, limit_bytes=limit, keep=keep)
    assert whole.cost.bytes(keep=keep) > limit >= found.cost.bytes(keep=keep)
    assert found.slices == prod(structure.sizes[v] for v in found.sliced) > 1
    assert found.cost == cost(conditioned(structure, found.sliced), found.order)
    overhead = found.slices * found.cost.operations / whole.cost.operations
    assert 0.9 < overhead < 40  # factors of sliced variables alone are numbers, and not counted


def test_slices_sum_to_the_whole() -> None:
    structure = grid(4, 4)
    rng = np.random.default_rng(0)
    tables = [rng.random([2] * len(scope)) for scope in structure.scopes]
    found = best_order(structure, limit_bytes=100)

    def partition(structure: Structure, tables: list[np.ndarray]) -> float:
        messages: dict[int, tuple[tuple[int, ...], np.ndarray]] = {}
        for bucket in buckets(structure, found.order):
            inputs = [messages[c] for c in bucket.children] + [(structure.scopes[f], tables[f]) for f in bucket.factors]
            rest = tuple(v for v in bucket.scope if v != bucket.variable)
            arguments = [part for scope, table in inputs for part in (table, list(scope))]
            messages[bucket.variable] = rest, np.asarray(np.einsum(*arguments, list(rest)) if inputs else 1.0)
        numbers = [messages[b.variable][1] for b in buckets(structure, found.order) if b.parent is None]
        return float(prod(numbers))

    def slice_of(values: dict[int, int]) -> float:
        places = [tuple(values.get(v, slice(None)) for v in scope) for scope in structure.scopes]
        cut = [table[place] for table, place in zip(tables, places)]
        one = conditioned(structure, values)
        scalars = [float(table) for table, scope in zip(cut, one.scopes) if not scope]
        return partition(one, cut) * float(prod(scalars))

    assert len(found.sliced) > 1
    total = sum(slice_of(dict(zip(found.sliced, values))) for values in product(range(2), repeat=len(found.sliced)))
    assert total == pytest.approx(partition(structure, tables), rel=1e-12)


def test_what_is_not_feasible_is_refused_with_figures() -> None:
    structure = complete(200)
    start = time.process_time()
    with pytest.raises(TooLargeError, match=r"2\^200\.0 numbers \(200 variables\)") as refused:
        best_order(structure, limit_bytes=1 << 33)
    assert time.process_time() - start < 10
    error = refused.value
    assert (error.states, error.limit) == (200.0, 1 << 33) and error.bytes >= 8 << 199
    with pytest.raises(TooLargeError, match="conditioning on"):
        best_order(grid(12, 12), budget=0, limit_bytes=200, most_operations=1 << 22)


def test_nothing_is_sliced_where_it_fits() -> None:
    structure = grid(4, 4)
    order = best_order(structure).order
    assert sliced_variables(structure, order, 1 << 20) == ((), cost(structure, order))
    assert best_order(structure, limit_bytes=1 << 20) == best_order(structure)
