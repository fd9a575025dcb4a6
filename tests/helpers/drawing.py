"""The state of a program that is being drawn: arguments, statements, and every value so far.

Owns how arguments are drawn, names picked, and statements tried on NumPy before they are added. Does not own
which statements there are (`generate`).
"""
from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from programs import GLOBALS, LAYOUTS, Source, Statement, quiet
from slack import is_inexact

DTYPES = ("float32", "float64", "int32", "int64", "bool", "float16", "int8", "int16", "uint8", "uint16", "uint32",
          "uint64", "bfloat16", "complex64", "complex128")
WEIGHTS = (8, 10, 4, 4, 3, 2, 1, 1, 2, 1, 1, 1, 2, 2, 2)
"""How often arguments have each dtype."""
UNSIGNED = ("uint32",)
"""Where a cast of floats out of range gives one thing or another in NumPy, by the place in the array."""
NO_BFLOAT16: Final = (
    "round", "isclose", "allclose", "vdot", "vecdot", "norm", "einsum", "inner", "tensordot", "dot", "nan_to_num",
    "nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod", "nanargmin",
    "nanargmax", "nanmedian", "nanquantile", "nanpercentile",
)
"""What NumPy refuses, or computes in another dtype or without seeing NaN, for bfloat16."""
EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 17, 33)
MAX_SIZE = 6000
LARGE = ((3, 140_001), (300_007,), (131_072,), (2, 2, 65_537), (1, 200_000), (700, 301), (70_000, 3), (5, 40_000),
         (65_537, 4), (9, 20_000), (131_073, 2), (40, 40, 40), (1021, 3, 67))
"""Shapes past the thresholds of threads, chunks and split reductions."""

