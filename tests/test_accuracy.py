"""docs/accuracy.md lists every inexact function within its promise, and a small sample of each keeps to it."""
from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from exact_functions import accuracy_tool

from jitfuse.ir.operators import ops

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
INEXACT = [op for op in ops.table() if op.kind == ops.ELEMENTWISE and op.ulps]


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    pytest.importorskip("mpmath")
    return accuracy_tool()


def rows() -> dict[str, list[str]]:
    """The cells of the page's table by function."""
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines if cells[0] not in ("function", "---")}


def test_the_page_lists_every_inexact_function_within_its_promise() -> None:
    assert list(rows()) == [op.name for op in INEXACT], "run: python tests/surface/make_pages.py"
    for op in INEXACT:
        promised, single, _, double, _, _ = rows()[op.name]
        assert float(promised) == op.ulps
        assert float(single) <= op.ulps and float(double) <= op.ulps, op.name


def test_the_page_is_the_tools_and_only_new_rows_are_measured(accuracy: ModuleType) -> None:
    known = accuracy.rows(PAGE)
    assert accuracy.page(known=known) == PAGE, "run: python tests/surface/make_pages.py"
    del known["sinc"]
    made = accuracy.rows(accuracy.page(60, known))
    assert made.keys() == accuracy.rows(PAGE).keys() and made["sinc"] != accuracy.rows(PAGE)["sinc"]
    assert {name: row for name, row in made.items() if name != "sinc"} == known


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", INEXACT, ids=lambda op: op.name)
def test_a_sample_keeps_the_promise(accuracy: ModuleType, op: ops.Op, dtype: str) -> None:
    worst = accuracy.measure(op, dtype, 60, seed=1)
    assert worst.samples > 20
    assert worst.ulps <= op.ulps, worst


def test_errors_are_found(accuracy: ModuleType) -> None:
    m = accuracy.m
    assert accuracy.error(1.0, m.mpf(1), "float64", 0) == 0
    assert accuracy.error(float(np.nextafter(1.0, 2.0)), m.mpf(1), "float64", 0) == 1
    assert accuracy.error(np.inf, m.mpf(10) ** 400, "float64", 0) == 0
    assert accuracy.error(np.inf, m.mpf(10) ** 300, "float64", 0) == np.inf
    assert accuracy.error(5e-324, m.mpf(0), "float64", 0) == 1
