"""What evaluation of a train step costs: it launches what a function without training launches, with the same bits."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

COUNTER = 2
"""The launches that read the random state and move it on by one, in both modes: two numbers each."""
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(16, 8)), rng.integers(3, size=16)


class Model:
    """A small network with all that training moves; `plain` is its forward pass in evaluation, written by hand."""

    def __init__(self) -> None:
        self.p = jf.nn.parameters({"w": rng.normal(size=(8, 6)), "scale": np.ones(6), "shift": np.zeros(6),
                                   "v": rng.normal(size=(6, 3))})
        self.mean, self.var = jf.Buffer(rng.normal(size=6), "mean"), jf.Buffer(1 + rng.random(6), "var")
        self.optimiser = jf.optim.AdamW(self.p, lr=jf.optim.Cosine(1e-2, steps=100), clip_norm=1.0)
        self.average = jf.optim.EMA(self.p, decay=0.9)

    def step(self, x: Any, y: Any) -> Any:
        p = self.p
        h = jf.nn.batch_norm(jf.nn.linear(x, p["w"]), p["scale"], p["shift"], self.mean, self.var)
        logits = jf.nn.linear(jf.nn.dropout(jf.nn.relu(h), 0.2), p["v"])
        loss = jf.nn.cross_entropy(logits, y)
        self.optimiser.minimize(loss)
        self.average.update()
        return loss, logits

    def plain(self, x: Any, y: Any) -> Any:
        p = self.p
        h = jf.nn.batch_norm(jf.nn.linear(x, p["w"]), p["scale"], p["shift"], self.mean, self.var, training=False)
        logits = jf.nn.linear(jf.nn.relu(h), p["v"])
        return jf.nn.cross_entropy(logits, y), logits


def launches(fused: Any, *args: Any, **mode: bool) -> int:
    """Return what a call launches once native code answers it."""
    for _ in range(3):
        fused(*args, **mode)
    before = fused.stats()["launches"]
    fused(*args, **mode)
    return int(fused.stats()["launches"] - before)


def test_evaluation_launches_what_the_forward_pass_does() -> None:
    model = Model()
    step, plain = jf.fuse(model.step, training=True), jf.fuse(model.plain)
    for _ in range(3):
        step(X, Y)
        for mine, its in zip(step(X, Y, training=False), plain(X, Y), strict=True):
            np.testing.assert_array_equal(mine, its)
    assert launches(step, X, Y, training=False) == launches(plain, X, Y) + COUNTER < launches(step, X, Y)


@pytest.mark.parametrize(("function", "count"), [
    (lambda x, b, o: jf.nn.dropout(x, 0.5) * 2, 1 + COUNTER),
    (lambda x, b, o: o.apply([x[0]]) or x * 2, 1),
    (lambda x, b, o: jf.nn.batch_norm(x, None, None, *b), 1),
])
def test_what_each_part_launches_in_evaluation(function: Callable[..., Any], count: int) -> None:
    a = jf.Parameter(np.ones(8), "a")
    buffers, optimiser = (jf.Buffer(np.zeros(8)), jf.Buffer(np.ones(8))), jf.optim.Adam([a])
    fused = jf.fuse(lambda x: function(x, buffers, optimiser))
    assert launches(fused, X) == count


def test_donated_arguments_are_refused_with_state_too() -> None:
    """`donate=` is of a later version; state is written in place without it."""
    model = Model()
    with pytest.raises(jf.ArgumentError, match="donate= is not available"):
        jf.fuse(model.step, training=True, donate="x")
    with pytest.raises(jf.ArgumentError, match="donate= is not available"):
        jf.fuse(jf.fuse(model.plain).program(X, Y), donate=("feeds",))
    memory = model.p["w"].array.ctypes.data
    jf.fuse(model.step, training=True)(X, Y)
    assert model.p["w"].array.ctypes.data == memory
