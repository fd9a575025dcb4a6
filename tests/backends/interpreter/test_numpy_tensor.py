"""NumPyTensor: every operator against NumPy itself, Python's operators, scalars, errors, and the overhead."""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import is_narrow, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, JitfuseError, ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics import linear_algebra, reference

RENAMED = {"bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}


def at(starts: Any, steps: Any, counts: Any) -> Any:
    """The same region by index arrays."""
    ranges = zip(starts, steps, counts, strict=True)
    return np.ix_(*[start + step * np.arange(count) for start, step, count in ranges])


def updated(x: Any, value: Any, **region: Any) -> Any:
    result = np.array(x)
    result[at(**region)] = value
    return result


def updated_at(x: Any, value: Any, place: Any) -> Any:
    result = np.array(x)
    result[np.unravel_index(place, x.shape[: x.ndim - np.ndim(value)])] = cast(value, result.dtype.name)
    return result


def cast(x: Any, dtype: str) -> Any:
    """Cast elements that are not adjacent: where they are, NumPy has another float to uint32, out of range."""
    return np.repeat(np.asarray(x)[..., None], 2, axis=-1)[..., 0].astype(numpy_dtype(dtype))[()]


def softmax(x: Any, axis: Any) -> Any:
    x = np.asarray(x)
    wide = np.dtype("float32") if x.dtype.itemsize < 8 and x.dtype.kind in "fV" else np.dtype("float64")
    return scipy.special.softmax(x.astype(wide), axis).astype(x.dtype if x.dtype.kind in "fV" else "float64")


def padded(x: Any, before: Any, after: Any, mode: str, values: Any, lengths: Any, odd: bool) -> Any:
    widths = list(zip(before, after, strict=True))
    options: dict[str, Any] = {"constant_values": np.reshape(values, (-1, 2))} if mode == "constant" else {}
    options = {"reflect_type": "odd" if odd else "even"} if mode in ("reflect", "symmetric") else options
    return np.pad(x, widths, mode="constant" if mode == "empty" else mode, **options) if widths else np.array(x)


def selection(x: Any, indices: Any, axes: Any) -> Any:
    """The index with its arrays at axes that lie next to one another, or at axis 0 and another."""
    found = dict(zip(axes, indices, strict=True))
    return tuple(found.get(a, slice(None)) for a in range(np.ndim(x)))


def gathered(x: Any, *indices: Any, axes: Any, place: int) -> Any:
    return x[selection(x, indices, axes)]


def scattered(x: Any, value: Any, *indices: Any, axes: Any, place: int, combine: str) -> Any:
    result = np.array(x)
    result[selection(x, indices, axes)] = value
    return result


def with_room(op: ops.Op) -> Callable[..., Any]:
    """Return NumPy's function of places or sets, its results with room for all elements, and how many there are."""
    plain = getattr(np, op.name.removesuffix("_padded"), None)

    def function(*operands: Any, **attrs: Any) -> Any:
        if op.name == "nonzero_counted":
            return np.stack(np.nonzero(operands[0]))
        if op.name == "repeat_counted":
            return np.repeat(np.arange(operands[0].size), operands[0])
        assert plain is not None
        found, axis = plain(*operands, **attrs), attrs.get("axis")
        values, *others = found if isinstance(found, tuple) else (found,)
        room = sum(x.size for x in operands) if axis is None else operands[0].shape[axis]
        ends = [(0, (room - values.shape[k]) * (k == (axis or 0))) for k in range(values.ndim)]
        made = [np.pad(values, ends)]
        fixed = 1 + attrs["return_index"] if attrs.get("return_inverse") else 0
        for k, other in enumerate(others, 1):
            made.append(other if k == fixed else np.pad(other, (0, room - other.size)))
        return (*made, np.int64(values.shape[axis or 0]))

    return function


def by_scipy(op: ops.Op) -> Callable[..., Any] | None:
    """Return the function of scipy.special of an operator's name."""
    renamed = {"digamma": "psi", "riemann_zeta": "zeta"}
    return getattr(scipy.special, renamed.get(op.name, op.name)) if op.kind == ops.LIBRARY and op.loop else None


def library_function(op: ops.Op) -> Callable[..., Any]:
    """Return NumPy's function of a sorting operator, whose attributes have other names here."""
    def function(*operands: Any, **attrs: Any) -> Any:
        positions = (attrs.pop("positions"),) if "positions" in attrs else ()
        if "sorting" in attrs:
            attrs["kind"] = attrs.pop("sorting")
        plain, arrays = getattr(np, op.name), [np.asarray(x) for x in operands]
        attrs.pop("weak", None)
        result = plain(*arrays, *positions, **attrs)
        if len(arrays) == 2:  # quantiles of data with NaN may be in the dtype of x
            result = result.astype(plain(*(np.ones(1, a.dtype) for a in arrays)).dtype)
        return result

    return function


def in_order(x: Any, axis: int, descending: bool) -> Any:
    """Return the indices that sort, equal elements in the order in which they are."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return np.shape(x)[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def floats(x: Any) -> Any:
    """The operand as what functions of floats make of it."""
    return np.asarray(x, None if np.asarray(x).dtype.kind == "f" else "float64")


def known(x: Any) -> Any:
    """The operand in a dtype that NumPy's own functions know."""
    return np.asarray(x, "float32") if np.asarray(x).dtype.name == "bfloat16" else x


def limit(x: Any, product: Any) -> Any:
    """The product of x and a weight that is 0 at minus infinity, with 0 there."""
    return np.where(x == -np.inf, -0.0, product).astype(x.dtype)[()]


def log_softmax(x: Any, axis: Any) -> Any:
    """The logarithm of softmax, NaN where the largest is infinite."""
    apart = x - np.max(x, axis=axis, keepdims=True)
    return apart - np.log(np.sum(np.exp(apart), axis=axis, keepdims=True))


def logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    """SciPy's; it adds an axis where there is none to add over, and fails for tuples of axes of empty arrays."""
    if np.ndim(x) == 0 or axis == ():
        return scipy.special.logsumexp(floats(x)[..., None], -1)[()]
    if np.size(x) == 0:
        return np.log(np.sum(floats(x), axis, keepdims=keepdims))
    return scipy.special.logsumexp(floats(x), axis, keepdims=keepdims)[()]


def normalised(x: Any, axis: Any, eps: float) -> Any:
    """x over the root of its mean square."""
    return x / np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)


