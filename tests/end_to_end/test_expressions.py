"""Random formulas over all dtypes against NumPy; 100 here, JITFUSE_TEST_SCALE times as many where it is set."""
from __future__ import annotations

import random

import pytest
from amount import drawn
from compare import check
from expressions import draw_expression


@pytest.mark.parametrize("block", range(2))
def test_formulas_agree_with_numpy(block: int) -> None:
    for number in range(drawn(50)):
        program = draw_expression(random.Random(f"{block}/{number}"))
        failure = check(program)
        assert failure is None, f"{failure}\n{program.script()}"
