"""Random formulas over all dtypes against NumPy; 100 here, JITFUSE_TEST_SCALE times as many where it is set."""
from __future__ import annotations

import os
import random

import pytest
from compare import check
from expressions import draw_expression

SCALE = int(os.environ.get("JITFUSE_TEST_SCALE", "1"))


@pytest.mark.parametrize("block", range(2))
def test_formulas_agree_with_numpy(block: int) -> None:
    for number in range(50 * SCALE):
        program = draw_expression(random.Random(f"{block}/{number}"))
        failure = check(program)
        assert failure is None, f"{failure}\n{program.script()}"
