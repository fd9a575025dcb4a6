"""Random expressions such as users of numexpr write: one formula over arrays of every dtype, numbers and conditions.

Owns how formulas are drawn, typed as they grow so that NumPy accepts nearly all. Does not own the judge (`compare`).
"""
from __future__ import annotations

import random
from typing import Any

import numpy as np
from drawing import DTYPES
from programs import GLOBALS, LAYOUTS, Program, Source, Statement, quiet
from slack import complex_slack, is_inexact

EXTENTS = (0, 1, 2, 3, 5, 16, 17, 100, 1023)
ARITHMETIC = ("+", "-", "*", "/", "+", "-", "*", "//", "%", "**")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
BITS = ("&", "|", "^", "<<", ">>")
FUNCTIONS = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
             "log", "log10", "log1p", "exp", "expm1", "sqrt", "abs", "conj", "real", "imag", "floor", "ceil", "square",
             "isnan", "isfinite", "isinf", "sign", "rint", "trunc", "cbrt", "exp2", "log2")
BINARY = ("arctan2", "minimum", "maximum", "fmod", "hypot", "copysign", "power", "logical_and", "fmax")
REDUCTIONS = ("sum", "prod", "min", "max", "mean", "any", "all")
NUMBERS = ("2", "0.5", "-1", "3", "1.5", "1e3", "0", "(1+2j)", "True", "-0.25")


def draw_expression(rng: random.Random, depth: int = 4) -> Program:
    """Return a program whose statements build one formula: an operator each, over one to four operands."""
    shape = tuple(rng.choice(EXTENTS[:7]) for _ in range(rng.choice((0, 1, 1)))) + (rng.choice(EXTENTS),)
    sources: list[Source] = []
    for k in range(rng.randint(1, 4)):
        own = tuple(1 if rng.random() < 0.1 else n for n in shape)[rng.choice((0, 0, 0, len(shape) - 1)) :]
        style, layout = rng.choice(("plain", "small", "positive", "special")), rng.choice(("C", "C", *LAYOUTS))
        text = f"make({own}, '{rng.choice(DTYPES)}', {rng.randrange(10**6)}, {layout!r}, {style!r})"
        if k and rng.random() < 0.15:
            text = f"number({rng.choice(NUMBERS)})"
        sources.append(Source(f"a{k}", text))
    return _Formula(rng, sources).program(depth)


class _Formula:
    """A formula in single assignments, so that each operator is judged by what it may be off."""

    def __init__(self, rng: random.Random, sources: list[Source]) -> None:
        self.rng = rng
        self.sources = sources
        self.values: dict[str, Any] = {}
        for s in sources:
            self.values[s.name] = s.value(self.values)
        self.statements: list[Statement] = []

    def program(self, depth: int) -> Program:
        result = self.term(depth)
        if result not in self.values or not self.statements:
            result = self.add(f"{self.sources[0].name} + 1", (self.sources[0].name,)) or self.sources[0].name
        if self.rng.random() < 0.25 and np.ndim(self.values[result]):
            reduced = self.reduction(result)
            result = reduced or result
        return Program(tuple(self.sources), tuple(self.statements), (result,), "single").live()

    def term(self, depth: int) -> str:
        """Return a name or a number that stands for a formula of up to this depth."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.12:
            return rng.choice(NUMBERS) if rng.random() < 0.15 else rng.choice(self.sources).name
        form = rng.random()
        a = self.term(depth - 1)
        if form < 0.3:
            name = rng.choice(FUNCTIONS)
            slack = complex_slack(name, a) if self.is_complex(a) else "ulp"
            return self.add(f"np.{name}({a})", (a,), slack) or a
        b = self.term(depth - 1)
        if form < 0.65:
            return self.operator(a, rng.choice(ARITHMETIC), b) or a
        if form < 0.75:
            return self.add(f"{a} {rng.choice(COMPARISONS)} {b}", (a, b)) or a
        if form < 0.82:
            return self.add(f"{a} {rng.choice(BITS)} {b}", (a, b)) or a
        if form < 0.92:
            left = self.term(depth - 1)
            condition = self.add(f"{left} {rng.choice(COMPARISONS)} {b}", (left, b))
            return (self.add(f"np.where({condition}, {a}, {b})", (condition, a, b)) if condition else None) or a
        name = rng.choice(BINARY)
        slack = f"power {a} {b}" if name == "power" and (self.is_complex(a) or self.is_complex(b)) else "ulp"
        return self.add(f"np.{name}({a}, {b})", (a, b), slack) or a

    def operator(self, a: str, symbol: str, b: str) -> str | None:
        complex_numbers = self.is_complex(a) or self.is_complex(b)
        slack = "ulp" if symbol == "**" or complex_numbers else ""
        if complex_numbers:
            both = self.is_complex(a) and self.is_complex(b)
            slack = {"*": f"product {a} {b}" if both else "scaled", "**": f"power {a} {b}"}.get(symbol, slack)
        left = f"({a})" if a.startswith("-") else a
        return self.add(f"{left} {symbol} {b}", (a, b), slack)

    def reduction(self, a: str) -> str | None:
        name, axis = self.rng.choice(REDUCTIONS), self.rng.choice(("None", "0", "-1"))
        slack = {"sum": f"sum {a} {axis} False", "mean": f"mean {a} {axis} False", "prod": "ulp"}.get(name, "zero")
        if name == "prod" and is_inexact(self.values[a].dtype):
            return None  # of any numbers, a product overflows in one order and not in another
        return self.add(f"np.{name}({a}, axis={axis})", (a,), slack)

    def is_complex(self, text: str) -> bool:
        return np.iscomplexobj(self.values[text]) if text in self.values else "j" in text

    def add(self, expression: str, reads: tuple[str | None, ...], slack: str = "") -> str | None:
        """Add an operator where NumPy takes these operands; return the name of its result."""
        name = f"v{len(self.statements)}"
        names = tuple(dict.fromkeys(r for r in reads if r is not None and r in self.values))
        if not names:
            return None
        try:
            with quiet():
                result = eval(expression, dict(GLOBALS), self.values)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            return None
        if getattr(result, "dtype", np.dtype(object)).name not in DTYPES:
            return None
        exact = not is_inexact(np.asarray(result).dtype)
        self.statements.append(Statement(f"{name} = {expression}", name, names, "" if exact else slack))
        self.values[name] = result
        return name
