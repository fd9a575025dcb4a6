"""Every row of the op table has a rule or says why not, and every rule agrees with central differences."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from derivatives_checked import check, check_twice, of_tensors, one_step, run

import jitfuse as jf
from jitfuse.dtypes import kind
from jitfuse.errors import DerivativeError, DTypeError
from jitfuse.gradients.programs import forward, reverse
from jitfuse.gradients.rule import rule_of
from jitfuse.gradients.rules.linear_algebra import parts_of
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta

NAMES = list(ops.names())
RULES = {name: rule_of(name) for name in NAMES}
CONSTANT = [name for name in NAMES if RULES[name].constant]
REFUSED = [name for name in NAMES if RULES[name].reason]
SMOOTH = [name for name in NAMES if name not in CONSTANT and name not in REFUSED]


class Case(NamedTuple):
    """Operands and attributes of a step.

    wanted   the places of the operands by which it is differentiated; None: of all floats and complex numbers
    second   whether second derivatives are compared too
    """

    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = MappingProxyType({})
    wanted: tuple[int, ...] | None = None
    second: bool = True
    tolerance: float = 2e-7


CASES: dict[str, Callable[[], Iterator[Case]]] = {}


def uniform(low: float, high: float, shape: tuple[int, ...] = (3, 4), seed: int = 0) -> Any:
    return np.random.default_rng(seed + len(CASES)).uniform(low, high, shape)


def both(low: float, high: float, shape: tuple[int, ...] = (3, 4), seed: int = 0) -> Any:
    return uniform(low, high, shape, seed) + 1j * uniform(-1, 1, shape, seed + 1)


def takes_complex(name: str, arity: int, attrs: dict[str, Any]) -> bool:
    row = ops.get(name)
    assert row is not None
    try:
        row.result_meta([Meta((3, 4), "complex128")] * arity, attrs)
    except DTypeError:
        return False
    return True


# ---------------------------------------------------------------- functions of single elements
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


def case(*names: str) -> Callable[[Callable[..., Iterator[Case]]], None]:
    """Enter the cases of rows; a function with a parameter gets the row's name."""
    def enter(of: Callable[..., Iterator[Case]]) -> None:
        for name in names:
            CASES[name] = (lambda name=name: of(name)) if inspect.signature(of).parameters else of

    return enter


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


# ---------------------------------------------------------------- reductions and scans
@case("sum", "prod", "min", "max", "mean", "var", "std", "ptp", "logsumexp", "nansum", "nanprod", "nanmin", "nanmax",
      "nanmean", "nanvar", "nanstd", "median", "complex_prod")
def _(name: str) -> Iterator[Case]:
    x = uniform(-2, 2, (2, 3, 4))
    if name.startswith("nan"):
        x[0, 1, 1:3] = x[1, 0, 2] = np.nan
    if name.startswith("complex"):
        x = x + 1j * uniform(-1, 1, (2, 3, 4), 1)
    row = ops.get(name)
    assert row is not None
    for axis in (None, 1, -1, (0, 2), ()):
        if axis == () and (name.startswith("complex") or name in ("median", "var", "std", "nanvar", "nanstd")):
            continue
        yield Case((x,), {"axis": axis, "keepdims": axis != 1}, second=name not in ("std", "nanstd") or axis is None)
    if "correction" in row.attrs:
        yield Case((x,), {"axis": (0, 2), "keepdims": False, "correction": 1.0})
    if name in ("prod", "nanprod", "complex_prod"):
        x[0, 0, 0] = x[1, 1, 0] = x[1, 1, 1] = 0
        yield Case((x,), {"axis": -1, "keepdims": False})
    attrs = {"axis": 1, "keepdims": False}
    if not name.startswith("complex") and takes_complex(name, 1, attrs):
        yield Case((both(-2, 2, (2, 3, 4)),), attrs)
        yield Case((both(-2, 2, (2, 3, 4)),), {"axis": None, "keepdims": True})


