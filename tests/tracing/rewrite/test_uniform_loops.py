"""Loops whose iterations look alike in the source, by the lines of the loop."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.tracing.rewrite.uniform_loops import uniform_loop


def test_places_of_loops() -> None:
    def function(x: Any) -> Any:
        for i in range(20): x[i] = 1.0  # noqa: E701
        for i in range(20):
            x[i] = math.sqrt(2.0)
        while x[0] > 5:
            for i in range(20):
                x[i] = i
        return x

    code = function.__code__
    first = code.co_firstlineno
    assert uniform_loop(code, first + 1, 8) is not None
    assert uniform_loop(code, first + 2, 8) is not None
    assert uniform_loop(code, first + 5, 12) is None
    assert uniform_loop(code, first + 2, 9) is None
