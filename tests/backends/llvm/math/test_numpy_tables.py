"""The tables that come with NumPy: bit patterns of arguments and results, chosen to be difficult.

Every operator whose NumPy function has a table is compared with it, within the table's own tolerance and 1 ulp.
"""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jitfuse.backends.llvm.math import FUNCTIONS
from jitfuse.ir.operators import ops

TABLES = Path(np.__file__).parent / "_core/tests/data"
WIDTHS = {"np.float32": (np.float32, np.uint32), "np.float64": (np.float64, np.uint64)}


def tables() -> Iterator[tuple[str, Path]]:
    """Yield (operator, file) for every operator that has a table."""
    for op in ops.table():
        path = TABLES / f"umath-validation-set-{getattr(op.numpy, '__name__', op.name)}.csv"
        if path.exists():
            yield op.name, path


CASES = dict(tables())


def test_every_table_has_its_operator_where_numpy_brings_them():
    if not TABLES.exists():
        pytest.skip("this NumPy comes without its tests")
    assert {"exp", "log", "sin", "tan", "asin", "acosh", "cbrt"} <= CASES.keys()


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", CASES)
def test_table(name, target, kernel, ulps):
    assert name in FUNCTIONS
    rows = np.genfromtxt(CASES[name], dtype=str, comments="#", delimiter=",", skip_header=1)
    assert set(rows[:, 0]) <= WIDTHS.keys()
    for kind, (dtype, integer) in WIDTHS.items():
        mine = rows[rows[:, 0] == kind]
        x, expected = (np.array([int(v, 16) for v in mine[:, k]], np.uint64).astype(integer) for k in (1, 2))
        if not x.size:
            continue
        errors = ulps(kernel(name, dtype, target=target)(x.view(dtype)), expected.view(dtype).astype(np.float64))
        # the expected values are rounded themselves
        assert (errors <= np.minimum(mine[:, 3].astype(np.float64), 1)).all(), x[errors.argmax()]
