"""Draw random programs: every operator, dtype and kind of view, with shapes known to fit.

Each statement is tried on NumPy as it is drawn, so that shapes and dtypes of all values are known. Owns the
distribution; the kinds of steps are in files of their own. Any `random.Random` drives it, hypothesis's too.
"""
from __future__ import annotations

import random
from collections.abc import Callable

from arrangements_drawn import Arrangements
from calls_drawn import EXACT_REDUCTIONS, Calls
from elementwise_drawn import BINARY, INEXACT, OPERATORS, Elementwise
from hypothesis import strategies as st
from programs import Program, Statement
from writes_drawn import Writes


def programs(max_steps: int = 20) -> st.SearchStrategy[Program]:
    """Return a hypothesis strategy of programs."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_program(rng, max_steps))


def draw_program(
    rng: random.Random, max_steps: int = 20, *, large: bool = False, overlapping: bool = False
) -> Program:
    """Draw one program of up to `max_steps` steps, over small arrays or large ones, or over arrays that overlap."""
    return _Statements(rng, large, overlapping).program(rng.randint(1, max_steps))


class _Statements(Elementwise, Arrangements, Calls, Writes):
    def program(self, steps: int) -> Program:
        rng = self.rng
        self._draw_sources()
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._unary, 4), (self._binary, 9), (self._scalar_binary, 5), (self._where, 2), (self._clip, 1),
            (self._astype, 2), (self._reduction, 4), (self._softmax, 1), (self._slice, 4), (self._axes, 4),
            (self._reshape, 2), (self._join, 2), (self._broadcast, 1), (self._matmul, 1), (self._create, 2),
            (self._reduced, 3), (self._scanned, 3),
            (self._library, 3), (self._rearranged, 4), (self._gathered, 4), (self._product, 2), (self._assign, 2),
            (self._in_place, 1), (self._renamed, 1), (self._derived, 3), (self._rare, 4),
        ]
        draws, weights = zip(*kinds)
        attempts = 0
        while len(self.statements) < steps and attempts < 5 * steps:
            attempts += 1
            rng.choices(draws, weights)[0]()
        if rng.random() < 0.06:
            self._provoke()
        made = [s.target for s in self.statements if s.target in self.values]
        outputs = [made[-1]] if made else [self.sources[0].name]
        known = sorted(n for n, v in self.values.items() if v is not None)
        for name in rng.sample(known, min(len(known), rng.choice((0, 0, 1, 2, 3, 6)))):
            if name not in outputs:
                outputs.append(name)
        container = rng.choice(("tuple", "single", "list", "dict"))
        if container == "single":
            outputs = outputs[:1]
        return Program(tuple(self.sources), tuple(self.statements), tuple(outputs), container)

    def _provoke(self) -> None:
        """Add a last statement that may well be wrong: shapes that do not fit, dtypes that an operator refuses."""
        rng = self.rng
        x, y = self._pick() or "0", self._pick() or "1"
        name, axis = f"v{len(self.statements)}", rng.randint(-5, 5)
        text = rng.choice((
            f"{x} {rng.choice(sorted(OPERATORS.values()))} {y}", f"jf.{rng.choice(INEXACT)}({x})", f"({x} + 0) @ {y}",
            f"np.{rng.choice(EXACT_REDUCTIONS)}({x}, axis={axis})", f"np.reshape({x}, ({max(axis, -1)}, 3))",
            f"{x}[{axis}]", f"{x}[:, {axis}]",
            f"np.concatenate([{x}, {y}], axis={axis})", f"np.stack([{x}, {y}])", f"np.broadcast_to({x}, (3, {axis}))",
            f"np.moveaxis({x}, {axis}, 0)", f"np.transpose({x}, ({axis}, 0))",
            f"np.{rng.choice(BINARY)}({x}, {y})", f"np.expand_dims({x}, {axis})", f"np.clip({x}, {y}, 2)",
            f"np.where({x}, {y}, {x})", f"np.maximum({x}, 2**40)", f"{x}.astype('longdouble')",
        ))
        self.statements.append(Statement(f"{name} = {text}", name, tuple(n for n in (x, y) if n in self.values), "ulp"))
        self.values[name] = None
