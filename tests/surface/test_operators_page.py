"""The support table is what the op table says, and every operator in it runs in a kernel and in the interpreter."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amount import extended
from surface import operators_page

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import AbstractTensor

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == operators_page.support_page(), "run: python tests/surface/make_pages.py"


def test_every_operator_is_a_row_and_a_method() -> None:
    names = [row[0].strip("`") for row in operators_page.rows()]
    assert names == list(ops.names())
    for op in ops.table():
        assert op.kind == ops.CREATION or callable(getattr(AbstractTensor, op.name))


SPECIAL = ("astype", "require")
OPERATORS = [op for op in ops.table() if op.kind in (ops.ELEMENTWISE, ops.REDUCTION) and op.name not in SPECIAL]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_kernels_agree_with_the_interpreter(op: ops.Op) -> None:
    count = op.arity
    accepted = operators_page.accepted_dtypes(op)
    for dtype in accepted if extended() else accepted[OPERATORS.index(op) % 4 :: 4] or accepted[:1]:
        arrays = [np.array([[1, 0, 3, 2], [2, 1, 1, 3]], numpy_dtype(dtype))[:, ::-1] for _ in range(count)]
        fused = jf.fuse(lambda *xs: xs[0].call(op.name, *xs[1:]))
        program = fused.program(*arrays)
        assert op.name in [s.op_name for s in program.steps]
        feeds = dict(zip(program.ordered_feeds, arrays, strict=True))
        (want,) = jf.ProgramRunner(program)(feeds).outputs.values()
        got = fused(*arrays)
        assert fused.stats()["fallbacks"] == 0, f"operator {op.name} of {dtype} has no kernel"
        assert np.asarray(got).dtype == np.asarray(want).dtype
        limits = {"float32": 1e-6, "complex64": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
        rtol = limits.get(np.asarray(want).dtype.name, 1e-14)
        if np.asarray(want).dtype.name == "bfloat16":
            got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
        np.testing.assert_allclose(got, want, rtol=rtol)
