"""Names that arms of branches alone use: bound in some rounds and not in others, or left over from an arm of before."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import outcome, same_outcome

import jitfuse as jf

THRESHOLD = 0.2


def loop_in_a_branch(x: Any) -> Any:
    y = np.zeros((len(x), 3))
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            e = x[i] * 2
            for k in range(3):
                y[i, k] += e * k
    return y


def loops_in_a_branch(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            for a in range(2):
                for b in range(2):
                    t = x[i] + a
                    y[2 * a + b] += t * b
        else:
            for a in range(4):
                y[a] -= 0.5
    return y


def branch_in_a_branch(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        if x[i] > THRESHOLD:
            if x[i] > x[i - 1]:
                u = x[i] * 3
                y[i] = u
            else:
                u = x[i - 1]
                y[i] -= u
    return y


def read_after_a_loop_without_iterations(x: Any) -> Any:
    y, t = np.zeros(len(x)), -1.0
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            for k in range(i % 2):
                t = x[i] + k
            y[i] = t
    return y


def unbound_after_a_loop_without_iterations(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            for k in range(i % 2):
                t = x[i] + k
            y[i] = t
    return y


def variable_read_after_its_loop(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            for k in range(i % 3 + 1):  # noqa: B007
                y[i] += x[i]
            y[i] *= k
    return y


def kept_from_a_branch_before(x: Any) -> Any:
    y, u = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            if x[i] < 1:
                u = x[i]
            y[i] = u
    return y


def read_in_the_range(x: Any) -> Any:
    y, k = np.zeros(len(x)), 2
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            for k in range(k):  # noqa: B020
                y[i] += x[i] + k
            k = k + 2
    return y


def set_before_a_loop_and_changed_in_it(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            s = 0.0
            for k in range(1, 4):
                s = s + x[i] / k
            y[i] = s
        else:
            s = 1.0
            y[i] = s
    return y


def only_in_one_branch_of_the_inner(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            if i % 2:
                v = x[i]
            else:
                y[i] = v
    return y


FUNCTIONS: list[Callable[..., Any]] = [
    loop_in_a_branch, loops_in_a_branch, branch_in_a_branch, read_after_a_loop_without_iterations,
    unbound_after_a_loop_without_iterations, variable_read_after_its_loop, kept_from_a_branch_before, read_in_the_range,
    set_before_a_loop_and_changed_in_it, only_in_one_branch_of_the_inner,
]


@pytest.mark.parametrize(("function", "n"), crossed(2, FUNCTIONS, [24, 25]))
def test_names_of_branches(function: Callable[..., Any], n: int) -> None:
    fused = jf.fuse(function)
    for seed in range(6):
        x = np.random.default_rng(seed).normal(size=n)
        x[: seed % 4] = (-1.0, 1.5, -2.0)[: seed % 4]
        same_outcome(outcome(fused, x.copy()), outcome(function, x.copy()))


@pytest.mark.parametrize("function", [loop_in_a_branch, loops_in_a_branch, branch_in_a_branch])
def test_the_first_iterations_are_no_reads(function: Callable[..., Any]) -> None:
    """Whether the first rounds take an arm makes no other way through the function."""
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="error"):
        for seed in range(6):
            x = np.random.default_rng(seed).normal(size=24)
            same_outcome(fused(x.copy()), function(x.copy()))
    assert fused.stats()["traces"] <= 2