@case("cumsum", "cumprod", "cummax", "cummin", "complex_cumprod")
def _(name: str) -> Iterator[Case]:
    for axis in (0, -1):
        x = both(-2, 2, (3, 5)) if name.startswith("complex") else uniform(-2, 2, (3, 5))
        yield Case((x,), {"axis": axis})
    if name.endswith("cumprod"):
        x[0, 1] = x[1, 0] = x[1, 3] = 0
        yield Case((x,), {"axis": -1})
    if not name.startswith("complex") and takes_complex(name, 1, {"axis": 0}):
        yield Case((both(-2, 2),), {"axis": 0})


@case("softmax", "log_softmax", "layer_norm", "rms_norm")
def _() -> Iterator[Case]:
    for axis in (-1, 0, (0, 1)):
        yield Case((uniform(-2, 2, (3, 4, 2)),), {"axis": axis})


@case("sort", "partition")
def _(name: str) -> Iterator[Case]:
    for axis in (0, -1):
        yield Case((uniform(-2, 2, (4, 5)),), {"axis": axis, **({"positions": (1, 3)} if name == "partition" else {})})


# ---------------------------------------------------------------- views, joins and writes
@case("reshape")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"shape": (2, 1, 6)})
    yield Case((both(-2, 2),), {"shape": (12,)})


@case("transpose")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (2, 3, 4)),), {"axes": (2, 0, 1)})
    yield Case((both(-2, 2, (2, 3, 4)),), {"axes": (-2, 0, -1)})


@case("broadcast_to")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 1)),), {"shape": (2, 3, 4)})
    yield Case((uniform(-2, 2, ()),), {"shape": (2, 3)})
    yield Case((uniform(-2, 2, (1, 4)),), {"shape": (1, 4)})


SLICES = (
    {"starts": (1, 3), "steps": (1, -1), "counts": (2, 4)}, {"starts": (0, 0), "steps": (2, 3), "counts": (2, 2)},
    {"starts": (0, 0), "steps": (1, 1), "counts": (0, 5)},
)


@case("slice")
def _() -> Iterator[Case]:
    for attrs in SLICES:
        yield Case((uniform(-2, 2, (4, 5)),), attrs)
    yield Case((both(-2, 2, (4, 5)),), SLICES[0])


@case("update_slice")
def _() -> Iterator[Case]:
    for attrs in SLICES:
        yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, attrs["counts"], 1)), attrs)
    yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, (), 1)), SLICES[0])
    yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, (4,), 1)), SLICES[0])
    yield Case((both(-2, 2, (4, 5)), both(-2, 2, (2, 4), 1)), SLICES[0])


@case("update_at")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 4)), uniform(-2, 2, (4,), 1), np.array(1)))
    yield Case((uniform(-2, 2, (2, 3, 4)), uniform(-2, 2, (4,), 1), np.array(4)))
    yield Case((uniform(-2, 2, (3,)), uniform(-2, 2, (), 1), np.array(2)))


@case("concat", "stack")
def _() -> Iterator[Case]:
    for axis in (0, 1):
        yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1), uniform(-2, 2, (3, 4), 2)), {"axis": axis})
    yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1)), {"axis": -1}, (1,))
    yield Case((both(-2, 2), uniform(-2, 2, (3, 4), 1)), {"axis": 0})


@case("windows")
def _() -> Iterator[Case]:
    x = uniform(-2, 2, (6, 7))
    for sizes, steps, dilations in (((2, 3), (1, 1), (1, 1)), ((2, 3), (2, 1), (1, 2)), ((3,), (2,), (2,)),
                                    ((6, 1), (1, 3), (1, 1))):
        yield Case((x,), {"sizes": sizes, "steps": steps, "dilations": dilations})
    yield Case((both(-2, 2, (5,)),), {"sizes": (2,), "steps": (1,), "dilations": (1,)})


@case("diagonal")
def _() -> Iterator[Case]:
    for shape, offset in (((3, 4), 0), ((3, 4), 2), ((4, 3), -1), ((2, 3, 3), 1), ((3, 4), 4)):
        yield Case((uniform(-2, 2, shape),), {"offset": offset})
    yield Case((both(-2, 2),), {"offset": 1})


