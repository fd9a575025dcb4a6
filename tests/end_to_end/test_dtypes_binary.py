"""Every binary operator over every pair of dtypes, and with Python scalars, against NumPy.

Operators are tried on each pair in one order, functions and powers on a quarter of the pairs. JITFUSE_TEST_SCALE above
1 takes all.
"""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from amount import extended
from dtypes_compared import DTYPES, attempted, differences, edges, pairs
from programs import quiet

import jitfuse as jf

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
}
UFUNCS = {
    name: getattr(np, name)
    for name in ("minimum", "maximum", "fmin", "fmax", "fmod", "logical_and", "logical_or", "logical_xor", "copysign",
                 "heaviside", "gcd", "lcm", "nextafter", "ldexp")
}
INEXACT = {name: getattr(np, name) for name in ("arctan2", "hypot", "logaddexp", "logaddexp2", "float_power")}
OTHERS = {
    "where": lambda x, y: np.where(x > 0, x, y), "concatenate": lambda x, y: np.concatenate([x, y]),
    "stack": lambda x, y: np.stack([x, y]), "divmod": divmod,
    "isclose": lambda x, y: np.isclose(x, y, equal_nan=True),
}
ULPS = {**dict.fromkeys(INEXACT, 4.0)}
SCALAR_FUNCTIONS = {**OPERATORS, **{k: UFUNCS[k] for k in ("minimum", "fmax", "copysign", "heaviside", "gcd")}}
PAIRS = [
    (a, b) for i, a in enumerate(DTYPES) for j, b in enumerate(DTYPES)
    if i == j or (i + j) % 6 == 1 or extended()
]


ORDERED = [
    (a, b) for i, a in enumerate(DTYPES) for j, b in enumerate(DTYPES)
    if i == j or (i < j) == (i + j) % 2 or extended()
]


def both(functions: Any, *args: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    def every(*arrays: Any) -> Any:
        return attempted(functions, *arrays)

    with quiet():
        return jf.fuse(every)(*args), every(*args)


@pytest.mark.parametrize(("a", "b"), ORDERED)
def test_operators_of_two_dtypes(a: str, b: str) -> None:
    assert differences(*both(OPERATORS, *pairs(a, b))) == {}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_functions_of_two_dtypes(a: str, b: str) -> None:
    assert differences(*both({**UFUNCS, **INEXACT, **OTHERS}, *pairs(a, b)), ULPS) == {}


def with_scalar(name: str, scalar: Any, left: bool) -> Any:
    """Return x with a scalar that is a constant of the code: a variable of 2**63 would be refused."""
    function = SCALAR_FUNCTIONS[name]
    x = "F(S, x)" if left else "F(x, S)"
    return eval(f"lambda x: {x}".replace("S", repr(scalar)), {"F": function})


SCALARS = [True, 0, 1, -1, 3, 127, 200, 2**40, -(2**31), 2**63, 1.5, 0.0, -1e39]


@pytest.mark.parametrize(("dtype", "scalar"), [
    (d, s) for i, d in enumerate(DTYPES) for j, s in enumerate(SCALARS) if (i + j) % 3 == 2 or extended()])
def test_operators_with_python_scalars(dtype: str, scalar: Any) -> None:
    if scalar == 2**63 and dtype in ("bool", "bfloat16"):
        pytest.skip("NumPy converts it to int64, which raises, or to an object")
    functions = {f"{name} {left}": with_scalar(name, scalar, left) for name in SCALAR_FUNCTIONS for left in (0, 1)}
    assert differences(*both(functions, edges(dtype))) == {}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_powers(a: str, b: str) -> None:
    x, y = pairs(a, b)
    if a[0] in "biu" and b[0] in "iu" and a != "bfloat16":
        y = abs(y) % 70  # negative powers of integers raise
    powers = {"**": operator.pow, **{f"**{k}": (lambda x, y, k=k: x**k) for k in (0, 1, 2, 3, 0.5)}}
    assert differences(*both(powers, x, y), dict.fromkeys(powers, 2.0)) == {}
