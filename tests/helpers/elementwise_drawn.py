"""Draw elementwise steps: operators of Python, functions of NumPy and ours, of arrays and of numbers."""
from __future__ import annotations

import numpy as np
from drawing import DTYPES, UNSIGNED, Drawing
from slack import complex_slack, is_inexact

from jitfuse.ir.operators import ops

UNARY = ("negative", "positive", "abs", "square", "sign", "sqrt", "floor", "ceil", "trunc", "isnan", "isinf",
         "isfinite", "logical_not", "invert", "copy", "rint", "signbit", "spacing", "reciprocal", "fabs", "fix",
         "isposinf", "isneginf", "round", "bitwise_count")
INEXACT, ROUNDED_BINARY = (
    tuple(op.name for op in ops.table() if op.kind == ops.ELEMENTWISE and op.ulps and op.arity == arity)
    for arity in (1, 2)
)
INEXACT_BINARY = ("leaky_relu", *(name for name in ROUNDED_BINARY if name != "power"))
OURS = {"sinc", *(name for name in INEXACT + INEXACT_BINARY if not hasattr(np, name))}
"""Functions that NumPy lacks, or has with other results."""
EXACT_BINARY = ("copysign", "nextafter", "fmod", "fmin", "fmax", "heaviside", "ldexp", "gcd", "lcm", "isclose")
NOT_OF_BOOLS = (*INEXACT, "sqrt", "floor", "ceil", "trunc", "square", "sign", "round")
BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum",
          "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
          "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", *INEXACT_BINARY)
OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
             "power": "**", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
             "greater_equal": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
             "right_shift": ">>"}
SCALARS = ("0", "1", "-1", "2", "3", "0.5", "2.0", "1.0", "-0.0", "0.0", "1e-3", "-2.5", "1e10", "True", "5",
           "1j", "(2-0.5j)")
SLACK = {"power": "ulp", "minimum": "zero", "maximum": "zero", "clip": "zero",
         **dict.fromkeys((*INEXACT, *INEXACT_BINARY), "ulp"),
         "fmin": "zero", "fmax": "zero", "logaddexp": "operands", "logaddexp2": "operands"}


class Elementwise(Drawing):
    """Steps whose result has an element for each element of its operands."""

    def _unary(self) -> None:
        x, name = self._pick(), self.rng.choice(UNARY + INEXACT)
        if x is None or (np.asarray(self.values[x]).dtype == bool and name in NOT_OF_BOOLS):
            return
        text = f"np.{name}({x})"
        if name in OURS:
            scipys = name == "erf" and np.ndim(self.values[x])
            text = f"special.erf({x})" if scipys else f"jf.{name}({x})"
        elif name in ("negative", "abs", "invert") and self.rng.random() < 0.5:
            text = {"negative": f"-{x}", "abs": f"abs({x})", "invert": f"~{x}"}[name]
        if name == "copy" and isinstance(self.values[x], np.ndarray):
            text = self.rng.choice((f"np.copy({x})", f"{x}.copy()"))
        elif name == "copy":
            return
        slack = SLACK.get(name, "")
        if np.iscomplexobj(self.values[x]):
            slack = complex_slack(name, x)
        self._assign_to(text, (x,), slack)

    def _binary(self) -> None:
        a = self._pick()
        if a is None:
            return
        shape = np.shape(self.values[a])
        b = self._pick(lambda v: self._broadcasts(np.shape(v), shape))
        if b is not None:
            if self.rng.random() < 0.5:
                a, b = b, a
            self._combine(a, b, (a, b))

    def _scalar_binary(self) -> None:
        x = self._pick()
        if x is None:
            return
        scalar = self.rng.choice(SCALARS)
        if self.rng.random() < 0.3:
            self._combine(scalar, x, (x,))
        else:
            self._combine(x, scalar, (x,))

    def _combine(self, a: str, b: str, reads: tuple[str, ...]) -> None:
        weights = [6, 6, 6, 5] + [2] * (len(BINARY) - 4) + [1] * len(EXACT_BINARY)
        name = self.rng.choices(BINARY + EXACT_BINARY, weights)[0]
        form = self.rng.random()
        if form < 0.6 and name in OPERATORS:
            a_text = f"({a})" if a.startswith("-") and name == "power" else a
            text = f"{a_text} {OPERATORS[name]} {b}"
        elif name in OURS or (form < 0.7 and name in ("add", "multiply", "less", "maximum", "equal")):
            text = f"jf.{name}({a}, {b})"
        else:
            text = f"np.{name}({a}, {b})"
        slack = SLACK.get(name, "")
        if any(self._is_complex(v) for v in (a, b)):
            both = all(self._is_complex(v) for v in (a, b))
            times = "product" if both else "scaled"
            slack = {"power": "power", "float_power": "power", "multiply": times}.get(name, slack)
            slack += f" {a} {b}" if slack in ("power", "product") else ""
        self._assign_to(text, reads, slack)

    def _is_complex(self, text: str) -> bool:
        """Return whether a name or a literal stands for complex numbers."""
        return np.iscomplexobj(self.values[text]) if text in self.values else "j" in text

    def _where(self) -> None:
        x = self._pick()
        if x is None:
            return
        shape = np.shape(self.values[x])
        c = self._pick(lambda v: self._broadcasts(np.shape(v), shape) and np.asarray(v).dtype == bool)
        y = self._pick(lambda v: self._broadcasts(np.shape(v), shape))
        other = self.rng.choice((y, y, "0", "1.5", "np.nan"))
        if c is None or other is None:
            c, other = f"({x} > 0)", other or "0"
        reads = tuple(n for n in (c, x, other) if n in self.values) + ((x,) if c not in self.values else ())
        self._assign_to(self.rng.choice((f"np.where({c}, {x}, {other})", f"np.where({c}, {other}, {x})")), reads)

    def _clip(self) -> None:
        x = self._pick()
        if x is None:
            return
        low, high = self.rng.choice((("-1", "1"), ("0", "None"), ("None", "2"), ("-0.5", "1.5"), ("2", "-2")))
        text = f"np.clip({x}, {low}, {high})"
        if isinstance(self.values[x], np.ndarray) and self.rng.random() < 0.5:
            text = f"{x}.clip({low}, {high})"
        self._assign_to(text, (x,), "zero")

    def _astype(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray | np.generic))
        if x is not None:
            dtype = self.rng.choice(DTYPES)
            texts = [f"{x}.astype('{dtype}')", f"jf.astype({x}, '{dtype}')", f"{x}.astype('{dtype}', copy=False) * 1"]
            if dtype != "bfloat16":
                texts += [f"{x}.astype(np.{dtype})"]
            from_floats = dtype in UNSIGNED and is_inexact(self.values[x].dtype)
            self._assign_to(self.rng.choice(texts), (x,), f"cast {x}" if from_floats else "")
