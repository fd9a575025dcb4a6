"""Draw random programs: every operator, dtype and kind of view, with shapes known to fit.

Each statement is tried on NumPy as it is drawn, so that shapes and dtypes of all values are known. Owns the
distribution; any `random.Random` drives it, hypothesis's too.
"""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import DTYPES, UNSIGNED, Drawing
from functions_drawn import complex_function, order_statistic, small_function, small_product, special_function
from hypothesis import strategies as st
from libraries_drawn import linear_algebra, transform
from programs import Program, Statement
from reductions_drawn import reduced, scanned
from slack import complex_slack, is_inexact

UNARY = ("negative", "positive", "abs", "square", "sign", "sqrt", "floor", "ceil", "trunc", "isnan", "isinf",
         "isfinite", "logical_not", "invert", "copy", "rint", "signbit", "spacing", "reciprocal", "fabs", "fix",
         "isposinf", "isneginf", "round", "bitwise_count")
INEXACT = ("exp", "log", "sin", "cos", "tanh", "erf", "expm1", "log1p", "exp2", "log2", "log10", "erfc", "sigmoid",
           "silu", "gelu", "gelu_tanh", "softplus", "log_sigmoid", "logit", "sinc",
           "tan", "asin", "acos", "atan", "rad2deg", "deg2rad", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt")
OURS = ("erf", "erfc", "sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "log_sigmoid", "logit", "sinc",
        "xlogy", "leaky_relu", "elu")
"""Functions that NumPy lacks."""
EXACT_BINARY = ("copysign", "nextafter", "fmod", "fmin", "fmax", "heaviside", "ldexp", "gcd", "lcm", "isclose")
INEXACT_BINARY = ("xlogy", "float_power", "logaddexp", "logaddexp2", "leaky_relu", "elu", "atan2", "hypot")
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
EXACT_REDUCTIONS = ("min", "max", "any", "all")
REDUCTIONS = ("sum", "mean", "var", *EXACT_REDUCTIONS)
SLACK = {"power": "ulp", "minimum": "zero", "maximum": "zero", "clip": "zero", "min": "zero", "max": "zero",
         "sum": "sum", "mean": "mean", "var": "var", **dict.fromkeys((*INEXACT, *INEXACT_BINARY), "ulp"),
         "fmin": "zero", "fmax": "zero", "logaddexp": "operands", "logaddexp2": "operands"}


def programs(max_steps: int = 20) -> st.SearchStrategy[Program]:
    """Return a hypothesis strategy of programs."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_program(rng, max_steps))


def draw_program(
    rng: random.Random, max_steps: int = 20, *, large: bool = False, overlapping: bool = False
) -> Program:
    """Draw one program of up to `max_steps` steps, over small arrays or large ones, or over arrays that overlap."""
    return _Statements(rng, large, overlapping).program(rng.randint(1, max_steps))


class _Statements(Drawing):
    # ------------------------------------------------------------------ the whole
    def program(self, steps: int) -> Program:
        rng = self.rng
        self._draw_sources()
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._unary, 4), (self._binary, 9), (self._scalar_binary, 5), (self._where, 2), (self._clip, 1),
            (self._astype, 2), (self._reduction, 4), (self._softmax, 1), (self._slice, 4), (self._axes, 4),
            (self._reshape, 2), (self._join, 2), (self._broadcast, 1), (self._matmul, 1), (self._create, 2),
            (self._reduced, 3), (self._scanned, 3),
            (self._library, 3), (self._rearranged, 4), (self._gathered, 4), (self._product, 2), (self._assign, 2),
            (self._in_place, 1), (self._derived, 3), (self._rare, 4),
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

    # ------------------------------------------------------------------ elementwise
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

    # ------------------------------------------------------------------ reductions

    def _reduction(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray | np.generic))
        if x is None:
            return
        name, axis = self.rng.choice(REDUCTIONS), self._axis(np.ndim(self.values[x]))
        keepdims = self.rng.random() < 0.5
        extra = f", axis={axis}" + (", keepdims=True" if keepdims else "")
        if name == "var" and self.rng.random() < 0.3:
            extra += ", ddof=1"
        text = f"np.{name}({x}{extra})" if self.rng.random() < 0.6 else f"{x}.{name}({extra[2:]})"
        slack = SLACK.get(name, "")
        if slack in ("sum", "mean", "var"):
            exact = name == "sum" and np.asarray(self.values[x]).dtype.kind in "iub"
            slack = "" if exact else f"{slack} {x} {axis} {keepdims}"
        self._assign_to(text, (x,), slack)

    def _reduced(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray | np.generic))
        if x is not None:
            text, slack = reduced(self.rng, x, self.values[x], self._axis(np.ndim(self.values[x])))
            self._assign_to(text, (x,), slack)

    def _scanned(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is not None:
            text, slack = scanned(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)

    def _derived(self) -> None:
        """Use a function of NumPy that several operators make up."""
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        shape = np.shape(self.values[x])
        y = self._pick(lambda v: isinstance(v, np.ndarray) and np.shape(v) == shape) or x
        axis = self._axis(len(shape))
        one = self.rng.randrange(len(shape)) if shape else None
        choices = [
            (f"np.std({x}, axis={axis})", f"std {x} {axis} False"), (f"np.count_nonzero({x}, axis={axis})", ""),
            (f"np.nan_to_num({x})", ""), (f"np.full_like({x}, 2)", ""), (f"np.ones_like({x})", ""),
            (f"np.fabs({x})", ""), (f"np.modf({x})[{self.rng.randrange(2)}]", ""), (f"np.divmod({x}, {y})[0]", ""),
            (f"np.frexp({x} * 0.5)[{self.rng.randrange(2)}]", ""),
            (f"np.round({x}, {self.rng.choice((-2, -1, 1, 2))})", ""),
            (f"{x}.round(1)", ""), (f"np.allclose({x}, {y}, rtol=0.5) + {x}", ""),
            (f"np.array_equal({x}, {y}) + {x}", ""),
            (f"np.nan_to_num({x}, nan=-1, posinf=7.5)", ""), (f"np.isclose({x}, {y}, equal_nan=True)", ""),
            (f"jf.nn.gelu({x}, approximate='tanh')", "ulp"), (f"jf.nn.hard_silu({x})", ""), (f"jf.nn.elu({x})", "ulp"),
            (f"np.ptp({x}, axis={axis})", "zero"), (f"np.ravel({x}.copy())", ""), (f"np.atleast_2d({x})", ""),
            (f"np.broadcast_arrays({x}, {y})[0] + 0", ""), (f"divmod({x}, {y})[1]", ""), (f"{x}.flatten()", ""),
            (f"len({x}) * {x}", ""), (f"{x} * {x}.size - {x}.shape[-1]", ""), (f"sum(row for row in {x}[:4])", ""),
            (f"np.hstack([{x}, {y}])", ""), (f"np.vstack([{x}, {y}])", ""), (f"np.column_stack([{x}, {y}])", ""),
            (f"np.split({x}, {self.rng.choice((1, 2, 3))}, axis={one})[-1]", ""), (f"[*{x}[:3]][0] + 1", ""),
            (f"jf.nn.relu({x})", "zero"), (f"np.full({shape}, {x}.sum() > 0)", "ulp"),
            (f"np.where({x} > {y}, {x}, {y}) - np.minimum({x}, {y})", "zero"),
        ]
        if len(shape) == 1 and self.values[x].dtype != bool and self.values[x].size ** 2 <= self.max_size:
            choices += [(f"np.outer({x}, {y})", "")]
            choices += [(f"np.{name}({x}, {y})", f"matmul {x} {y}") for name in ("dot", "inner")]
        text, slack = self.rng.choice(choices)
        self._assign_to(text, (x, y), slack)

    def _rearranged(self) -> None:
        """Move, repeat, pad or drop elements."""
        rng = self.rng
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis, k = rng.randrange(-len(shape), len(shape)), rng.randint(-4, 4)
        mode = rng.choice(("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum"))
        choices = [
            f"np.roll({x}, {k}, axis={axis})", f"np.roll({x}, {k})", f"np.repeat({x}, {abs(k) % 3}, axis={axis})",
            f"np.tile({x}, {(abs(k) % 3, 2)[rng.randrange(2):]})", f"np.pad({x}, ({abs(k)}, 1), mode={mode!r})",
            f"np.stack([{x}, {x}], axis={axis})", f"np.array_split({x}, 3, axis={axis})[{rng.randrange(3)}]",
        ]
        if len(shape) > 1:
            choices += [f"np.tril({x}, {k})", f"np.triu({x}, {k})", f"np.diagonal({x}, {k}) * 1", f"np.rot90({x}, {k})"]
        elif shape[0] <= 40:
            choices += [f"np.diag({x}, {k})"]
        text = rng.choice(choices)
        grown = {"repeat": 3, "tile": 9, "pad": 8 ** len(shape), "stack": 2}
        if np.size(self.values[x]) * max((g for n, g in grown.items() if n in text), default=1) <= self.max_size:
            self._assign_to(text, (x,))

    def _product(self) -> None:
        """Contract two arrays over some of the axes that have equal extents."""
        rng = self.rng
        x, y = self._pick(lambda v: isinstance(v, np.ndarray)), self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None or y is None or x == y:
            return
        sizes = dict(zip("abcdefg", np.shape(self.values[x])))
        left, right = "".join(sizes), ""
        for k, n in enumerate(np.shape(self.values[y])):
            same = [c for c in left if sizes[c] == n]
            right += rng.choice(same) if same and rng.random() < 0.8 else "uvwxyz"[k]
            sizes.setdefault(right[-1], n)
        if int(np.prod(list(sizes.values()))) > self.max_size:
            return
        every = sorted(sizes)
        output = "".join(rng.sample(every, rng.randint(0, len(every))))
        subscripts = f"{left},{right}->{output}"
        self._assign_to(f"np.einsum({subscripts!r}, {x}, {y})", (x, y), f"einsum {subscripts} {x} {y}")

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

    def _library(self) -> None:
        """Use what the host's libraries compute: linear algebra, transforms, order statistics, special functions."""
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.size > 0)
        if x is None:
            return
        shape, y = np.shape(self.values[x]), x
        form = self.rng.random()
        if form < 0.2 and len(shape) > 1:
            text, slack = linear_algebra(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)
        elif form < 0.35:
            text, slack = transform(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)
        elif form < 0.7:
            y = self._pick(lambda v: isinstance(v, np.ndarray) and self._broadcasts(np.shape(v), shape)) or x
            self._assign_to(*special_function(self.rng, x, y))
        else:
            self._assign_to(*order_statistic(self.rng, x, self.values[x], self._axis(len(shape))))

    def _rare(self) -> None:
        """Use what few programs do: complex numbers' parts, products of equal shapes, less common functions."""
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        shape = np.shape(self.values[x])
        y = self._pick(lambda v: isinstance(v, np.ndarray) and np.shape(v) == shape) or x
        form = self.rng.random()
        if form < 0.3:
            text, slack = complex_function(self.rng, x, y)
        elif form < 0.5 and shape:
            text, slack = small_product(self.rng, x, y, self.values[x])
        elif np.size(self.values[x]) ** 2 <= 4 * self.max_size:
            text, slack = small_function(self.rng, x, y, self.values[x])
        else:
            return
        self._assign_to(text, (x, y), slack)

    def _softmax(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.size > 0 and v.dtype != bool)
        if x is not None:
            axis = self.rng.randrange(-np.ndim(self.values[x]), np.ndim(self.values[x]))
            self._assign_to(f"jf.softmax({x}, axis={axis})", (x,), f"softmax {axis}")

    def _matmul(self) -> None:
        x = self._pick(lambda v: np.ndim(v) > 0)
        if x is None:
            return
        k = np.shape(self.values[x])[-1]

        left = self.values[x]

        def fits(v: Any) -> bool:
            meets = np.ndim(v) > 0 and np.shape(v)[0 if np.ndim(v) == 1 else -2] == k
            both_bool = np.asarray(v).dtype == bool and np.asarray(left).dtype == bool
            return meets and not both_bool and np.size(left) * np.size(v) <= self.max_size * max(k, 1) ** 2

        y = self._pick(fits)
        if y is not None:
            self._assign_to(self.rng.choice((f"{x} @ {y}", f"np.matmul({x}, {y})")), (x, y), f"matmul {x} {y}")

    # ------------------------------------------------------------------ views
    def _slice(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is not None:
            self._assign_to(f"{x}[{self._index(np.shape(self.values[x]))}]", (x,))

    def _axes(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        rank = np.ndim(self.values[x])
        order = self.rng.sample(range(rank), rank)
        i, j = self.rng.randrange(rank), self.rng.randrange(-rank, rank)
        self._assign_to(self.rng.choice((
            f"{x}.T", f"np.transpose({x}, {tuple(order)})", f"{x}.transpose({tuple(order)})",
            f"np.swapaxes({x}, {i}, {j})", f"np.moveaxis({x}, {i}, {j})", f"np.expand_dims({x}, {i})",
            f"{x}[..., None]", f"np.squeeze({x})",
            f"np.flip({x}, {j})", f"np.flip({x})", f"{x}[::-1]",
        )), (x,))

    def _reshape(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        size, shape, rest = int(np.size(self.values[x])), [], int(np.size(self.values[x]))
        while rest > 1 and len(shape) < 4 and self.rng.random() < 0.75:
            divisors = [d for d in range(1, rest + 1) if rest % d == 0]
            shape.append(self.rng.choice(divisors))
            rest //= shape[-1]
        shape.append(rest)
        if self.rng.random() < 0.3 and size:
            shape[self.rng.randrange(len(shape))] = -1
        value = self.values[x]
        target = x if (value.flags.c_contiguous and value.ndim) or self._is_argument(value) else f"{x}.copy()"
        self._assign_to(self.rng.choice((
            f"{target}.reshape({tuple(shape)})", f"np.reshape({target}, {tuple(shape)})", f"{target}.ravel()",
            f"{target}.reshape(-1)",
        )), (x,))

    def _join(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis = self.rng.randrange(-len(shape), len(shape))
        if self.rng.random() < 0.5:
            at = axis % len(shape)
            rest = shape[:at] + shape[at + 1 :]
            y = self._pick(lambda v: np.ndim(v) == len(shape) and np.shape(v)[:at] + np.shape(v)[at + 1 :] == rest)
            text = f"np.concatenate([{x}, {y}], axis={axis})"
        else:
            y = self._pick(lambda v: np.shape(v) == shape)
            text = f"np.stack([{x}, {y}, {x}], axis={axis})"
        if y is not None:
            self._assign_to(text, (x, y))

    def _broadcast(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is not None:
            shape = tuple(self.rng.choice((n, 2, 3)) if n == 1 else n for n in np.shape(self.values[x]))
            lead = (self.rng.choice((1, 2, 3)),) * self.rng.choice((0, 1))
            self._assign_to(f"np.broadcast_to({x}, {lead + shape})", (x,))

    # ------------------------------------------------------------------ creation and writes
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
        return self._pick(
            lambda v: isinstance(v, np.ndarray) and v.flags.writeable
            and (np.ndim(v if v.base is None else v.base) > 0 or self._is_argument(v))
        )

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


def _fits(shape: tuple[int, ...], region: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, region) == region
    except ValueError:
        return False
