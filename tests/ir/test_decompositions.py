"""Composite operators written in simpler ones: the same dtypes and values as their references."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import SUPPORTED, numpy_dtype
from jitfuse.errors import DTypeError, ShapeError
from jitfuse.ir.decompositions import padding
from jitfuse.ir.operators import ops

COMPOSITE = [op for op in ops.table() if op.decompose is not None]
FLOATS = ("float32", "float64")


FUNCTIONS = {
    "relu", "log_sigmoid", "leaky_relu", "elu", "float_power", "fabs", "modf_fraction", "modf_whole", "isposinf",
    "isneginf", "nan_to_num", "round", "isclose", "stop_gradient",
}


def composite(name: str) -> ops.Op:
    (op,) = [op for op in COMPOSITE if op.name == name]
    return op


def check(op: ops.Op, operands: list[Any], **attrs: Any) -> None:
    """The decomposition's value is the reference's, and its meta the one that the table infers."""
    tensors = [NumPyTensor(x) for x in operands]
    try:
        meta = op.result_meta([t.meta for t in tensors], {k: v for k, v in attrs.items() if k in op.attrs})
    except (DTypeError, ShapeError):
        return
    assert op.decompose is not None
    with np.errstate(all="ignore"):
        got, want = op.decompose(*tensors, **attrs), op.numpy(*operands, **attrs)
    assert (got.shape, got.dtype, got.weak) == (meta.shape, meta.dtype, meta.weak), (op.name, operands, attrs)
    rtol = {"float32": 3e-7, "complex64": 3e-7, "float16": 4e-3, "bfloat16": 16e-3}.get(got.dtype, 1e-15)
    got, want = (np.asarray(v).astype("float32" if got.dtype == "bfloat16" else got.dtype) for v in (got, want))
    np.testing.assert_allclose(got, want, rtol=rtol, err_msg=f"{op.name} of {operands} with {attrs}")


@pytest.mark.full
def test_clip_has_the_common_dtype_of_all_three() -> None:
    values = [1, 2.5, True, *(numpy_dtype(d).type(1) for d in SUPPORTED if d not in ("int16", "uint16", "uint32"))]
    values += [np.arange(4).astype(numpy_dtype(d)) for d in ("uint8", "float16")]
    for operands in itertools.product(values, repeat=3):
        check(composite("clip"), list(operands))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_of_every_combination_of_dtypes(name: str) -> None:
    values = [1, 2.5, *(np.array(-3).astype(numpy_dtype(d))[()] for d in SUPPORTED)]
    values += [np.arange(-2, 4).astype(numpy_dtype(d)) for d in ("bool", "int8", "uint64", "bfloat16", "float32")]
    op = composite(name)
    for operands in itertools.product(values, repeat=min(op.arity, 2)):
        for others in [()] if op.arity < 3 else [(0.5, 2), (np.float32(0.5), 1.0), (np.float64(0.5), 1.0)]:
            check(op, [*operands, *others[: op.arity - 2]], **op.attrs)


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("decimals", [-3, -1, 0, 1, 2, 23])
def test_round(dtype: str, decimals: int) -> None:
    x = np.array([0.5, 1.5, -2.5, 15.0, 25.0, 1234.5678, -0.05, 0.0, 2.675], "float64").astype(numpy_dtype(dtype))
    check(composite("round"), [x], decimals=decimals)


def test_isclose_of_numbers_that_are_not() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0, np.inf, 1e300])
    for equal_nan in (False, True):
        check(composite("isclose"), [x, x[::-1], 1e-5, 1e-8], equal_nan=equal_nan)
        check(composite("isclose"), [x, x, 1e-5, 1e-8], equal_nan=equal_nan)


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4), (1, 3, 1)])
def test_statistics_over_axes(dtype: str, axis: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(3, 5, shape).astype(numpy_dtype(dtype))
    for keepdims in (False, True):
        check(composite("mean"), [x], axis=axis, keepdims=keepdims)
        for correction in (0.0, 1, 2.5, 100):
            check(composite("var"), [x], axis=axis, keepdims=keepdims, correction=correction)


CORRECTED = ("std", "nanvar", "nanstd")
POSITIONS = ("nanargmin", "nanargmax")
PLAIN = ("count_nonzero", "ptp", "logsumexp", "nansum", "nanprod", "nanmin", "nanmax", "nanmean")


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", [*CORRECTED, *PLAIN])
def test_reductions(name: str, axis: Any, dtype: str) -> None:
    x = np.random.default_rng(0).normal(3, 5, (2, 3, 4)).astype(numpy_dtype(dtype))
    if dtype in FLOATS and name.startswith("nan"):
        x[0, :, 1] = x[:, 0, 0] = np.nan
    for keepdims in (False, True):
        for correction in ((0.0, 1, 2.5, 100) if name in CORRECTED else ({},)):
            attrs = {"correction": correction} if name in CORRECTED else {}
            check(composite(name), [x], axis=axis, keepdims=keepdims, **attrs)


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name: str, axis: Any, dtype: str) -> None:
    x = np.random.default_rng(0).normal(3, 5, (2, 3, 4)).astype(dtype)
    if dtype in FLOATS:
        x[0, :, 1] = x[1, 0, 0] = np.nan
    check(composite(name), [x], axis=axis, keepdims=True)


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_normalisations(name: str, dtype: str, axis: Any) -> None:
    x = np.random.default_rng(0).normal(0, 30, (3, 5)).astype(numpy_dtype(dtype))
    check(composite(name), [x], axis=axis, **({"eps": 1e-5} if name.endswith("_norm") else {}))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.75])
@pytest.mark.parametrize("training", [False, True])
def test_dropout_draws_the_references_numbers(dtype: str, p: float, training: bool) -> None:
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(numpy_dtype(dtype))
    check(composite("dropout"), [x, np.array([3, 9]), 4], p=p, training=training)


ARRANGEMENTS: list[tuple[str, dict[str, Any]]] = [
    ("roll", {"shifts": (1, -9), "axes": (0, -1)}), ("stack", {"axis": -1}), ("tile", {"reps": (2, 1, 3)}),
    ("repeat", {"times": 3, "axis": -1}), ("tril", {"k": 1}), ("triu", {"k": -1}), ("diag", {"k": -2}),
    *(("pad", {"before": (3, 9), "after": (0, 2), "mode": mode, "values": (1, 2, 3, 4), "lengths": (), "odd": odd})
      for mode in padding.MODES for odd in (False, True)),
]


@pytest.mark.parametrize("dtype", SUPPORTED)
def test_arrangements(dtype: str) -> None:
    for name, attrs in ARRANGEMENTS:
        x = np.arange(12).reshape(3, 4).astype(dtype) if name != "diag" else np.arange(3).astype(dtype)
        check(composite(name), [x], **attrs)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take(mode: str) -> None:
    for dtype in ("int8", "int64") if "int8" in SUPPORTED else ("int32", "int64"):
        index = np.array([[0, 2], [-1, 1]] if mode == "raise" else [[0, -9], [7, 2]], dtype)
        check(composite("take"), [np.arange(12.0).reshape(3, 4), index], axis=1, mode=mode)


def test_einsum() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for subscripts, operands, path in (
        ("ab->ba", [x], ()), ("ab,bc->ac", [x, x.T], ((0, 1),)), ("aab->b", [np.arange(36).reshape(3, 3, 4)], ()),
        ("ab,bc,cd->ad", [x, x.T, x], ((1, 2), (0, 1))), ("ab,ab->a", [x > 3, x > 7], ((0, 1),)),
        ("ab,ab->b", [x.astype("int32"), x[:, :1].astype("int32")], ((0, 1),)),
    ):
        check(composite("einsum"), operands, subscripts=subscripts, path=path)


@pytest.mark.parametrize("dtype", ["int64", "float32", "complex64", "complex128"])
def test_angle(dtype: str) -> None:
    turned = np.array([1j, -2j, 0]) if "complex" in dtype else 0
    check(composite("angle"), [(np.array([1, 2, -3]) + turned).astype(dtype)])


def test_every_composite_operator_is_checked_here() -> None:
    assert {op.name for op in COMPOSITE} == {
        "clip", "mean", "var", "softmax", "log_softmax", "layer_norm", "rms_norm", "dropout", *CORRECTED, *PLAIN,
        *POSITIONS,
        *FUNCTIONS, "take", "einsum",
        *(name for name, _ in ARRANGEMENTS),
        "angle",
    }
