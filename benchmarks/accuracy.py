"""Measure every inexact function of the op table against mpmath and print docs/accuracy.md.

The kernels are those that users get: each function is fused and called. Arguments are random bit patterns, numbers
of every size, and the intervals where functions change their nature. Needs mpmath; takes minutes:

    python benchmarks/accuracy.py > docs/accuracy.md

``python tests/surface/make_pages.py`` measures only the functions that the page lacks.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import mpmath as m
import numpy as np
from mpmath import mpf

import jitfuse as jf
from jitfuse.ir.operators import ops

SAMPLES: Final = 10_000
DTYPES: Final = ("float32", "float64")
_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "exp2": lambda x: mpf(2) ** x, "log2": lambda x: m.log(x, 2), "cbrt": lambda x: m.sign(x) * m.cbrt(abs(x)),
    "rad2deg": m.degrees, "deg2rad": m.radians, "float_power": m.power,
    "logaddexp": lambda a, b: max(a, b) + m.log1p(m.exp(-abs(a - b))),
    "logaddexp2": lambda a, b: max(a, b) + m.log1p(mpf(2) ** -abs(a - b)) / m.log(2),
    "sigmoid": lambda x: 1 / (1 + m.exp(-x)), "log_sigmoid": lambda x: -m.log1p(m.exp(-x)),
    "silu": lambda x: x / (1 + m.exp(-x)), "gelu": lambda x: x * m.erfc(-x / m.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x / (1 + m.exp(-2 * m.sqrt(2 / m.pi) * (x + mpf("0.044715") * x**3))),
    "softplus": lambda x: m.log1p(m.exp(x)), "elu": lambda x, a: x if x > 0 else a * m.expm1(x),
    "xlogy": lambda x, y: x * m.log(y), "logit": lambda x: m.log(x / (1 - x)), "sinc": m.sincpi,
}
"""The exact functions that mpmath has not under the operator's name."""

_POSITIVE: Final = ("log", "log2", "log10")
WITHIN: Final[dict[str, tuple[float, float]]] = {
    **dict.fromkeys(_POSITIVE, (0.0, np.inf)), "log1p": (-1.0, np.inf), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
    "atanh": (-1.0, 1.0), "acosh": (1.0, np.inf), "logit": (0.0, 1.0),
    # beyond, results are 0, 1, infinite, or the operand
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc", "sigmoid", "log_sigmoid", "silu",
                     "gelu", "gelu_tanh", "softplus", "elu"), (-1100.0, 1100.0)),
    **dict.fromkeys(("logaddexp", "logaddexp2"), (-1e9, 1e9)), "sinc": (-(2.0**53), 2.0**53),
}
"""Where functions have values that are worth a look."""
_INTERVALS: Final[dict[str, list[tuple[float, float]]]] = {
    "exp": [(-746, -705), (709.7, 709.79), (-104, -87), (88, 89)], "exp2": [(-1076, -1020), (-150, -125), (127, 129)],
    "expm1": [(-0.4, 0.7), (30, 40), (709.7, 709.79)], "log": [(0.6, 1.5), (0, 1e-38)], "log2": [(0.6, 1.5)],
    "log10": [(0.6, 1.5)], "log1p": [(-0.4, 0.6), (0, 1e9)], "sin": [(-7e5, 7e5)], "cos": [(-7e5, 7e5)],
    "tan": [(-7e5, 7e5), (0.6, 1)],
    "asin": [(-1, 1), (0.4, 0.6)], "acos": [(-1, 1), (0.99, 1), (0.4, 0.6)],
    "atan": [(0.4, 0.6), (2, 3)], "sinh": [(0.3, 0.4), (88, 90), (709, 711)],
    "cosh": [(0.3, 0.4), (88, 90), (709, 711)],
    "tanh": [(0, 1), (15, 22)], "asinh": [(0.2, 0.5), (0, 1e9)], "acosh": [(1, 2), (1, 1e9)], "atanh": [(-1, 1)],
    "erf": [(0.8, 1.2), (0, 6)], "erfc": [(0.3, 1.2), (-6, 28), (26, 27.3), (9, 10.1)],
    "gelu": [(-1.5, 0), (-39, 10), (-38.8, -37), (-14.5, -13)], "gelu_tanh": [(-22, 5), (-10.5, -9)],
    "sigmoid": [(-746, 750), (-104, -87)], "silu": [(-754, 750), (-110, -87)], "softplus": [(-746, 750), (-62, -58)],
    "log_sigmoid": [(-750, 746), (58, 62)], "logit": [(0, 1), (0.49999, 0.50001)], "sinc": [(-50, 50), (2, 2.0001)],
    "elu": [(-40, 1)], "xlogy": [(0, 3)], "logaddexp": [(-40, 40)], "logaddexp2": [(-60, 60)],
    "power": [(0, 9), (-20, 20)], "float_power": [(0, 9), (-20, 20)],
}
"""Where a function changes its nature, or its code does."""


