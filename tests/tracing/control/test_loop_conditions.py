"""Tests of loops and branches that do more than compute: what they call is called as often as by plain Python."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops_run import agrees

import jitfuse as jf


def probed(log: Any, value: Any) -> Any:
    log.append(1)
    return value


def probed_by_an_if(x: Any) -> Any:
    log: list[int] = []
    ends, c = (x * 12).astype(int), 0
    for i in range(len(x)):
        for k in range(ends[i]):
            if probed(log, x[k]) > 0.5:
                c += 1
    return c, len(log)


def probed_in_a_branch(x: Any) -> Any:
    log: list[int] = []
    c = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            if probed(log, x[i - 1]) > 0.5:
                c += 1
        else:
            c += 2
    return c, len(log)


def probed_by_a_while(x: Any) -> Any:
    log: list[int] = []
    c = 0
    for i in range(len(x)):
        j = 0
        while j < 9 and probed(log, x[i]) * j < 2.5:
            j += 1
        c += j
    return c, len(log)


def popped_by_a_while(x: Any) -> Any:
    stack, c = list(range(12)) * 9, 0
    for i in range(len(x)):
        j = 0
        while x[i] * stack.pop() > 1.5 * j:
            j += 1
        c += j
    return c, len(stack)


@pytest.mark.parametrize("program", [probed_by_an_if, probed_in_a_branch, probed_by_a_while, popped_by_a_while])
def test_what_tests_call_is_called_as_often_as_by_python(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for seed in range(12):
        agrees(fused, program, (np.round(np.random.default_rng(seed).random(16), 2),))