def counted(x: Any, axis: Any, keepdims: bool) -> Any:
    """What is not zero; NumPy's own counts elements where there is no axis."""
    return np.sum(np.asarray(x) != 0, axis=axis, keepdims=keepdims)


def spread(function: Any) -> Any:
    """A variance or standard deviation, with NumPy's name for the correction."""
    return lambda x, axis, keepdims, correction: function(x, axis=axis, keepdims=keepdims, ddof=correction)


def windowed(x: Any, sizes: Any, steps: Any, dilations: Any) -> Any:
    """Windows over the last axes, one slice for each place in them."""
    lead = x.ndim - len(sizes)
    counts = [max((n - d * (k - 1) - 1) // s + 1, 0)
              for n, k, s, d in zip(x.shape[lead:], sizes, steps, dilations, strict=True)]
    made = np.zeros((*x.shape[:lead], *sizes, *counts), x.dtype)
    for place in np.ndindex(*sizes):
        cuts = [slice(p * d, max(p * d + (c - 1) * s + 1, 0), s) if c else slice(0)
                for p, d, c, s in zip(place, dilations, counts, steps, strict=True)]
        made[(*[slice(None)] * lead, *place)] = x[(*[slice(None)] * lead, *cuts)]
    return made


EXPECTED: dict[str, Callable[..., Any]] = {
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "sigmoid": scipy.special.expit,
    "log_sigmoid": lambda x: scipy.special.log_expit(x), "softplus": lambda x: -scipy.special.log_expit(-floats(x)),
    "silu": lambda x: limit(floats(x), x * scipy.special.expit(x)),
    "gelu": lambda x: limit(floats(x), x * scipy.special.ndtr(x)),
    "gelu_tanh": lambda x: limit(floats(x), x * scipy.special.expit(1.5957691216057308 * (x + 0.044715 * x**3))),
    "frexp_mantissa": lambda x: np.frexp(x)[0], "frexp_exponent": lambda x: np.frexp(x)[1],
    "modf_fraction": lambda x: np.modf(x)[0], "modf_whole": lambda x: np.modf(x)[1],
    "nan_to_num": lambda x, nan, posinf, neginf: np.nan_to_num(x, True, nan, posinf, neginf),
    "xlogy": scipy.special.xlogy, "logit": lambda x: scipy.special.logit(floats(x)), "sinc": reference.ufunc("sinc"),
    "relu": lambda x: np.maximum(x, np.asarray(x).dtype.type(0)),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, floats(x).astype(float) * slope).astype(
        floats(x * slope).dtype)[()],
    "elu": lambda x, alpha: np.where(x > 0, x, np.expm1(floats(x).astype(float)) * alpha).astype(
        floats(x * alpha).dtype)[()],
    "topk": lambda x, axis, count, largest: in_order(known(x), axis, largest).take(np.arange(count), axis),
    "python_number": lambda x: x.item(),
    "require": lambda x, ok, status: np.broadcast_arrays(x, ok)[0].copy()[()], "clip": np.clip, "copy": np.copy,
    "softmax": softmax,
    "log_softmax": lambda x, axis: log_softmax(floats(x), axis),
    "layer_norm": lambda x, axis, eps: normalised(floats(x) - np.mean(floats(x), axis=axis, keepdims=True), axis, eps),
    "rms_norm": lambda x, axis, eps: normalised(floats(x), axis, eps),
    "logsumexp": logsumexp,
    "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate, "count_nonzero": counted,
    "astype": cast,
    **{name: spread(getattr(np, name)) for name in ("var", "std", "nanvar", "nanstd")},
    "slice": lambda x, **region: np.asarray(x)[at(**region)], "update_slice": updated,
    "update_at": updated_at,
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "full": lambda shape, value, dtype, weak: np.full(shape, value, numpy_dtype(dtype)),
    "extent": lambda value, dtype, weak: numpy_dtype(dtype).type(value),
    "arange": lambda start, step, count, dtype: np.arange(start, start + step * count, step, numpy_dtype(dtype)),
    "constant": lambda shape, dtype, data: np.frombuffer(data, numpy_dtype(dtype)).reshape(shape),
    "roll": lambda x, shifts, axes: np.roll(x, shifts, axes), "stack": lambda *xs, axis: np.stack(xs, axis),
    "repeat": lambda x, times, axis: np.repeat(x, times, axis), "pad": padded,
    "windows": windowed, "diagonal": lambda x, offset: np.diagonal(x, offset, -2, -1),
    "einsum": lambda *xs, subscripts, path: np.einsum(subscripts, *map(known, xs)),
    "gather": gathered, "scatter": scattered, "take": lambda x, index, axis, mode: np.take(x, index, axis, mode=mode),
    "take_along_axis": lambda x, index, axis: np.take_along_axis(x, index, axis),
    **{op.name: op.numpy for op in ops.table() if op.name.startswith("generator_")},  # tests/end_to_end compare them
    "random_uniform": reference.random_uniform, "random_advance": reference.random_advance,
    "make_complex": reference.make_complex,
    "semiring_sums": lambda a, b, carrier, **table: np.ravel(a + b if carrier == "log" else a * b),
    **{op.name: op.numpy for op in ops.table() if hasattr(linear_algebra, op.name)},  # NumPy's, side by side
    **{op.name: getattr(np.fft, op.name) for op in ops.table() if "norm" in op.attrs},
    "dropout": reference.dropout, "mode_select": lambda a, b, training: a if training else b,
}
OWN_DTYPES = frozenset({  # which are not SciPy's
    "sigmoid", "log_sigmoid", "softplus", "silu", "gelu", "gelu_tanh", "relu", "leaky_relu", "elu", "xlogy", "logit",
})
ROUNDED = {
    **{op.name: 4e-16 for op in ops.table() if op.ulps}, "gelu": 1e-15, "gelu_tanh": 1e-13, "erfc": 1e-13,
    "softmax": 4e-16, "mean": 0.0, "var": 0.0, "std": 0.0, "log_softmax": 0.0, "layer_norm": 0.0, "rms_norm": 0.0,
    "logsumexp": 2e-15,
}