@case("diag", "tril", "triu")
def _(name: str) -> Iterator[Case]:
    shape = (3,) if name == "diag" else (3, 4)
    for k in (-1, 0, 2):
        yield Case((uniform(-2, 2, shape),), {"k": k})
    yield Case((both(-2, 2, shape),), {"k": 0})


@case("roll")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"shifts": (1, -9), "axes": (0, -1)})
    yield Case((both(-2, 2),), {"shifts": (2,), "axes": (1,)})


@case("tile")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"reps": (2, 1, 3)})
    yield Case((uniform(-2, 2, ()),), {"reps": (3,)})


@case("repeat")
def _() -> Iterator[Case]:
    for axis in (0, -1):
        yield Case((uniform(-2, 2),), {"times": 3, "axis": axis})


@case("pad")
def _() -> Iterator[Case]:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "mean", "maximum", "minimum", "linear_ramp",
                 "median"):
        attrs = {"before": (1, 2), "after": (0, 3), "mode": mode, "lengths": (), "odd": False,
                 "values": (1, 2, 3, 4) if mode in ("constant", "linear_ramp") else ()}
        yield Case((uniform(-2, 2, (3, 4)),), attrs)
    yield Case((uniform(-2, 2, (3, 4)),), {**attrs, "mode": "reflect", "odd": True, "values": ()})


INDEX, OTHER = np.array([[0, 2, 0], [1, 1, -1]]), np.array([3, 0, 3])


@case("gather")
def _() -> Iterator[Case]:
    x = uniform(-2, 2, (3, 4, 2))
    yield Case((x, np.array([0, 2, 0])), {"axes": (0,), "place": 0})
    yield Case((x, np.abs(INDEX), OTHER), {"axes": (0, 1), "place": 0})
    yield Case((x, np.array([1, 1])), {"axes": (2,), "place": 2})
    yield Case((both(-2, 2), np.array(1)), {"axes": (1,), "place": 1})


@case("take")
def _() -> Iterator[Case]:
    for mode in ("raise", "wrap", "clip"):
        index = np.array([0, 2, 0]) if mode == "raise" else np.array([5, -1, 0])
        yield Case((uniform(-2, 2), index), {"axis": 0, "mode": mode})
        yield Case((uniform(-2, 2), index), {"axis": -1, "mode": mode})


@case("take_along_axis")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 4)), np.array([[0, 0], [3, 1], [2, 2]])), {"axis": 1})
    yield Case((uniform(-2, 2, (3, 4)), np.array([[0, 2, 1, 1]])), {"axis": 0})
    yield Case((uniform(-2, 2, (1, 4)), np.array([[0, 0], [3, 1], [2, 2]])), {"axis": 1})


@case("quantile", "percentile", "nanquantile", "nanpercentile", "nanmedian")
def _(name: str) -> Iterator[Case]:
    x = uniform(-2, 2, (3, 4, 5))
    if name.startswith("nan"):
        x[0, 1, 1:3] = x[1, 0, 2] = x[2, 2] = np.nan
    if name == "nanmedian":
        for axis, keepdims in ((None, True), (1, False), ((0, -1), True)):
            yield Case((x,), {"axis": axis, "keepdims": keepdims})
        return
    scale = 100.0 if "percentile" in name else 1.0
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        for q in (np.array(0.37), np.array([0.1, 0.83])):
            yield Case((x, q * scale), {"axis": (0, 2), "keepdims": q.ndim == 0, "method": method}, tolerance=1e-6)
    yield Case((x[0, 0], np.array(0.37 * scale)), {"axis": None, "keepdims": False})


@case("scatter")
def _() -> Iterator[Case]:
    x, at = uniform(-2, 2, (3, 4)), {"axes": (0,), "place": 0}
    for combine in ("maximum", "minimum", "multiply"):
        attrs = {**at, "combine": combine}
        yield Case((x, uniform(-2, 2, (3, 4), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 1])), attrs)
        yield Case((x, uniform(-2, 2, (3,), 1), np.array([0, 1, 0]), OTHER),
                   {"axes": (0, 1), "place": 0, "combine": combine})
    zeros, some = np.array([[0.0, 1, 0, 2], [3, 0, 0, 4], [0, 0, 5, 6]]), np.array([[1.0, 0, 2, 0]] * 3)
    yield Case((some, zeros, np.array([0, 0, 2])), {**at, "combine": "multiply"}, second=False)
    for combine in ("set", "add", "subtract"):
        attrs = {**at, "combine": combine}
        yield Case((x, uniform(-2, 2, (3, 4), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 0])), attrs, (1,))
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 0])), attrs, (0,))
        yield Case((x, uniform(-2, 2, (3,), 1), np.array([0, 1, 0]), OTHER),
                   {"axes": (0, 1), "place": 0, "combine": combine})
        yield Case((both(-2, 2), both(-2, 2, (3, 2), 1), np.array([1, 1])),
                   {"axes": (1,), "place": 1, "combine": combine})


