"""What `plan` shows before a query runs: figures, the libraries that were asked, the passes over the program."""
from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from factors.kac_ward import draw_couplings, factors_of, log_partition, sizes_of

from jitfuse import factors
from jitfuse.errors import ArgumentError
from jitfuse.factors.ir.text import to_text
from jitfuse.factors.ir.verify import verify


def grid(n: int, **options: object) -> factors.FactorGraph:
    return factors.FactorGraph(sizes_of(n, n), factors_of(draw_couplings(n, n, seed=n)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["goatd", "opt_einsum", "cotengra"])
def test_libraries_are_asked_for_orders(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    graph = grid(5, libraries=[name])
    report = graph.plan()
    assert name in [candidate.method for candidate in report.ordered.candidates]
    assert f"  {name}: largest 2^" in str(report)
    assert name not in str(grid(5).plan())
    assert graph.log_partition() == pytest.approx(log_partition(5, 5, draw_couplings(5, 5, seed=5)), rel=1e-10)


def test_an_unknown_library_is_named() -> None:
    with pytest.raises(ArgumentError, match="there is no 'metis'"):
        grid(3, libraries=("metis",)).plan()


def test_passes_are_shown_with_the_program_before_and_after() -> None:
    graph = factors.FactorGraph({"a": 2, "b": 2}, [(("a",), [1, 2]), (("a", "b"), np.ones((2, 2)))])
    report = graph.plan()
    text = report.explain()
    assert text.startswith(str(report))
    for name in ("free_early", "dead_code", "common_subexpressions", "fuse_eliminations", "by_level"):
        assert name in text
    before, after = text.split("before:\n")[1].split("\n\nafter:\n")
    assert "ELIMINATE" in before and after == to_text(graph.program())
    assert verify(graph.program(), factors=2) == ()
    assert "STORE_SLOT slot=('Z')" in after
