"""Random programs around matrix products: operands, what follows, chains, layouts and sizes drawn at random."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from amount import drawn
from programs import quiet

import jitfuse as jf
from jitfuse.plans.plan import CandidatePlan

UNARY = (
    "np.tanh({})", "np.abs({})", "np.maximum({}, 0)", "({} * 0.5)", "(-{})", "({} + 1)", "np.where({0} > 0, {0}, 2)",
)
BINARY = ("({} + {})", "({} * {})", "({} - {})", "np.maximum({}, {})")
SHAPES = (0, 1, 2, 3, 5, 14, 16, 17, 33, 64, 70)


class Drawing:
    """One program: source lines over arrays of random extents, layouts and dtype."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(("float32", "float64"))
        self.data = np.random.default_rng(rng.randrange(1 << 30))
        self.arrays: list[Any] = []
        self.lines: list[str] = []

    def array(self, *shape: int) -> str:
        x = self.data.uniform(-1, 1, shape).astype(self.dtype)
        layout = self.rng.randrange(5)
        if layout == 1:
            x = np.asfortranarray(x)
        elif layout == 2:
            x = x[..., ::-1]
        elif layout == 3 and x.ndim > 1:
            x = np.repeat(x, 2, axis=0)[::2]
        elif layout == 4:
            x = np.broadcast_to(x[..., :1], x.shape)
        self.arrays.append(x)
        return f"x{len(self.arrays) - 1}"

    def matrix(self, rows: int, columns: int) -> str:
        """Return an expression of this shape: an array, perhaps transposed, perhaps with a prologue."""
        text = f"{self.array(columns, rows)}.T" if self.rng.random() < 0.4 else self.array(rows, columns)
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            text = self.elementwise(text, rows, columns)
        return text

    def elementwise(self, text: str, rows: int, columns: int) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(UNARY).format(text)
        other = self.rng.choice(((rows, columns), (columns,), (rows, 1), (1, columns)))
        return self.rng.choice(BINARY).format(text, self.array(*other))

    def program(self) -> tuple[str, list[Any]]:
        m, k, n, p = (self.rng.choice(SHAPES) for _ in range(4))
        self.lines.append(f"c = {self.matrix(m, k)} @ {self.matrix(k, n)}")
        results = []
        for _ in range(self.rng.randrange(3)):
            self.lines.append(f"c = {self.elementwise('c', m, n)}")
        if m and n and self.rng.random() < 0.5:
            axis, name = self.rng.choice((0, 1)), self.rng.choice(("sum", "max", "mean"))
            self.lines.append(f"r = c.{name}(axis={axis}, keepdims=True)")
            self.lines.append(self.rng.choice(("c = c - r", "c = c / (1 + np.abs(r))", "d = r * 2")))
            results += ["r"]
        if self.rng.random() < 0.4:
            self.lines.append(f"c = c @ {self.matrix(n, p)}")
        if self.rng.random() < 0.3:
            results += ["c.T", "c + 1"]
        self.lines.append(f"return ({', '.join(['c', *results])},)")
        names = ", ".join(f"x{k}" for k in range(len(self.arrays)))
        body = "\n    ".join(self.lines)
        return f"def f({names}):\n    {body}\n", self.arrays


@pytest.mark.parametrize("number", range(drawn(40)))
def test_random_products(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidatePlan, "cost_ns", lambda self, choice: not self.policy.own)
    source, arrays = Drawing(random.Random(number)).program()
    space: dict[str, Any] = {"np": np}
    exec(compile(source, f"<product {number}>", "exec"), space)
    with quiet():
        expected = space["f"](*arrays)
        exact = space["f"](*(x.astype("f8") for x in arrays))
    fused = jf.fuse(space["f"])
    result = fused(*arrays)
    assert fused.stats()["fallbacks"] == 0
    for r, e, x in zip(result, expected, exact, strict=True):
        assert (r.dtype, r.shape) == (e.dtype, e.shape), source
        scale = np.abs(x).max(initial=1.0)
        np.testing.assert_allclose(r, x, rtol=0, atol=3e4 * np.finfo(r.dtype).eps * scale, err_msg=source)