def exact(name: str) -> Callable[..., Any]:
    """Return an operator's exact function, of mpmath's numbers: from the table here, else mpmath's of its name."""
    function: Callable[..., Any] | None = _EXACT.get(name) or getattr(m, name, None)
    if function is None:
        raise LookupError(f"operator {name} has no exact function: mpmath has none of this name; add one to _EXACT in "
                          "benchmarks/accuracy.py")
    return function


class Worst(NamedTuple):
    """The largest error found, in units in the last place, at which operands, among how many."""

    ulps: float
    at: tuple[float, ...]
    samples: int


def inexact() -> Iterator[ops.Op]:
    """Yield the elementwise operators that promise an error bound rather than NumPy's bits."""
    return (op for op in ops.table() if op.kind == ops.ELEMENTWISE and op.ulps)


def samples(name: str, dtype: str, n: int, rng: np.random.Generator) -> Any:
    """Return about n arguments of a function."""
    integer = np.uint32 if dtype == "float32" else np.uint64
    k = n // 8 + 1
    size = 100 if dtype == "float32" else 700
    parts = [
        rng.integers(0, np.iinfo(integer).max, k, dtype=integer).view(dtype), rng.normal(0, 1, k),
        np.exp(rng.uniform(-size, size, k)) * rng.choice([-1, 1], k), rng.uniform(-20, 20, k),
        np.exp(rng.uniform(-30, 3, k)) * rng.choice([-1, 1], k),
    ]
    intervals = _INTERVALS.get(name, [(-1, 1)])
    parts += [rng.uniform(low, high, 3 * k // len(intervals) + 1) for low, high in intervals]
    with np.errstate(all="ignore"):
        x = np.concatenate([p.astype(dtype) for p in parts])
    low, high = WITHIN.get(name, (-np.inf, np.inf))
    return rng.permutation(x[(x > low) & (x < high) & (x != 0)])


def operands(op: ops.Op, dtype: str, n: int, rng: np.random.Generator) -> list[Any]:
    """Return one array of arguments for each operand."""
    columns = [samples(op.name, dtype, n, rng) for _ in range(op.arity)]
    count = min(map(len, columns))
    columns = [c[:count].copy() for c in columns]
    if op.name.startswith("logaddexp"):
        columns[1][::2] = columns[0][::2] + rng.normal(0, 3, len(columns[0][::2])).astype(dtype)
        near = rng.uniform(-0.69, -1e-3, len(columns[0][::4])).astype(dtype)  # the results of these cancel
        other = np.log(-np.expm1(near)) if op.name == "logaddexp" else np.log2(1 - np.exp2(near))
        columns[0][::4], columns[1][::4] = near, other
    if op.name in ("power", "float_power"):  # results over the whole range
        columns[0] = np.abs(columns[0])
        with np.errstate(all="ignore"):
            wide = rng.uniform(-750, 712, count) / np.log(columns[0].astype("float64"))
            columns[1][::2] = wide.astype(dtype)[::2]
    if op.name == "xlogy":
        columns[1] = np.abs(columns[1])
    if op.name == "elu":
        columns[1] = rng.uniform(0.1, 3, count).astype(dtype)
    finite = np.isfinite(columns).all(axis=0)
    return [c[finite] for c in columns]


def error(got: float, wanted: Any, dtype: str, scale: Any) -> float:
    """Return |got - wanted| in units in the last place of the larger of wanted and `scale`."""
    info = np.finfo(dtype)
    maximum = mpf(float(info.max))
    if abs(wanted) > maximum or np.isinf(got):
        beyond = abs(wanted) >= maximum * (1 + mpf(2) ** -(info.nmant + 2))
        return 0.0 if np.isinf(got) and beyond and (got > 0) == (wanted > 0) else float("inf")
    size = max(abs(wanted), scale)
    exponent = max(m.frexp(size)[1] - 1, int(info.minexp)) if size else int(info.minexp)
    return float(abs(mpf(got) - wanted) * mpf(2) ** (info.nmant - exponent))


def precision(name: str, values: list[float]) -> int:
    """Return how many bits mpmath needs so that nothing cancels."""
    if name in ("sin", "cos", "tan"):
        return 1200
    return 200 if all(1e-20 < abs(v) < 1e20 for v in values) else 2300


def measure(op: ops.Op, dtype: str, n: int, seed: int = 0) -> Worst:
    """Return the worst of about n samples of a function."""
    columns = operands(op, dtype, n, np.random.default_rng([seed, *op.name.encode()]))
    fused = jf.fuse(lambda *xs: xs[0].call(op.name, *xs[1:]))
    got = fused(*columns)
    worst, at = 0.0, tuple(float(c[0]) for c in columns)
    for result, *values in zip(got.tolist(), *(c.tolist() for c in columns), strict=True):
        with m.workprec(precision(op.name, values)):
            wanted = exact(op.name)(*map(mpf, values))
            scale = max(map(abs, map(mpf, values))) / 2**52 if op.name.startswith("logaddexp") else mpf(0)
            found = error(result, wanted, result_dtype(op, dtype), scale)
        if not found <= worst:
            worst, at = found, tuple(values)
    return Worst(worst, at, len(got))


def result_dtype(op: ops.Op, dtype: str) -> str:
    """Return the dtype of an operator's result."""
    return "float64" if op.name == "float_power" else dtype


INTRODUCTION: Final = """\
# Accuracy

Generated by `python benchmarks/accuracy.py` on an x86-64 processor with fused multiply-add.

**NumPy's bits.** These give NumPy's bits on x86-64, in any position, layout and number of threads: `+ - * /`, `sqrt`,
comparisons, casts, roundings, `floor_divide`, `remainder`, `fmod`, `copysign`, `nextafter`, `spacing`, `ldexp`,
`frexp`, `modf`, `round`, `gcd`, `lcm` and integer arithmetic. Excepted are the sign and payload of NaN.

**Sums.** A fixed tree over the number of elements alone defines a float sum
([decision 0004](decisions/0004-canonical-sum-tree.md)). Its worst-case error is that of pairwise summation. The same
tree defines a float product.

**Scans.** `cumsum`, `cumprod`, `cummax` and `cummin` go strictly from left to right and give NumPy's bits. Floats of 16
bits have the bits of float32, rounded. `argmin` and `argmax` give NumPy's positions: the first NaN, else the first of
equal elements.

**Functions.** The functions below stay within the promised distance of the exact value over their whole range. That
includes denormal results and the far tails of `erfc`, `gelu` and `silu`. Largest errors found, in units in the last
place:

"""
CONCLUSION: Final = """
The arguments are random bit patterns, numbers of every size, and the intervals in which a function or its code changes.
Results are compared with mpmath.

- `logaddexp` and `logaddexp2`: where a result is below the 2**-52th part of the larger operand, errors are counted in
  units in the last place of that operand.
- `elu` is `expm1` and a product.
- The exact values of `gelu_tanh` take 0.044715 as that decimal.
- `sinc` is exactly 0 at the integers. NumPy's is as far off as the sine of a rounded pi x.

On processors without fused multiply-add other code runs, also within 1 ulp. Its results may differ from these in the
last bit. Special values are NumPy's, SciPy's and C99's. `silu` and `gelu` of minus infinity are their limit, -0.0.

`tests/backends/llvm/math` measures a part of this in every run, with and without fused multiply-add, and float32 over
all bit patterns in steps. It fails above 1 ulp. `JITFUSE_TEST_SCALE` takes more points.

## Complex numbers

- Sums, differences, comparisons, parts and casts give NumPy's bits.
- A product is `ac - bd, ad + bc` without fused multiply-add, which NumPy uses in places. A quotient is Smith's, as
  NumPy's. Both are within 3 units in the last place of the whole number.
- `abs` is `hypot`.
- complex64 functions are computed in float64. Each part of an elementary function is within 0.51 ulp of the exact
  value.
- In complex128 each part is within 4 ulp. The most found over millions of points is 3.7, where NumPy reaches 6.6.
- `expm1` and `log1p` have no such bound near a circle on which their real part is 0, because it cancels there. `log`
  has no such place: it sums |z| near 1 in two words.
- Special values are C99's (Annex G) and NumPy's. `expm1` follows `exp` at infinity, where NumPy gives NaN.
- Powers to whole literals and whole numbers below 100 are NumPy's products. Others are exp(w log z), whose error grows
  with
  |w log z|.
- A minimum or maximum over axes with a NaN in it has NaN in both parts.

`tests/passes/complex/test_functions.py` measures this in every run.
"""


def row(op: ops.Op, n: int = SAMPLES) -> str:
    """Return the row of an operator, measured with about n samples of each dtype."""
    found = [measure(op, dtype, n) for dtype in DTYPES]
    cells = [op.name, f"{op.ulps:g}"]
    for worst in found:
        cells += [f"{worst.ulps:.3f}", ", ".join(f"{v:.9g}" for v in worst.at)]
    return "| " + " | ".join([*cells, f"{sum(w.samples for w in found):,}"]) + " |"


def page(n: int = SAMPLES, known: Mapping[str, str] | None = None) -> str:
    """Return docs/accuracy.md, measured but for the rows that are known."""
    header = ("function", "promised", "float32", "at", "float64", "at", "samples")
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ("---",) * len(header))]
    for op in inexact():
        if known is None or op.name not in known:
            lines.append(row(op, n))
            print(lines[-1], file=sys.stderr, flush=True)
        else:
            lines.append(known[op.name])
    return INTRODUCTION + "\n".join(lines) + "\n" + CONCLUSION


def rows(text: str) -> dict[str, str]:
    """Return the rows of such a page by operator."""
    names = {op.name for op in inexact()}
    lines = (line for line in text.splitlines() if line.startswith("| "))
    return {name: line for line in lines if (name := line.split(" | ", 1)[0].removeprefix("| ")) in names}


if __name__ == "__main__":
    print(page(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES), end="")