def wanted(op: ops.Op, operands: list[Any], attrs: dict[str, Any]) -> Any:
    """What NumPy gives; reductions and scans of floats of 16 bits are its own in float32, rounded once."""
    of_scipy = op.name in ("erf", "erfc") or (op.kind == ops.LIBRARY and op.loop is not None)
    if op.name in OWN_DTYPES or of_scipy:  # which of its loops comes first depends on SciPy's version
        assert op.loop is not None
        loop = op.loop(op.name, [Meta((), np.asarray(x).dtype.name) for x in operands])
        wide = ["float64" if is_narrow(d) else d for d in loop.inputs]
        result = expected(op)(*(np.asarray(x).astype(d)[()] for x, d in zip(operands, wide, strict=True)), **attrs)
        return result.astype(numpy_dtype(loop.result))
    if op.kind not in (ops.REDUCTION, ops.SCAN) or not is_narrow(np.asarray(operands[0]).dtype.name):
        return expected(op)(*operands, **attrs)
    result = np.asarray(expected(op)(operands[0].astype("float32"), **attrs))
    return result.astype(operands[0].dtype if result.dtype == np.float32 else result.dtype)[()]


def expected(op: ops.Op) -> Callable[..., Any]:
    twin = ops.get(op.name.removeprefix("complex_"))
    if twin is not None and twin is not op:
        return expected(twin)
    if op.name in FAMILIES["counted"]:
        return with_room(op)
    if op.kind == ops.LIBRARY and op.name not in EXPECTED:
        return by_scipy(op) or library_function(op)
    # what NumPy has not either is compared with mpmath, and kernels with this, by tests/test_accuracy.py
    return EXPECTED.get(op.name) or getattr(np, RENAMED.get(op.name, op.name), op.numpy)


