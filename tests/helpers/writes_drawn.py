"""Draw arrays that are made, and writes into arrays."""
from __future__ import annotations

from typing import Any

import numpy as np
from drawing import DTYPES, Drawing
from elementwise_drawn import OPERATORS


class Writes(Drawing):
    """Steps that make memory or change it."""

    def _create(self) -> None:
        rng = self.rng
        like = self._pick(lambda v: isinstance(v, np.ndarray))
        shape = np.shape(self.values[like]) if like else (3,)
        dtype = rng.choice(DTYPES)
        n = rng.choice((0, 1, 3, 5, 17)) if not shape else shape[-1]
        text = rng.choice((
            f"np.zeros({shape}, '{dtype}')", f"np.ones({shape})", f"np.full({shape}, {rng.choice((2, -1.5, 7))})",
            f"np.arange({n})", f"np.arange({n}, dtype='float32')", f"np.arange(1, {2 * n + 1}, 2)",
            f"np.arange(0.5, {n})", f"np.zeros_like({like})" if like else "np.zeros(3)",
            f"np.eye({min(n, 7)})", f"np.linspace(0, 1, {n})",
            f"np.array({[rng.choice((0.5, -1, 2, 7.25)) for _ in range(n)]})",
        ))
        self._assign_to(text, (like,) if like and f"({like})" in text else ())

    def _writable(self) -> str | None:
        # what is computed at rank 0 is a scalar in jitfuse, where NumPy makes an array of some of it
        return self._pick(self._is_own)

    def _is_own(self, v: Any) -> bool:
        written = isinstance(v, np.ndarray) and v.flags.writeable
        return written and (np.ndim(v if v.base is None else v.base) > 0 or self._is_argument(v))

    def _assign(self) -> None:
        x = self._writable()
        if x is None:
            return
        index = self._index(np.shape(self.values[x])) if np.ndim(self.values[x]) else self.rng.choice(("...", "()"))
        try:
            region = np.shape(self.values[x][eval(f"np.s_[{index}]", {"np": np})])
        except IndexError:
            return
        y = self._pick(lambda v: _fits(np.shape(v), region))
        value = self.rng.choice((y, y, y, "0", "2", "1.5")) or "1"
        self._change(f"{x}[{index}] {self.rng.choice(('=', '=', '+=', '*='))} {value}", x, (x, value))

    def _in_place(self) -> None:
        x = self._writable()
        if x is None:
            return
        y = self._pick(lambda v: _fits(np.shape(v), np.shape(self.values[x]))) or x
        name = self.rng.choice(("add", "subtract", "multiply"))
        self._change(self.rng.choice((f"{x} {OPERATORS[name]}= {y}", f"np.{name}({x}, {y}, out={x})")), x, (x, y))

    def _renamed(self) -> None:
        """Give a value a second name, and change one of the two: both, where it is an array, else one."""
        x = self._pick(lambda v: isinstance(v, np.generic) or self._is_own(v))
        if x is None:
            return
        second = self._assign_to(x, (x,))
        y = self._pick(lambda v: _fits(np.shape(v), np.shape(self.values[x])))
        if second is not None and y is not None:
            self._change(f"{second} {self.rng.choice(('+', '-', '*'))}= {y}", second, (second, y))

    def _gathered(self) -> None:
        """Index by integers that are data, or that are known; write there too."""
        rng = self.rng
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.size > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis = rng.randrange(len(shape))
        i = self._pick(lambda v: isinstance(v, np.ndarray) and v.dtype.kind in "iu" and 0 < v.size <= 200)
        index, reads = f"[{rng.randrange(-shape[axis], shape[axis])}, 0]", (x,)
        if i is not None and rng.random() < 0.8:
            index, reads = f"({i} % {shape[axis]})", (x, i)
        lead = ":, " * axis
        count = np.size(self.values[i]) if i is not None else 2
        if np.size(self.values[x]) // shape[axis] * count > self.max_size:
            return
        form = rng.random()
        if form < 0.25:
            target = self._writable()
            if target == x and self.values[x].dtype != bool and self.values[x].ndim == len(shape):
                self._change(rng.choice((
                    f"{x}[{lead}{index}] = {rng.randint(0, 3)}", f"{x}[{lead}{index}] += 1",
                    f"np.add.at({x}, ({lead.replace(':', 'slice(None)')}{index},), 1)",
                )), x, reads)
            return
        self._assign_to(rng.choice((
            f"{x}[{lead}{index}]", f"np.take({x}, {index}, axis={axis})", f"{x}[{lead}{index}, ..., None]",
            f"np.take({x}, {index}, axis={axis}, mode='{rng.choice(('wrap', 'clip'))}')",
            f"np.take_along_axis({x}, np.argsort({x}, axis={axis}, stable=True), axis={axis})",
        )), reads)


def _fits(shape: tuple[int, ...], region: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, region) == region
    except ValueError:
        return False
