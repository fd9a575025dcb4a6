"""Draw functions of arrays that return one number, to be differentiated: statements over NumPy, loops and branches.

The text of a function names its libraries `xp` and `control`, so that NumPy, torch and jitfuse run the same one.
"""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import jitfuse as jf

LIMIT: Final = 60.0
"""Values stay below this, so that differences are accurate."""
SIZE: Final = 80


class Plain:
    """Loops and branches in Python, over arrays of any library."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def scan(self, body: Callable[..., Any], carry: Any, xs: Any) -> Any:
        """Run a body over the first axis."""
        made = []
        for k in range(xs.shape[0]):
            carry, y = body(carry, xs[k])
            made.append(y)
        return carry, self.xp.stack(made)

    def fori_loop(self, low: int, high: int, body: Callable[..., Any], carry: Any) -> Any:
        """Run a body for each integer."""
        for k in range(low, high):
            carry = body(k, carry)
        return carry

    def cond(self, condition: Any, on_true: Callable[..., Any], on_false: Callable[..., Any], *xs: Any) -> Any:
        """Run one of two functions."""
        return on_true(*xs) if condition else on_false(*xs)


class Program:
    """A function: its arguments, constants and lines, which give names `v0`, `v1`, ... to arrays."""

    def __init__(self, arguments: list[Any], constants: dict[str, Any], lines: list[str]) -> None:
        self.arguments, self.constants, self.lines = arguments, constants, lines

    @property
    def text(self) -> str:
        """The function's source."""
        head = f"def function({', '.join(f'v{k}' for k in range(len(self.arguments)))}):"
        return "\n    ".join([head, *self.lines])

    def compiled(self, xp: Any, control: Any, constant: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
        """Return the function over a library."""
        scope = {"xp": xp, "control": control, **{k: constant(v) for k, v in self.constants.items()}}
        exec(compile(self.text, "<drawn>", "exec"), scope)
        return scope["function"]  # type: ignore[no-any-return]

    def __str__(self) -> str:
        shapes = ", ".join(f"v{k}: {a.shape}" for k, a in enumerate(self.arguments))
        constants = [f"{k} = {v!r}" for k, v in self.constants.items() if k in self.text]
        return "\n".join([f"# {shapes}", *constants, self.text])


UNARY = ("xp.sin({x})", "xp.cos({x})", "xp.tanh({x})", "xp.exp(0.3 * {x})", "xp.sqrt({x} * {x} + 0.5)", "abs({x})",
         "xp.log({x}**2 + 0.3)", "xp.square({x})", "{x}**3", "1 / ({x}**2 + 1)", "xp.arctan({x})", "-{x}",
         "xp.maximum({x}, 0.1)", "xp.clip({x}, -0.7, 1.1)", "xp.where({x} > 0.2, {x}, 0.5 * {x})", "xp.sinh(0.5 * {x})",
         "xp.log1p(abs({x}))", "xp.where({x} > 0, xp.sqrt({x}), 0.0)", "xp.where({x} > 0.5, xp.log({x}), {x})",
         "2.0 ** {x}", "xp.expm1({x} * 0.2)", "{x} * c0", "xp.hypot({x}, 1.0)", "{x} - xp.floor({x})", "{x}.copy()")
BINARY = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}**2 + 0.5)", "xp.maximum({x}, {y})",
          "xp.minimum({x}, {y} * 0.5)", "xp.arctan2({x}, {y}**2 + 0.3)", "xp.where({x} > {y}, {x}, {y} * {y})",
          "xp.logaddexp({x}, {y})", "(abs({x}) + 0.5) ** {y}", "xp.hypot({x}, {y})", "{x} * {y} - {y}",
          "xp.where({y} > 0, {x} / {y}, {x})")
REDUCED = ("xp.sum({x}, axis={a}{k})", "xp.mean({x}, axis={a}{k})", "xp.max({x}, axis={a}{k})",
           "xp.min({x}, axis={a}{k})", "xp.prod({x}, axis={a}{k})", "xp.var({x}, axis={a}{k})",
           "xp.sqrt(xp.sum({x} * {x}, axis={a}{k}) + 0.1)", "xp.std({x}, axis={a}{k})")