def agrees(name: str, got: Any, want: Any, comparable: Any) -> None:
    scalar = (bool, int, float) if name == "python_number" else np.generic
    assert isinstance(got.value, scalar if np.shape(want) == () else np.ndarray)
    assert got.dtype == np.asarray(want).dtype.name
    ours, theirs = comparable(got.value), comparable(want)
    if ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc"):
        return  # what follows takes its time
    if name not in ROUNDED:
        np.testing.assert_array_equal(ours, theirs, strict=True)
        return
    tolerance = 2e-6 if got.dtype == "float32" else ROUNDED.get(name) or 1e-15
    tolerance = {"float16": 2e-3, "bfloat16": 16e-3}.get(got.dtype, tolerance)
    smallest = 6e-8 if got.dtype == "float16" else 0.0
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=smallest)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_an_operator_gives_numpys_values_dtype_and_kind(op: ops.Op, cases: Any, comparable: Any) -> None:
    count = 0
    for operands, attrs in cases(op, 300):
        for training in (False, True) if op.mode_sensitive else (None,):
            if training is not None:
                attrs = {**attrs, "training": training}
            want = wanted(op, operands, attrs)
            tensors = [NumPyTensor(x) for x in operands]
            first = tensors[0] if tensors else NumPyTensor(0)
            got = first.call(op.name, *tensors[1:], **attrs) if tensors else first.create(op.name, **attrs)
            pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
            for one, expected in pairs:
                try:
                    agrees(op.name, one, expected, comparable)
                except AssertionError as error:
                    error.add_note(f"{op.name} of {operands} with {attrs}")
                    raise
            count += 1
    assert count >= (1 if op.name == "random_advance" else 5)


@pytest.mark.parametrize("symbol", [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le,
    operator.gt, operator.ge, operator.eq, operator.ne,
], ids=lambda s: s.__name__)
def test_pythons_operators_work_from_both_sides(symbol: Any) -> None:
    x, y = np.array([1, 2, 5], "int32"), np.array([3, 1, 2], "int32")
    for left, right in [(x, y), (x, 2), (3, y), (x, np.int64(2)), (np.int64(3), y)]:
        want = symbol(left, right)
        for a, b in [(NumPyTensor(left), right), (left, NumPyTensor(right)), (NumPyTensor(left), NumPyTensor(right))]:
            np.testing.assert_array_equal(symbol(a, b).value, want, strict=True)


def test_unary_operators_and_matmul() -> None:
    x = np.array([[1.0, -2.0], [3.0, 4.0]])
    t = NumPyTensor(x)
    np.testing.assert_array_equal((-t).value, -x)
    np.testing.assert_array_equal((+t).value, x)
    np.testing.assert_array_equal(abs(t).value, abs(x))
    np.testing.assert_array_equal((~NumPyTensor(x > 0)).value, ~(x > 0))
    np.testing.assert_array_equal((t @ x).value, x @ x)
    np.testing.assert_array_equal((x @ t).value, x @ x)


def test_aliases_and_positional_parameters() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = NumPyTensor(x)
    np.testing.assert_array_equal(t.sum(1).value, x.sum(1))
    np.testing.assert_array_equal(t.sum(dim=1, keepdim=True).value, x.sum(1, keepdims=True))
    np.testing.assert_array_equal(t.var(ddof=1).value, x.var(ddof=1))
    assert t.reshape(3, -1).shape == t.reshape((3, -1)).shape == t.reshape(shape=(3, 2)).shape == (3, 2)
    assert t.transpose().shape == t.transpose(1, 0).shape == t.T.shape == (3, 2)


# ---------------------------------------------------------------- scalars
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_python_scalars_are_weak_and_numpy_scalars_are_strong(dtype: str) -> None:
    t = NumPyTensor(np.ones(2, dtype))
    assert (t * 2).dtype == dtype
    assert (t * 2.0).dtype == (dtype if "float" in dtype else "float64")
    assert (t * np.float64(2)).dtype == "float64"
    assert NumPyTensor(2.0).weak and not NumPyTensor(np.float64(2)).weak


