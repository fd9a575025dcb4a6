"""How often a function is traced anew for its branches is bounded, however many of them are refused."""
from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.graph_breaks.limits import MAX_BRANCHINGS

REFUSED = """
def function(x, other):
    total = 0.0
    for i in range(len(x)):
        v = x[i]
{branches}
    return total
"""
"""Arms that call the user's functions are refused one by one, as the trace comes to them."""
HELPED = """
{helpers}
def function(x, other):
    total = 0.0
    for i in range(len(x)):
{calls}
    return total
"""
"""Each helper's branches are asked to go both ways when its first has been looked at, which ends the run."""


def built(text: str) -> Callable[..., Any]:
    """Return the function of a text that has lines as a file has."""
    name = f"<built {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names["function"]  # type: ignore[no-any-return]


def refusing(n: int) -> Callable[..., Any]:
    return built(REFUSED.format(branches="\n".join(
        f"        if v > {k / n - 0.5}:\n            total = total + other(v)" for k in range(n))))


def helping(n: int) -> Callable[..., Any]:
    return built(HELPED.format(
        helpers="\n".join(f"def h{k}(v, other):\n    if v > {k / n - 0.5}:\n        v = other(v) * {k}\n    return v\n"
                          for k in range(n)),
        calls="\n".join(f"        total = total + h{k}(x[i], other)" for k in range(n))))


def double(v: Any) -> Any:
    return v * 2


@pytest.mark.parametrize("made", [refusing, helping])
@pytest.mark.parametrize("n", [1, MAX_BRANCHINGS - 1, MAX_BRANCHINGS, 3 * MAX_BRANCHINGS])
def test_traces_anew_are_bounded(made: Callable[[int], Any], n: int) -> None:
    function = made(n)
    fused = jf.fuse(lambda x: function(x, double))
    traces = []
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=7)
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_allclose(fused(x), function(x, double), rtol=1e-12)
        traces.append(fused.stats()["traces"])
    assert traces[0] <= 1 + MAX_BRANCHINGS
    assert traces[-1] - traces[0] <= 3  # one for each call that goes another way
    if n > MAX_BRANCHINGS:
        assert traces == [traces[0]] * 4  # and then it is plain Python
        assert made is helping or traces[0] == 1 + MAX_BRANCHINGS  # fewer, where helpers are part of their loops
        assert fused.stats()["fallbacks"] == 4


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sizes_after_the_bound(n: int) -> None:
    function = refusing(2 * MAX_BRANCHINGS)
    fused = jf.fuse(lambda x: function(x, double))
    for x in (np.linspace(-1, 1, 8), np.linspace(-1, 1, n), np.array([np.nan, -0.0, 0.0, np.inf])[:n]):
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_allclose(fused(x), function(x, double), rtol=1e-12)
