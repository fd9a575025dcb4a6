"""Draw random programs: every operator, dtype and kind of view, with shapes known to fit.

Each statement is tried on NumPy as it is drawn, so that shapes and dtypes of all values are known. Owns the
distribution; any `random.Random` drives it, hypothesis's too.
"""
from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from programs import GLOBALS, LAYOUTS, Program, Source, Statement, quiet

DTYPES = ("float32", "float64", "int32", "int64", "bool")
EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 17, 33)
MAX_SIZE = 6000
LARGE = ((3, 140_001), (300_007,), (131_072,), (2, 2, 65_537), (1, 200_000), (700, 301), (70_000, 3), (5, 40_000), (65_537, 4),
         (9, 20_000), (131_073, 2), (40, 40, 40), (1021, 3, 67))
"""Shapes past the thresholds of threads, chunks and split reductions."""
UNARY = ("negative", "positive", "abs", "square", "sign", "sqrt", "floor", "ceil", "trunc", "isnan", "isinf",
         "isfinite", "logical_not", "invert", "copy")
INEXACT = ("exp", "log", "sin", "cos", "tanh", "erf", "expm1", "log1p")
BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum",
          "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
          "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
             "power": "**", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
             "greater_equal": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
             "right_shift": ">>"}
REDUCTIONS = ("sum", "mean", "var", "min", "max", "any", "all")
SLACK = {"power": "ulp", "minimum": "zero", "maximum": "zero", "clip": "zero", "min": "zero", "max": "zero",
         "sum": "sum", "mean": "mean", "var": "var", "softmax": "softmax", "matmul": "matmul", **dict.fromkeys(INEXACT, "ulp")}