def test_operators_of_scalars_stay_weak_and_functions_do_not() -> None:
    a, b = NumPyTensor(2), NumPyTensor(3.5)
    assert type((a * b).value) is float and (a * b).value == 7.0
    assert type((a < b).value) is bool
    assert type((a**a).value) is int
    assert type(a.minimum(b).value) is np.float64
    assert type(b.exp().value) is np.float64
    assert type(NumPyTensor(True).where(1, 2).value) is np.int64


def test_python_reads_values_as_at_numpys() -> None:
    assert bool(NumPyTensor(np.array([0.0])) + 1)
    assert int(NumPyTensor(np.int32(3))) == 3 and float(NumPyTensor(1.5)) == 1.5
    assert [10, 20][NumPyTensor(np.int64(1))] == 20
    with pytest.raises(ValueError, match="ambiguous"):
        bool(NumPyTensor(np.ones(2)))
    np.testing.assert_array_equal(np.asarray(NumPyTensor(np.arange(3))), np.arange(3))
    assert repr(NumPyTensor(np.array([1, 2]))) == "NumPyTensor(array([1, 2]))"


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda t: t + np.ones(3), ShapeError, r"shapes \(2,\), \(3,\) do not broadcast"),
    (lambda t: t & 1, DTypeError, "Bitwise operators want bool or integer"),
    (lambda t: (t > 0) - (t > 0), DTypeError, "subtract does not take bool"),
    (lambda t: t.sum(axis=3), ShapeError, "sum: axis 3 is out of bounds"),
    (lambda t: t.reshape(3), ShapeError, r"cannot reshape \(2,\)"),
    (lambda t: t.sum(axes=0), ArgumentError, "sum has no attribute 'axes'"),
    (lambda t: t.sum(axis=0, dim=0), ArgumentError, "sum got both 'dim' and its alias 'axis'"),
    (lambda t: t.astype("longdouble"), DTypeError, "dtype longdouble is not supported"),
    (lambda t: t.call("nonsense"), ArgumentError, "there is no operator 'nonsense'"),
    (lambda t: t.call("add", [1, 2]), ArgumentError, "list is no array"),
    (lambda t: NumPyTensor(np.ones(2, "longdouble")), DTypeError, "dtype float128 is not supported; use one of bool"),
    (lambda t: NumPyTensor(np.ones(2, ">f4")), DTypeError, "is not supported"),
    (lambda t: NumPyTensor("x"), ArgumentError, "str is no array"),
    (lambda t: t.call("dropout", np.zeros(2, "int64"), 0, p=2.0, training=True), ArgumentError, r"must be in \[0, 1\)"),
])
def test_mistakes_raise_typed_errors(call: Any, error: type[JitfuseError], message: str) -> None:
    with pytest.raises(error, match=message):
        call(NumPyTensor(np.array([1.0, 2.0])))


def test_a_failure_that_is_no_mistake_of_shape_or_dtype_is_numpys_own() -> None:
    with pytest.raises(ValueError, match="Integers to negative integer powers"):
        NumPyTensor(np.array([2])) ** -1


def test_philox_gives_the_published_words_and_the_same_as_plain_python() -> None:
    def philox(counter: list[int], key: list[int]) -> list[int]:
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return counter

    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1,
    ]
    for seed, counter, index in [(0, 0, 0), (2**63 - 1, 5, 3), (-7, 2**32 - 1, 2**31)]:
        key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        words = [philox([k, 0, counter, index], key) for k in range(50)]
        assert reference.philox(seed, counter, index, 50).tolist() == words


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    x = NumPyTensor(np.ones(100_000, "float32"))
    y = x.dropout(np.array([1, 2]), 0, p=0.25, training=True).value
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(float(np.mean(y == 0)) - 0.25) < 0.01
    assert x.dropout(np.array([1, 2]), 0, p=0.25).value is x.value


def frames_of(call: Callable[[], Any]) -> int:
    """Return how many Python functions a call enters, itself included, once what it caches is there."""
    call()
    frames = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal frames
        frames += event == "call"

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return frames


def test_eager_operators_enter_few_python_functions() -> None:
    t = NumPyTensor(np.ones(16, "float32"))
    assert frames_of(lambda: t + t) <= 8
    assert frames_of(lambda: t.exp()) <= 9
    assert frames_of(lambda: t.reshape(4, 4)) <= 12