class Drawing:
    """A program under construction: its arguments and statements, and the value of every name so far."""

    def __init__(self, rng: random.Random, large: bool, overlapping: bool) -> None:
        self.rng = rng
        self.large = large
        self.overlapping = overlapping
        self.max_size = 450_000 if large else MAX_SIZE
        self.sources: list[Source] = []
        self.statements: list[Statement] = []
        self.values: dict[str, Any] = {}

    def _draw_sources(self) -> None:
        rng = self.rng
        family = tuple(rng.choice(EXTENTS) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
        while int(np.prod(family)) > MAX_SIZE:
            family = family[1:]
        if self.large:
            family = rng.choice(LARGE)
        for _ in range(rng.randint(1, 4)):
            name, kind = f"a{len(self.sources)}", rng.random()
            if kind < 0.1 and self.sources:
                text = f"number({rng.choice((2, 0, -3, 7, 0.5, -1.25, 1e-3, 3.0, True, False, 2 - 1j, 0.5j))})"
            elif kind < 0.6 and self.sources and self.overlapping:
                base = rng.choice(self.sources).name
                text = base + rng.choice(("", "[::-1]", "[1:]", "[:-1]", "[...]", ".T", "[::2]", ".reshape(-1)"))
                if not isinstance(self.values[base], np.ndarray) or not self.values[base].ndim:
                    text = self._array_text(family)
            elif kind < 0.17 and self.sources:
                dtype = rng.choice(("float32", "float64", "int32", "int64", "bool_", "complex64", "float16", "uint8"))
                text = f"number(np.{dtype}({rng.choice((0, 1, 2, 3, 5) if dtype[0] == 'u' else (0, 1, 2, -3, 5))}))"
            else:
                text = self._array_text(family)
            source = Source(name, text)
            self.sources.append(source)
            self.values[name] = source.value(self.values)

    def _array_text(self, family: tuple[int, ...]) -> str:
        rng, shape = self.rng, family
        if rng.random() < 0.4:
            shape = tuple(1 if rng.random() < 0.3 else n for n in shape)[rng.choice((0, 0, 1)):]
        layout = rng.choice(LAYOUTS) if rng.random() < 0.5 else "C"
        style = rng.choices(("plain", "small", "positive", "special"), (5, 2, 2, 3))[0]
        dtype = rng.choices(DTYPES, WEIGHTS)[0]
        return f"make({shape}, '{dtype}', {rng.randrange(10**6)}, '{layout}', '{style}')"

    # ------------------------------------------------------------------ trying statements
    def _pick(self, fits: Callable[[Any], bool] = lambda v: True) -> str | None:
        names = [n for n, v in self.values.items() if fits(v)]
        if not names:
            return None
        return names[-1] if self.rng.random() < 0.35 else self.rng.choice(names)

    def _assign_to(self, expression: str, reads: tuple[str, ...], slack: str = "") -> str | None:
        """Add `v = expression` where NumPy accepts it and the result is one that programs can hold."""
        name = f"v{len(self.statements)}"
        result = self._try(f"{name} = {expression}", name)
        if result is None:
            return None
        reads = tuple(dict.fromkeys(reads))
        if self._is_refused(expression, [self.values[n] for n in reads if n in self.values], result):
            return None
        slack = slack or self._complex_slack(result, reads)
        self.statements.append(Statement(f"{name} = {expression}", name, reads, slack))
        self.values[name] = result
        return name

    def _is_refused(self, expression: str, values: list[Any], result: Any) -> bool:
        """Return whether jitfuse refuses what NumPy computes, with an error that names the way out."""
        dtypes = {np.asarray(v).dtype.name for v in values}
        if any(d.startswith("complex") for d in dtypes) and expression.startswith("special."):
            return True
        if "bfloat16" in dtypes and (any(f"{name}(" in expression for name in NO_BFLOAT16) or ".fft." in expression):
            return True
        return "round" in expression and "bool" in dtypes

    def _complex_slack(self, result: Any, reads: tuple[str, ...]) -> str:
        """Return the slack of what is exact in real numbers: products and quotients of complex ones are rounded."""
        values = [self.values[n] for n in reads if n in self.values]
        if not is_inexact(np.asarray(result).dtype) or any(np.may_share_memory(result, v) for v in values):
            return ""
        return "rounded" if np.iscomplexobj(result) or any(np.iscomplexobj(v) for v in values) else ""

    def _try(self, text: str, name: str) -> Any:
        values = dict(self.values)
        try:
            with quiet():
                exec(text, dict(GLOBALS), values)
        except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError):
            return None
        result = values[name]
        dtype = getattr(result, "dtype", np.asarray(result).dtype)
        known = isinstance(result, np.ndarray | np.generic | bool | int | float | complex)
        fits = known and dtype.name in DTYPES and np.size(result) <= self.max_size and np.ndim(result) <= 5
        return result if fits else None

    def _broadcasts(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        try:
            return int(np.prod(np.broadcast_shapes(a, b))) <= self.max_size
        except ValueError:
            return False

    def _axis(self, rank: int) -> str:
        rng = self.rng
        if not rank or rng.random() < 0.25:
            return "None"
        count = rng.choice((1, 1, 1, rank, rng.randint(1, rank)))
        axes = rng.sample(range(-rank, 0) if rng.random() < 0.5 else range(rank), count)
        return repr(axes[0] if count == 1 and rng.random() < 0.8 else tuple(axes))

    def _index(self, shape: tuple[int, ...]) -> str:
        rng, parts = self.rng, []
        for n in shape:
            kind = rng.random()
            if kind < 0.15 and n:
                parts.append(str(rng.randrange(-n, n)))
            elif kind < 0.3:
                parts.append(":")
            else:
                bounds = [rng.choice(("", str(rng.randint(-n - 1, n + 1)))) for _ in range(2)]
                parts.append(f"{bounds[0]}:{bounds[1]}" + rng.choice(("", "", "", ":2", ":-1", ":-2", ":3")))
        if rng.random() < 0.2:
            parts.insert(rng.randint(0, len(parts)), "None")
        if rng.random() < 0.2:
            cut = rng.randint(0, len(parts))
            parts = [*parts[:cut], "..."]
        return ", ".join(parts) or "..."

    def _is_argument(self, value: Any) -> bool:
        """Return whether a value is an argument's memory: of others, only NumPy knows whether a reshape is a view.

        NumPy lays out what it computes in the order of the operands, jitfuse in C order; and some functions of
        arrays of rank 0 return arrays in NumPy, where jitfuse returns scalars always.
        """
        return any(np.shares_memory(value, self.values[s.name]) for s in self.sources)

    def _change(self, text: str, target: str, reads: tuple[str, ...]) -> None:
        """Add a statement that writes into an array; tried on copies that share memory as the values do."""
        before = copy.deepcopy({n: v for n, v in self.values.items() if n == target or n in reads})
        result = self._try(text, target)
        if result is None:
            if isinstance(self.values[target], np.ndarray):
                self.values[target][...] = before[target]
            return
        self.values[target] = result
        reads = tuple(dict.fromkeys(n for n in reads if n in self.values))
        value, slack = self.values[target], ""
        if np.iscomplexobj(value) and any(op in text for op in ("*", "/", "multiply")):
            slack = "rounded"
        floats = [n for n in reads if is_inexact(np.asarray(self.values[n]).dtype)]
        if value.dtype.name in UNSIGNED and floats:
            slack = f"cast {floats[0]}"
        self.statements.append(Statement(text, target, reads, slack, changes=True))