ALONG = ("xp.cumsum({x}, axis={a})", "xp.cumprod({x}, axis={a})", "xp.sort({x}, axis={a})",
         "xp.take_along_axis({x}, xp.argsort({x}, axis={a}), axis={a})", "xp.flip({x}, axis={a})",
         "xp.roll({x}, 2, axis={a})", "xp.concatenate([{x}, {x} * 2], axis={a})", "xp.stack([{x}, -{x}], axis={a})",
         "xp.diff({x}, axis={a})", "xp.maximum.accumulate({x}, axis={a})", "xp.median({x}, axis={a})",
         "xp.repeat({x}, 2, axis={a})", "xp.expand_dims({x}, {a})", "xp.take({x}, [0, 0, -1], axis={a})")


class Drawing:
    """A program under construction."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        numbers = np.random.default_rng(seed)
        extents = [rng.choice((1, 2, 3, 3, 3, 4, 4, 5)) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
        self.arguments: list[Any] = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            shape = tuple(n if rng.random() < 0.9 else 1 for n in extents)[rng.choice((0, 0, 0, 0, 1)):]
            self.arguments.append(numbers.uniform(-1.5, 1.5, shape))
        self.constants: dict[str, Any] = {"c0": 1.7, "c1": numbers.uniform(-1, 1, tuple(extents))}
        self.lines: list[str] = []
        self.values: dict[str, Any] = {f"v{k}": a for k, a in enumerate(self.arguments)}
        self.count = len(self.arguments)

    def _run(self, new: list[str]) -> bool:
        """Run the lines with new ones; keep them if all values are arrays of moderate size."""
        program = Program(self.arguments, self.constants, [*self.lines, *new, "return dict(locals())"])
        with np.errstate(all="ignore"):
            try:
                values = program.compiled(np, Plain(np))(*[a.copy() for a in self.arguments])
            except (ValueError, IndexError, TypeError, np.exceptions.AxisError):
                return False
        for value in values.values():
            x = np.asarray(value)
            if x.dtype != np.float64 or x.size > SIZE or not np.all(np.abs(x) < LIMIT):
                return False
        self.lines += new
        self.values = {k: v for k, v in values.items() if k[0] == "v"}
        return True

    def pick(self, least: int = 0) -> str:
        """Return the name of a value of some rank at least; later ones are likelier."""
        names = [name for name, x in self.values.items() if np.ndim(x) >= least and np.size(x)]
        if not names:
            return ""
        return self.rng.choice(names[-3:] if self.rng.random() < 0.5 else names)

    def index(self, name: str) -> str:
        """Return the text of an index of a value: slices, numbers, None, lists with repeats."""
        rng, parts = self.rng, []
        listed = False
        for n in np.shape(self.values[name]):
            kind = rng.random()
            if kind < 0.15 and not listed:
                parts.append(str([rng.randrange(-n, n) for _ in range(rng.choice((1, 3)))]))
                listed = True
            else:
                parts.append(rng.choice((":", ":", "::-1", "1:", ":-1", "::2", "0", "-1", "...")))
        if parts.count("..."):
            parts = ["..."] if rng.random() < 0.5 else [p if p != "..." else ":" for p in parts]
        return ", ".join(parts) or "..."

    def step(self) -> None:
        """Draw one statement or a few."""
        rng = self.rng
        kinds: list[tuple[Callable[[str], list[str]], int]] = [
            (self._unary, 5), (self._binary, 6), (self._reduced, 4), (self._along, 4), (self._viewed, 5),
            (self._written, 6), (self._product, 3), (self._controlled, 3)]
        new = f"v{self.count}"
        for _ in range(10):
            (draw,) = rng.choices([k for k, _ in kinds], [w for _, w in kinds])
            lines = draw(new)
            if lines and self._run(lines):
                self.count += 1
                return

    def _unary(self, new: str) -> list[str]:
        return [f"{new} = " + self.rng.choice(UNARY).format(x=self.pick())]

    def _binary(self, new: str) -> list[str]:
        y = self.pick() if self.rng.random() < 0.85 else "c1"
        return [f"{new} = " + self.rng.choice(BINARY).format(x=self.pick(), y=y)]

    def _axis(self, name: str) -> int:
        rank = np.ndim(self.values[name])
        return self.rng.randrange(-rank, rank)

    def _reduced(self, new: str) -> list[str]:
        x = self.pick(1)
        if not x:
            return []
        axis: Any = self.rng.choice((self._axis(x), self._axis(x), None))
        keep = self.rng.choice(("", ", keepdims=True"))
        return [f"{new} = " + self.rng.choice(REDUCED).format(x=x, a=axis, k=keep)]

    def _along(self, new: str) -> list[str]:
        x = self.pick(1)
        return [f"{new} = " + self.rng.choice(ALONG).format(x=x, a=self._axis(x))] if x else []

    def _viewed(self, new: str) -> list[str]:
        x = self.pick(1)
        if not x:
            return []
        return [f"{new} = " + self.rng.choice((
            f"{x}[{self.index(x)}]", f"{x}[{self.index(x)}]", f"{x}.T", f"{x}.reshape(-1)", f"{x}[None]",
            f"xp.moveaxis({x}, 0, -1)", f"xp.tril({x})", f"xp.diagonal({x})", f"xp.pad({x}, 1)",
            f"xp.broadcast_to({x}, (2, *{x}.shape))", f"xp.tile({x}, 2)", f"xp.ravel({x})[::2]"))]

    def _written(self, new: str) -> list[str]:
        """Write into a copy, a view of a copy, or an earlier value, whose views change with it."""
        rng, x, y = self.rng, self.pick(1), self.pick()
        if not x or x in [f"v{k}" for k in range(len(self.arguments))]:
            first = [f"{new} = {x}.copy()"] if x else []
        else:
            first = rng.choice(([f"{new} = {x}.copy()"], [f"{new} = {x} * 1.1"], [f"{new} = {x}"]))
        if not first:
            return []
        at = self.index(x)
        write = rng.choice((
            f"{new}[{at}] = {y}", f"{new}[{at}] = {y} * 0.5", f"{new}[{at}] += {y}", f"{new}[{at}] *= 0.3",
            f"{new} *= {y}", f"{new} -= {new}[::-1] * 0.2", f"{new}[1:] += {new}[:-1]", f"{new}[:-1] = {new}[1:] * 2",
            f"{new}[{new} > 0.3] = 0.7", f"{new}[{new} > 0.3] *= 0.5", f"xp.add.at({new}, [0, 0, -1], 0.3 * {y})",
            f"xp.subtract.at({new}, [0, 0], {y})", f"{new}[[0, 0]] = {y}", f"{new}[...] = xp.sin({new})",
            f"{new}.T[0] = {y}", f"{new}[::-1][0] = {y} + 1"))
        return [*first, write]

    def _product(self, new: str) -> list[str]:
        a, b = self.pick(1), self.pick(1)
        if not a or not b:
            return []
        return [f"{new} = " + self.rng.choice((
            f"{a} @ {b}", f"{a} @ {b}.T", f"{a}.T @ {b}", f"xp.outer({a}, {b})", f"xp.dot({a}, {b})",
            f"xp.einsum('...i,...i->...', {a}, {b})", f"xp.einsum('ij,kj->ik', {a}, {b})",
            f"xp.tensordot({a}, {b}, 1)"))]

    def _controlled(self, new: str) -> list[str]:
        x, y = self.pick(1), self.pick()
        if not x:
            return []
        form = self.rng.choice((
            "_, {n} = control.scan(lambda c, a: (0.5 * c + xp.sin(a) * {y}.sum(), c * a), {x}[0], {x})",
            "{n}, _ = control.scan(lambda c, a: (xp.tanh(c * a) + {x}.mean(), a), {x}[0], {x})",
            "{n}, _ = control.scan(lambda c, a: (c + a * c * 0.5, c), {x}[0] * 0 + 1, {x})",
            "{n} = control.fori_loop(0, 3, lambda i, c: c * 0.5 + xp.cos(c * i) * {y}.sum(), {x})",
            "{n} = control.cond({x}.sum() > 0.2, lambda a: a * {y}.sum(), lambda a: xp.sin(a) + a, {x})",
            "{n} = control.cond({y}.sum() > {x}.sum(), lambda a: a[:1] * 1, lambda a: xp.exp(0.1 * a[-1:]), {x})"))
        if "{n}, _" in form or "_, {n}" in form:
            return [form.format(n=new, x=x, y=y).replace("_, ", "_unused, ").replace(", _ ", ", _unused ")]
        return [form.format(n=new, x=x, y=y)]

    def finished(self) -> Program:
        """Return the program, with the sum of functions of the last values and some others as its result."""
        names = list(self.values)
        parts = [f"xp.sum({names[-1]} * 0.9)", *(
            f"xp.sum(xp.sin({name}))" for name in self.rng.sample(names, min(3, len(names))))]
        return Program(self.arguments, self.constants, [*self.lines, f"return {' + '.join(parts)}"])


def draw(seed: int) -> Program:
    """Return a program of 3 to 15 steps."""
    made = Drawing(seed)
    for _ in range(made.rng.randint(3, 15)):
        made.step()
    return made.finished()


def jitfuse_function(program: Program) -> Callable[..., Any]:
    """Return the program's function for `jf.grad`."""
    return program.compiled(np, jf)
