"""Functions of single elements, choices between them, casts, and masks of modes."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jitfuse.ir.operators import ops
from rule_cases import CASES, SMOOTH, Case, both, case, takes_complex, uniform

RANGES = {
    "log": (0.3, 3), "log2": (0.3, 3), "log10": (0.3, 3), "log1p": (-0.7, 2), "sqrt": (0.3, 3), "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9), "acosh": (1.2, 3), "atanh": (-0.9, 0.9), "logit": (0.1, 0.9), "reciprocal": (0.4, 2),
    "tan": (-1.2, 1.2), "gammaln": (0.3, 4), "gamma": (0.3, 4), "rgamma": (-0.8, 4), "digamma": (0.3, 4),
    "erfinv": (-0.9, 0.9), "erfcinv": (0.1, 1.9), "ndtri": (0.1, 0.9), "cbrt": (0.3, 2), "frexp_mantissa": (0.55, 0.95),
    "modf_fraction": (0.1, 0.9),
}
UNARY = [name for name in SMOOTH if (row := ops.get(name)) and row.arity == 1 and not row.attrs
         and name not in ("det", "inv", "slogdet", "svdvals", "eig", "eigvals", "python_number", "stop_gradient")]
PAIRS = {
    "power": (0.3, 2), "float_power": (0.3, 2), "xlogy": (0.3, 2), "beta": (0.4, 3), "betaln": (0.4, 3),
    "divide": (0.4, 2), "remainder": (0.4, 2), "fmod": (0.4, 2),
}
BINARY = [name for name in SMOOTH if (row := ops.get(name)) and row.arity == 2 and not row.attrs
          and name not in ("matmul", "solve", "pinv", "ldexp", "gammainc", "gammaincc", "gammaincinv", "zeta",
                           "mode_select", "nextafter", "require")]


def unary(name: str) -> Iterator[Case]:
    low, high = RANGES.get(name, (-2, 2))
    for shape in ((3, 4), ()):
        yield Case((uniform(low, high, shape),))
    if name == "sinc":
        yield Case((np.array([1e-4, -0.009, 0.011, 0.03]),))
    if takes_complex(name, 1, {}):
        yield Case((both(low, high),))


def binary(name: str) -> Iterator[Case]:
    low, high = PAIRS.get(name, (-2, 2))
    for a, b in (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((2, 3), (1,))):
        operands = uniform(low, high, a, 1), uniform(low, high, b, 2)
        yield Case(operands)
        yield Case(operands, {}, (0,))
        yield Case(operands, {}, (1,))
    if takes_complex(name, 2, {}):
        yield Case((both(low, high, (3, 1)), both(low, high, (4,), 2)))
        yield Case((uniform(low, high, (3, 1)), both(low, high, (4,), 2)))
        yield Case((both(low, high, (3, 1)), uniform(low, high, (4,), 2)))


for _name in UNARY:
    CASES[_name] = lambda name=_name: unary(name)
for _name in BINARY:
    CASES[_name] = lambda name=_name: binary(name)


@case("where")
def _() -> Iterator[Case]:
    condition = uniform(0, 1) > 0.5
    yield Case((condition, uniform(0, 1), uniform(0, 1, (4,))))
    yield Case((condition[:, :1], uniform(0, 1, (1, 4)), uniform(0, 1, ())))
    yield Case((condition, both(0, 1), uniform(0, 1, (4,))))


@case("clip")
def _() -> Iterator[Case]:
    x = uniform(-2, 2, (5, 6))
    yield Case((x, uniform(-1, 0, (6,), 1), uniform(0, 1, (5, 1), 2)))
    yield Case((x, np.array(-0.5), np.array(0.5)), {}, (0,))
    yield Case((x, uniform(-1, 1, (6,), 1), uniform(-1, 1, (5, 1), 2)))  # low above high: high


@case("nan_to_num")
def _() -> Iterator[Case]:
    x = uniform(-2, 2)
    x[0] = [np.nan, np.inf, -np.inf, 1]
    yield Case((x, np.array(1.0), np.array(2.0), np.array(3.0)), {}, (1, 2, 3))
    yield Case((uniform(-2, 2), np.array(1.0), np.array(2.0), np.array(3.0)), {}, (0,))


@case("gammainc", "gammaincc")
def _() -> Iterator[Case]:
    yield Case((uniform(0.5, 3, (3, 1)), uniform(0.3, 3, (4,))), {}, (1,))


@case("gammaincinv")
def _() -> Iterator[Case]:
    yield Case((uniform(0.5, 3, (3, 1)), uniform(0.2, 0.8, (4,))), {}, (1,), tolerance=1e-6)


@case("zeta")
def _() -> Iterator[Case]:
    yield Case((uniform(2, 4, (3, 1)), uniform(0.6, 3, (4,))), {}, (1,))


@case("ldexp")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), np.array([1, -2, 0, 3])))


@case("nextafter")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), uniform(-2, 2, (4,))), {}, (0,))


@case("require")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), np.array(True)))


@case("python_number")
def _() -> Iterator[Case]:
    yield Case((np.array(1.5),))


@case("astype")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"dtype": "float64"})
    yield Case((uniform(-2, 2),), {"dtype": "complex128"})
    yield Case((both(-2, 2),), {"dtype": "complex128"})


@case("make_complex")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 1)), uniform(-2, 2, (4,))))
    yield Case((uniform(-2, 2, ()), uniform(-2, 2, ())))


# ---------------------------------------------------------------- random numbers and modes
@case("dropout")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), np.array([3, 9]), np.array(4)), {"p": 0.4})


@case("mode_select")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1)))
