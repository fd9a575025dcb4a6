"""Scans that are one loop in a mode: which are shared, and that results stay as they are, bit by bit."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.passes.pipeline import run_passes
from jitfuse.tracing.tracer import trace

X = np.random.default_rng(0).normal(size=(6, 3))


def decayed(rate: float, *, more: bool = False, x: Any = None) -> Any:
    """Return the results of a scan that decays: the last value, and those of all rounds."""
    def cell(c: Any, a: Any) -> Any:
        new = np.tanh(c * rate + a)
        return new, (new * 2, c, a - new) if more else new * 2

    return jf.scan(cell, np.zeros(3), x)


def scans(program: Any) -> int:
    return [s.op_name for s in program.steps].count("scan")


@pytest.mark.parametrize(("function", "left"), [
    (lambda x: (decayed(0.5, x=x), decayed(0.5, x=x)), 1),
    (lambda x: (decayed(0.5, x=x), decayed(0.5, more=True, x=x)), 1),
    (lambda x: (decayed(0.5, more=True, x=x), decayed(0.5, x=x), decayed(0.5, x=x)[1].sum()), 1),
    (lambda x: (decayed(0.5, x=x), decayed(0.25, x=x)), 2),
    (lambda x: (decayed(0.0, x=x), decayed(-0.0, x=x)), 2),
    (lambda x: (decayed(0.5, x=x), decayed(0.5, x=x + 1)), 2),
    (lambda x: (jf.scan(lambda c, a: (c + a, c), x[0], x), jf.scan(lambda c, a: (c + a, c), x[0], x, reverse=True)), 2),
    (lambda x: (jf.scan(lambda c, a: (c + a, c), x[0], x), jf.scan(lambda c, a: (c + a, c), x[1], x)), 2),
    (lambda x: (jf.scan(lambda c, a: (c + a, c * 2), x[0], x), jf.scan(lambda c, a: (c + a, c * 3), x[0], x)), 2),
    (lambda x: (jf.scan(lambda c, a: (c - a, c), x[0], x), jf.scan(lambda c, a: (a - c, c), x[0], x)), 2),
    (lambda x: (jf.scan(lambda c, a: ((c[1], c[0]), a), (x[0], x[1]), x),
                jf.scan(lambda c, a: ((c[1], c[1]), a), (x[0], x[1]), x)), 2),
    (lambda x: jf.scan(lambda c, row: (c + decayed(0.5, x=x)[0] + decayed(0.5, more=True, x=x)[0], row), x[0], x), 1),
])
def test_scans_of_equal_rounds_are_one(
    traced: Callable[..., Any], assert_same: Callable[..., None], function: Any, left: int
) -> None:
    call = traced(function, X)
    made = run_passes(call.program, False)
    assert scans(made) == left
    assert_same(call.run(made), call.run(call.program))


def test_scans_in_a_round_are_shared(traced: Callable[..., Any]) -> None:
    call = traced(
        lambda x: jf.scan(lambda c, row: (c + decayed(0.5, x=x)[0] + decayed(0.5, x=x)[1][0], row), x[0], x), X)
    (outer,) = (s for s in run_passes(call.program, False).steps if s.op_name == "scan")
    assert scans(outer.attr("body")) == 1


def test_a_loss_behind_a_loop_has_one_forward_loop_in_each_mode() -> None:
    """In training the one that remembers, in evaluation the function's own, as a step without `minimize` has it."""
    rng = np.random.default_rng(1)
    params = jf.nn.parameters({"w": rng.normal(size=(3, 3)) * 0.3})
    optimiser = jf.optim.Adam(params)

    def forward(x: Any) -> Any:
        def cell(c: Any, a: Any) -> Any:
            c = np.tanh(c @ params["w"] + a)
            return c, c.sum()

        c, sums = jf.scan(cell, np.zeros(3), x)
        return np.mean(c**2) + sums.mean(), sums

    def stepping(x: Any) -> Any:
        loss, sums = forward(x)
        optimiser.minimize(loss)
        return loss, sums

    program = trace(stepping, [X], {}).program
    assert scans(program) == 3
    assert scans(run_passes(program, True)) == 2  # one runs backwards
    assert scans(run_passes(program, False)) == 1
    step, plain = jf.fuse(stepping, training=True), jf.fuse(forward)
    for _ in range(3):
        expected = plain(X)
        for training in (False, True):
            loss, sums = step(X, training=training)
            assert loss == expected[0]
            np.testing.assert_array_equal(sums, expected[1])