def programs(max_steps: int = 20) -> st.SearchStrategy[Program]:
    """Return a hypothesis strategy of programs."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_program(rng, max_steps))


def draw_program(rng: random.Random, max_steps: int = 20, *, large: bool = False) -> Program:
    """Draw one program of up to `max_steps` steps, over small arrays or large ones."""
    return _Drawing(rng, large).program(rng.randint(1, max_steps))


class _Drawing:
    def __init__(self, rng: random.Random, large: bool) -> None:
        self.rng = rng
        self.large = large
        self.max_size = 450_000 if large else MAX_SIZE
        self.sources: list[Source] = []
        self.statements: list[Statement] = []
        self.values: dict[str, Any] = {}

    # ------------------------------------------------------------------ the whole
    def program(self, steps: int) -> Program:
        rng = self.rng
        self._draw_sources()
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._unary, 4), (self._binary, 9), (self._scalar_binary, 5), (self._where, 2), (self._clip, 1),
            (self._astype, 2), (self._reduction, 4), (self._softmax, 1), (self._slice, 4), (self._axes, 4),
            (self._reshape, 2), (self._join, 2), (self._broadcast, 1), (self._matmul, 1), (self._create, 2),
            (self._assign, 2), (self._in_place, 1), (self._derived, 3),
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
        for name in rng.sample(known, min(len(known), rng.choice((0, 0, 1, 2, 3)))):
            if name not in outputs:
                outputs.append(name)
        container = rng.choice(("tuple", "single", "list", "dict"))
        if container == "single":
            outputs = outputs[:1]
        return Program(tuple(self.sources), tuple(self.statements), tuple(outputs), container)

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
                text = repr(rng.choice((2, 0, -3, 7, 0.5, -1.25, 1e-3, 3.0, True, False)))
            elif kind < 0.17 and self.sources:
                text = f"np.{rng.choice(('float32', 'float64', 'int32', 'int64', 'bool_'))}({rng.choice((0, 1, 2, -3, 5))})"
            else:
                text = self._array_text(family)
            source = Source(name, text)
            self.sources.append(source)
            self.values[name] = source.value()

    def _array_text(self, family: tuple[int, ...]) -> str:
        rng, shape = self.rng, family
        if rng.random() < 0.4:
            shape = tuple(1 if rng.random() < 0.3 else n for n in shape)[rng.choice((0, 0, 1)):]
        layout = rng.choice(LAYOUTS) if rng.random() < 0.5 else "C"
        style = rng.choices(("plain", "small", "positive", "special"), (5, 2, 2, 3))[0]
        dtype = rng.choices(DTYPES, (4, 5, 2, 2, 1))[0]
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
        self.statements.append(Statement(f"{name} = {expression}", name, reads, slack))
        self.values[name] = result
        return name

    def _try(self, text: str, name: str) -> Any:
        values = dict(self.values)
        try:
            with quiet():
                exec(text, dict(GLOBALS), values)
        except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
            return None
        result = values[name]
        dtype = getattr(result, "dtype", np.asarray(result).dtype)
        if dtype.name not in DTYPES or np.size(result) > self.max_size or np.ndim(result) > 5 or isinstance(result, complex):
            return None
        return result

    def _broadcasts(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        try:
            return int(np.prod(np.broadcast_shapes(a, b))) <= self.max_size
        except ValueError:
            return False

    def _provoke(self) -> None:
        """Add a last statement that may well be wrong: shapes that do not fit, dtypes that an operator refuses."""
        rng = self.rng
        x, y = self._pick() or "0", self._pick() or "1"
        name, axis = f"v{len(self.statements)}", rng.randint(-5, 5)
        text = rng.choice((
            f"{x} {rng.choice(sorted(OPERATORS.values()))} {y}", f"jf.{rng.choice(INEXACT)}({x})", f"({x} + 0) @ {y}",
            f"np.{rng.choice(REDUCTIONS)}({x}, axis={axis})", f"np.reshape({x}, ({max(axis, -1)}, 3))", f"{x}[{axis}]", f"{x}[:, {axis}]",
            f"np.concatenate([{x}, {y}], axis={axis})", f"np.stack([{x}, {y}])", f"np.broadcast_to({x}, (3, {axis}))",
            f"np.moveaxis({x}, {axis}, 0)", f"np.transpose({x}, ({axis}, 0))", f"np.squeeze({x}, axis={axis})",
            f"np.{rng.choice(BINARY)}({x}, {y})", f"np.expand_dims({x}, {axis})", f"np.clip({x}, {y}, 2)",
            f"np.where({x}, {y}, {x})", f"np.maximum({x}, 2**40)", f"{x}.astype('float16')",
        ))
        self.statements.append(Statement(f"{name} = {text}", name, tuple(n for n in (x, y) if n in self.values), "ulp"))
        self.values[name] = None

    # ------------------------------------------------------------------ elementwise
    def _unary(self) -> None:
        x, name = self._pick(), self.rng.choice(UNARY + INEXACT)
        if x is None or (np.asarray(self.values[x]).dtype == bool and name in (*INEXACT, "sqrt", "floor", "ceil", "trunc", "square", "sign")):
            return
        text = f"np.{name}({x})"
        if name == "erf":
            text = f"special.erf({x})" if np.ndim(self.values[x]) else f"jf.erf({x})"
        elif name in ("negative", "abs", "invert") and self.rng.random() < 0.5:
            text = {"negative": f"-{x}", "abs": f"abs({x})", "invert": f"~{x}"}[name]
        if name == "copy" and isinstance(self.values[x], np.ndarray):
            text = self.rng.choice((f"np.copy({x})", f"{x}.copy()"))
        elif name == "copy":
            return
        self._assign_to(text, (x,), SLACK.get(name, ""))

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
        scalar = self.rng.choice(("0", "1", "-1", "2", "3", "0.5", "2.0", "1.0", "-0.0", "0.0", "1e-3", "-2.5", "1e10", "True", "5"))
        if self.rng.random() < 0.3:
            self._combine(scalar, x, (x,))
        else:
            self._combine(x, scalar, (x,))

    def _combine(self, a: str, b: str, reads: tuple[str, ...]) -> None:
        name = self.rng.choices(BINARY, [6, 6, 6, 5] + [2] * (len(BINARY) - 4))[0]
        form = self.rng.random()
        if form < 0.6 and name in OPERATORS:
            a_text = f"({a})" if a.startswith("-") and name == "power" else a
            text = f"{a_text} {OPERATORS[name]} {b}"
        elif form < 0.7 and name in ("add", "multiply", "less", "maximum", "equal"):
            text = f"jf.{name}({a}, {b})"
        else:
            text = f"np.{name}({a}, {b})"
        self._assign_to(text, reads, SLACK.get(name, ""))

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
            self._assign_to(self.rng.choice((f"{x}.astype('{dtype}')", f"{x}.astype(np.{dtype})")), (x,))

    # ------------------------------------------------------------------ reductions
    def _axis(self, rank: int) -> str:
        rng = self.rng
        if not rank or rng.random() < 0.25:
            return "None"
        count = rng.choice((1, 1, 1, rank, rng.randint(1, rank)))
        axes = rng.sample(range(-rank, 0) if rng.random() < 0.5 else range(rank), count)
        return repr(axes[0] if count == 1 and rng.random() < 0.8 else tuple(axes))

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
        exact = name == "sum" and np.asarray(self.values[x]).dtype.kind in "ib"
        self._assign_to(text, (x,), "" if exact else f"{slack} {x} {axis} {keepdims}" if slack in ("sum", "mean", "var") else slack)

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
            (f"np.nan_to_num({x})", ""), (f"np.full_like({x}, 2)", ""), (f"np.ones_like({x})", ""), (f"np.fabs({x})", ""),
            (f"np.ptp({x}, axis={axis})", "zero"), (f"np.ravel({x}.copy())", ""), (f"np.atleast_2d({x})", ""),
            (f"np.broadcast_arrays({x}, {y})[0] + 0", ""), (f"divmod({x}, {y})[1]", ""), (f"{x}.flatten()", ""),
            (f"len({x}) * {x}", ""), (f"{x} * {x}.size - {x}.shape[-1]", ""), (f"sum(row for row in {x}[:4])", ""),
            (f"np.hstack([{x}, {y}])", ""), (f"np.vstack([{x}, {y}])", ""), (f"np.column_stack([{x}, {y}])", ""),
            (f"np.split({x}, {self.rng.choice((1, 2, 3))}, axis={one})[-1]", ""), (f"[*{x}[:3]][0] + 1", ""),
            (f"jf.nn.relu({x})", "zero"), (f"np.full({shape}, {x}.sum() > 0)", "ulp"),
            (f"np.where({x} > {y}, {x}, {y}) - np.minimum({x}, {y})", "zero"),
        ]
        if len(shape) == 1 and self.values[x].size ** 2 <= self.max_size:
            choices += [(f"np.outer({x}, {y})", ""), (f"np.dot({x}, {y})", f"matmul {x} {y}"), (f"np.inner({x}, {y})", f"matmul {x} {y}")]
        text, slack = self.rng.choice(choices)
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

    def _axes(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        rank = np.ndim(self.values[x])
        order = self.rng.sample(range(rank), rank)
        i, j = self.rng.randrange(rank), self.rng.randrange(-rank, rank)
        self._assign_to(self.rng.choice((
            f"{x}.T", f"np.transpose({x}, {tuple(order)})", f"{x}.transpose({tuple(order)})", f"np.swapaxes({x}, {i}, {j})",
            f"np.moveaxis({x}, {i}, {j})", f"np.expand_dims({x}, {i})", f"{x}[..., None]", f"np.squeeze({x})",
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
        target = x if self.values[x].flags.c_contiguous or self._is_argument(self.values[x]) else f"{x}.copy()"
        self._assign_to(self.rng.choice((
            f"{target}.reshape({tuple(shape)})", f"np.reshape({target}, {tuple(shape)})", f"{target}.ravel()",
            f"{target}.reshape(-1)",
        )), (x,))

    def _is_argument(self, value: Any) -> bool:
        """Return whether a value is an argument's memory: of others, only NumPy knows whether a reshape is a view.

        NumPy lays out what it computes in the order of the operands, jitfuse in C order.
        """
        return any(np.shares_memory(value, self.values[s.name]) for s in self.sources)

    def _join(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis = self.rng.randrange(-len(shape), len(shape))
        if self.rng.random() < 0.5:
            at = axis % len(shape)
            y = self._pick(lambda v: np.ndim(v) == len(shape) and all(a == b or k == at for k, (a, b) in enumerate(zip(np.shape(v), shape))))
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
        self._assign_to(rng.choice((
            f"np.zeros({shape}, '{dtype}')", f"np.ones({shape})", f"np.full({shape}, {rng.choice((2, -1.5, 7))})",
            f"np.arange({n})", f"np.arange({n}, dtype='float32')", f"np.arange(1, {2 * n + 1}, 2)", f"np.arange(0.5, {n})",
            f"np.zeros_like({like})" if like else "np.zeros(3)", f"np.eye({min(n, 7)})", f"np.linspace(0, 1, {n})",
            f"np.array({[rng.choice((0.5, -1, 2, 7.25)) for _ in range(n)]})",
        )), (like,) if like else ())

    def _writable(self) -> str | None:
        return self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.flags.writeable)

    def _assign(self) -> None:
        x = self._writable()
        if x is None:
            return
        index = self._index(np.shape(self.values[x]))
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

    def _change(self, text: str, target: str, reads: tuple[str, ...]) -> None:
        """Add a statement that writes into an array; tried on copies that share memory as the values do."""
        before = copy.deepcopy({n: v for n, v in self.values.items() if n == target or n in reads})
        if self._try(text, target) is None:
            self.values[target][...] = before[target]
            return
        self.statements.append(Statement(text, target, tuple(n for n in reads if n in self.values), changes=True))


def _fits(shape: tuple[int, ...], region: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, region) == region
    except ValueError:
        return False
