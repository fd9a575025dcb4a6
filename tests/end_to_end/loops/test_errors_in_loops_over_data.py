"""Loops over ranges of data whose errors are caught, and that use up iterators."""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def caught_around(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    try:
        for i in range(12):
            for k in range(p[i], p[i + 1]):
                v = d[k]
            y[i] = v
    except Exception:
        y[0] = -1
    return y


def caught_afterwards(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v
    try:
        x[0] = v * k
    except NameError:
        x[0] = -1
    return x


def _last_of(p: Any, d: Any, i: Any) -> Any:
    for k in range(p[i], p[i + 1]):
        v = d[k]
    return v


def caught_by_the_caller(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    for i in range(12):
        try:
            y[i] = _last_of(p, d, i)
        except UnboundLocalError:
            y[i] = -1
    return y


def suppressed(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v
    with contextlib.suppress(NameError):
        x[0] = v * 3
    return x


def caught_in_a_closure(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v

    def last() -> Any:
        try:
            return v
        except NameError:
            return -1.0

    return last()


_fused_last = jf.fuse(_last_of)


def caught_around_a_fused_call(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    for i in range(12):
        try:
            y[i] = _fused_last(p, d, i)
        except Exception:
            y[i] = -1
    return y


def used_up(p: Any, d: Any, x: Any) -> Any:
    it = iter([1.0, 2.0, 3.0])
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            x[i] += d[k] * sum(it)
    return x


def used_up_in_a_branch(p: Any, d: Any, x: Any) -> Any:
    it = iter([1.0, 2.0, 3.0])
    for i in range(12):
        if d[i] > 0.3:
            x[i] += max(it, default=0.5)
    return x


@pytest.mark.parametrize("program", [
    caught_around, caught_afterwards, caught_by_the_caller, suppressed, caught_in_a_closure, caught_around_a_fused_call,
    used_up, used_up_in_a_branch,
])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_what_is_caught_and_used_up_is_python_s(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p = np.concatenate([[0], np.cumsum(rng.integers(1, 4, 12))])
        arguments = p, np.round(rng.random(int(p[-1])), 2), rng.random(12)
        want, got = program(*copy.deepcopy(arguments)), fused(*copy.deepcopy(arguments))
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