# ---------------------------------------------------------------- linear algebra
@case("matmul")
def _() -> Iterator[Case]:
    for a, b in (((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 2)),
                 ((3, 4), (5, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (5, 4, 2)), ((2, 3, 4), (4,)),
                 ((1, 3, 4), (5, 4, 2))):
        yield Case((uniform(-2, 2, a), uniform(-2, 2, b, 1)))
    yield Case((both(-2, 2, (3, 4)), uniform(-2, 2, (2, 4, 3), 1)))
    yield Case((uniform(-2, 2, (4,)), both(-2, 2, (4, 3), 1)))
    yield Case((uniform(-2, 2, (3, 4)), uniform(-2, 2, (4, 3), 1)), {}, (1,))


@case("einsum")
def _() -> Iterator[Case]:
    for subscripts, *shapes in (("ij,jk->ik", (3, 4), (4, 2)), ("ij,ij->", (3, 4), (3, 4)), ("ii->i", (3, 3)),
                                ("ij->j", (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)), ("ii,i->", (3, 3), (3,)),
                                ("i,j->ji", (3,), (2,)), ("ai,i->a", (2, 3), (3,))):
        yield Case(tuple(uniform(-2, 2, shape, k) for k, shape in enumerate(shapes)), {
            "subscripts": subscripts, "path": ((0, 1),) if len(shapes) == 2 else ((0,),)})
    yield Case((both(-2, 2, (3, 4)), both(-2, 2, (4, 2), 3)), {"subscripts": "ij,jk->ki", "path": ((0, 1),)})


def regular(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Return matrices with separate singular values, far from 0."""
    x = both(-1, 1, shape) if dtype == "complex128" else uniform(-1, 1, shape)
    return x + 3 * np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)


SYMMETRIC = ("cholesky", "eigvalsh", "eigh")
"""They read one triangle, and have the derivatives along symmetric tangents, as in torch and JAX."""


def of_symmetric(name: str, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    def function(x: Any) -> Any:
        turned = x.call("conj") if x.dtype == "complex128" else x
        turned = turned.call("transpose", axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
        return x.add(turned).multiply(0.5).call(name, **attrs)

    return of_tensors(operands, function)


@case("inv", "det", "slogdet", "svdvals", "pinv", "svd", "qr", *SYMMETRIC)
def _(name: str) -> Iterator[Case]:
    options: dict[str, list[dict[str, Any]]] = {
        "cholesky": [{"upper": False}, {"upper": True}], "eigvalsh": [{"lower": True}, {"lower": False}],
        "eigh": [{"lower": True}, {"lower": False}], "svd": [{"full_matrices": False}],
    }
    gauged = name in ("svd", "qr", "eigh")  # the phases of complex vectors are any: test_decompositions has them
    shapes = [(3, 3), (2, 3, 3)]
    if name in ("svd", "svdvals", "pinv"):
        shapes += [(4, 3), (3, 4)]
    if name == "qr":
        shapes += [(4, 3)]
    for dtype in ("float64",) if gauged else ("float64", "complex128"):
        for shape in shapes:
            x = regular(shape, dtype)
            if name == "cholesky":
                x = x @ np.swapaxes(x, -1, -2).conj()
            for attrs in options.get(name, [{}]):
                yield Case((x, np.array(1e-15)) if name == "pinv" else (x,), attrs, (0,), tolerance=2e-6)


@case("eigvals")
def _() -> Iterator[Case]:
    for shape in ((3, 3), (2, 3, 3)):
        yield Case((regular(shape),), tolerance=1e-6)
        yield Case((regular(shape, "complex128"),), tolerance=1e-6)


@case("solve")
def _() -> Iterator[Case]:
    for a, b in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (3,))):
        yield Case((regular(a), uniform(-2, 2, b, 3)))
        yield Case((regular(a), uniform(-2, 2, b, 3)), {}, (0,))
        yield Case((regular(a), uniform(-2, 2, b, 3)), {}, (1,))
    yield Case((regular((3, 3), "complex128"), both(-2, 2, (3, 2), 3)))
    yield Case((regular((3, 3)), both(-2, 2, (3,), 3)))


NORMS = ("backward", "ortho", "forward")


@case("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
def _(name: str) -> Iterator[Case]:
    for n, axis, norm in ((5, -1, "backward"), (4, 0, "ortho"), (7, 1, "forward"), (6, 0, "backward")):
        attrs = {"n": n, "axis": axis, "norm": norm}
        yield Case((uniform(-2, 2, (5, 6)),), attrs)
        if name not in ("rfft", "ihfft"):
            yield Case((both(-2, 2, (5, 6)),), attrs)


@case("fftn", "ifftn", "rfftn", "irfftn")
def _(name: str) -> Iterator[Case]:
    for s, axes, norm in (((4, 5), (0, 2), "backward"), ((3, 6), (1, 2), "ortho"), ((5, 4, 3), (2, 0, 1), "forward")):
        attrs = {"s": s, "axes": axes, "norm": norm}
        yield Case((uniform(-2, 2, (3, 4, 5)),), attrs)
        if name != "rfftn":
            yield Case((both(-2, 2, (3, 4, 5)),), attrs)


# ---------------------------------------------------------------- random numbers and modes
@case("dropout")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), np.array([3, 9]), np.array(4)), {"p": 0.4})


@case("mode_select")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1)))


# ---------------------------------------------------------------- loops and branches
def scanned(x: Any, w: Any) -> Any:
    return jf.scan(lambda c, a: (np.tanh(c @ w) + a, c * a), x[0], x)


def scanned_back(x: Any, w: Any) -> Any:
    return jf.scan(lambda c, a: (np.sin(c) * a, c.sum()), x[0], x @ w, reverse=True)


FUNCTIONS: dict[str, list[Callable[..., Any]]] = {
    "cond": [lambda x, w: jf.cond(x.sum() > 0, lambda v: v @ w, lambda v: v * w[0], x),
             lambda x, w: jf.cond(x.sum() < 0, lambda v: (v @ w, 3), lambda v: (v * w[0], 4), x)[0]],
    "scan": [scanned, scanned_back],
    "fori_loop": [lambda x, w: jf.fori_loop(0, 3, lambda i, v: np.tanh(v @ w) * (i + 1), x),
                  lambda x, w: jf.fori_loop(2, 2, lambda i, v: v @ w, x)],
    "while_loop": [lambda x, w: jf.while_loop(lambda v: v[0].sum() < 30, lambda v: (v[0] * 2, np.tanh(v[1] @ w)),
                                              (abs(x), x))[1]],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_and_branches(name: str) -> None:
    operands = uniform(0.1, 1, (3, 4)), uniform(-1, 1, (4, 4))
    for function in FUNCTIONS[name]:
        program = jf.fuse(function).program(*operands)
        assert name in program.op_names
        if name == "while_loop":
            made = forward(program, program.ordered_feeds)
            assert name in made.program.op_names
            with pytest.raises(DerivativeError, match="no reverse-mode derivative"):
                reverse(program, program.ordered_feeds)
        else:
            check_twice(program, operands, (0, 1))
            check(program, operands, (0,))
            check(program, operands, (1,))


# ---------------------------------------------------------------- all rows
def test_every_row_has_a_rule_or_a_reason() -> None:
    for name, rule in RULES.items():
        ways = [rule.forward, rule.reverse, rule.through, rule.reason, rule.constant]
        assert any(ways), f"{name} has neither a rule nor a reason"
    assert len(RULES) == len(list(ops.table())) == len(CONSTANT) + len(REFUSED) + len(SMOOTH)
    missing = sorted({*SMOOTH} - {*CASES} - {*FUNCTIONS} - {"eig", "checkpoint", "custom_jvp", "custom_vjp"})
    assert not missing, f"rules without a case: {missing}"


@pytest.mark.parametrize("name", list(CASES))
def test_rules(name: str) -> None:
    for number, made in enumerate(CASES[name]()):
        wanted = made.wanted
        if wanted is None:
            wanted = tuple(k for k, x in enumerate(made.operands) if kind(str(x.dtype)) in ("float", "complex"))
        program = (of_symmetric if name in SYMMETRIC else one_step)(name, made.operands, made.attrs)
        again = check_twice if made.second and number < 4 else check
        try:
            again(program, made.operands, wanted, tolerance=made.tolerance)
        except Exception as error:
            error.add_note(f"{name} with {made.attrs} of {[f'{x.dtype}{list(x.shape)}' for x in made.operands]} "
                           f"by {wanted}")
            raise


def conj(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def of_svd(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * np.cos(s)) @ vh, abs(u) ** 2


def of_eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(x + conj(x))
    return (vectors * np.sin(values)) @ conj(vectors), abs(vectors) ** 2


def of_qr(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return q @ conj(q), abs(r) ** 2, abs(q) ** 2


@pytest.mark.parametrize("function", [of_svd, of_eigh, of_qr])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_decompositions(function: Callable[..., Any], dtype: str) -> None:
    """What does not depend on the phases of vectors, which are any."""
    for shape in ((3, 3), *(((4, 3),) if function in (of_svd, of_qr) else ()), *(
            ((3, 4),) if function is of_svd else ())):
        x = regular(shape, dtype)
        check_twice(jf.fuse(function).program(x), (x,), (0,), tolerance=2e-6)


def test_eigenvectors() -> None:
    def function(x: Any) -> Any:
        values, vectors = parts_of("eig", x, x.call("eig"))
        return vectors.call("abs").multiply(values.reshape((1, 3)))

    for dtype in ("float64", "complex128"):
        x = regular((3, 3), dtype)
        check_twice(of_tensors((x,), function), (x,), (0,), tolerance=2e-6)


@pytest.mark.parametrize("name", [
    n for n in (*CONSTANT, "sign") if (row := ops.get(n)) and row.kind == ops.ELEMENTWISE])
def test_constant_rows_have_no_changes(name: str) -> None:
    row = ops.get(name)
    assert row is not None
    operands = [uniform(1.1, 1.9, (4,), k) for k in range(row.arity)]
    try:
        program = one_step(name, operands, {})
    except DTypeError:
        return  # of integers alone
    if name == "stop_gradient" or kind(program.meta[program.outputs["y"]].dtype) != "float":
        made = reverse(program, program.ordered_feeds)
        given = [np.ones(4)] * len(made.changes)
        names = [f"d{k}" for k in range(row.arity)]
        assert all(np.all(np.asarray(d) == 0) for d in run(made.program, [*operands, *given], names))
        return
    check(program, operands, tuple(range(row.arity)), tolerance=1e-9)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "gammaincinv", "zeta"])
def test_an_operand_without_a_derivative_is_refused(name: str) -> None:
    """It is not one whose derivative is 0."""
    operands = (uniform(1.5, 3, (4,)), uniform(0.2, 0.8, (4,)))
    program = one_step(name, operands, {})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=f"{name} has no derivative by its first operand"):
            mode(program, program.ordered_feeds)


def test_refused_rows_say_why() -> None:
    for name in REFUSED:
        assert len(RULES[name].reason) > 10
    x = uniform(1, 2, (4,))
    program = one_step("riemann_zeta", (x,), {})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=r"riemann_zeta has no derivative: its derivative has no operator"):
            mode(program, program.ordered_feeds)


def test_quantiles_by_unusual_methods_are_refused() -> None:
    program = one_step("quantile", (uniform(1, 2, (4,)), np.array(0.3)), {"axis": None, "method": "hazen"})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=r"quantile with method='hazen' has no derivative"):
            mode(program, program.ordered_feeds)
