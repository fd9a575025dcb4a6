"""NumPy functions, ufuncs and methods on traced arrays, against NumPy; refusals name the way out."""
from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
import scipy.special

from jitfuse.errors import JitfuseError, UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.numpy_like.all_functions import FUNCTIONS
from jitfuse.tracing.tracer import trace

X = np.array([[0.5, -1.5, 2.25], [3.0, 0.25, -0.75]])
Y = np.array([[1.0, 2.0, -3.0], [0.5, 4.0, 0.75]])


def fitting(op):
    """Return operands of dtypes that the operator takes."""
    values = np.array([0.5, 1.5, 2.5]), np.array([3, 5, 2])
    for operands in itertools.product(values, repeat=op.arity):
        with contextlib.suppress(JitfuseError):
            op.result_meta([Meta((3,), x.dtype.name) for x in operands], {})
            return [x[::-1].copy() if k else x for k, x in enumerate(operands)]
    raise AssertionError(op.name)


def test_every_ufunc_of_the_op_table_is_recorded_by_name(check, op_names):
    seen = set()
    for op in ops.table():
        if isinstance(op.numpy, np.ufunc) and op.name != "matmul":
            t = check(lambda *a, u=op.numpy: u(*a), *fitting(op))
            assert op.name in op_names(t)
            seen.add(op.name)
    assert len(seen) > 35


@pytest.mark.parametrize("fn", [
    lambda x, y: np.divmod(x, y), lambda x, y: np.modf(x), lambda x, y: np.frexp(y), lambda x, y: divmod(x, 2.0),
    lambda x, y: np.round(x, 1), lambda x, y: np.around(y), lambda x, y: x.round(), lambda x, y: np.fix(x),
    lambda x, y: np.isclose(x, y), lambda x, y: np.where(np.allclose(x, y, rtol=9.0), x, y),
    lambda x, y: np.where(np.array_equal(x, x), x, y),
    lambda x, y: np.array_equal(x, y[:1]), lambda x, y: np.isposinf(x / 0), lambda x, y: np.isneginf(x / 0),
    lambda x, y: np.nan_to_num(x / 0, posinf=3.0), lambda x, y: np.nan_to_num(x * np.nan, nan=2),
    lambda x, y: np.fabs(x.astype(int)), lambda x, y: np.float_power(y, 2), lambda x, y: np.ldexp(x, 3),
    lambda x, y: np.gcd(x.astype(int), 6), lambda x, y: np.lcm(x.astype(int), y.astype(int)),
    lambda x, y: np.round((x * 100).astype(int), -1),
])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_elements(check, fn):
    check(fn, X, Y)


def test_results_of_functions_of_several_go_into_out(check):
    def fn(x, y):
        np.modf(y, out=(x, y))

    check(fn, X, Y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scipys_erf(check, op_names, dtype):
    t = trace(lambda x: scipy.special.erf(x), (X.astype(dtype),), {})
    assert op_names(t) == ["erf"] and t.program.meta[t.program.steps[0].result_id].dtype == dtype


@pytest.mark.parametrize("fn", [
    lambda x: np.sum(x), lambda x: np.sum(x, 0), lambda x: np.sum(x, axis=(0, 1), keepdims=True), lambda x: x.sum(1),
    lambda x: np.sum(x, dtype=np.float32), lambda x: x.sum(axis=-1, dtype="float32"), lambda x: np.mean(x, axis=0),
    lambda x: np.mean(x.astype(np.float32), dtype=float), lambda x: x.mean(keepdims=True),
    lambda x: np.var(x, 1, ddof=1),
    lambda x: x.var(), lambda x: np.var(x, correction=1), lambda x: np.std(x, axis=1), lambda x: x.std(ddof=1),
    lambda x: np.min(x), lambda x: x.max(1), lambda x: np.amax(x, axis=0), lambda x: np.amin(x, 0, keepdims=True),
    lambda x: np.any(x > 2), lambda x: (x > -2).all(axis=0), lambda x: np.all(x), lambda x: np.ptp(x, axis=1),
    lambda x: np.add.reduce(x), lambda x: np.add.reduce(x, axis=None), lambda x: np.maximum.reduce(x, axis=1),
    lambda x: np.minimum.reduce(x), lambda x: np.logical_or.reduce(x > 2, axis=1), lambda x: np.count_nonzero(x > 0),
    lambda x: np.multiply.outer(x[0], x[1]), lambda x: np.subtract.outer(x, x[0]),
])
def test_reductions(check, fn):
    check(fn, X)


@pytest.mark.parametrize("fn", [
    lambda x, y: np.where(x > 0, x, y), lambda x, y: np.where(x > 0, 1, 0), lambda x, y: np.where(x > 0, x, 0.0),
    lambda x, y: np.clip(x, -1, 1), lambda x, y: np.clip(x, None, 1), lambda x, y: np.clip(x, y - 1, y),
    lambda x, y: x.clip(0), lambda x, y: x.clip(max=1), lambda x, y: np.clip(x, min=0, max=1),
    lambda x, y: np.reshape(x, (3, 2)), lambda x, y: x.reshape(3, -1), lambda x, y: x.reshape((6,)),
    lambda x, y: np.transpose(x) * 2, lambda x, y: x.transpose(1, 0) * 2, lambda x, y: np.transpose(x, (1, 0)) + 1,
    lambda x, y: np.swapaxes(x, 0, 1) + 1, lambda x, y: np.moveaxis(x[None], 0, -1) + 1, lambda x, y: x.mT + 1,
    lambda x, y: np.broadcast_to(x, (2, 2, 3)) + 1, lambda x, y: np.expand_dims(x, (0, 2)) + 1,
    lambda x, y: np.squeeze(x[:1]) + 1, lambda x, y: np.concatenate([x, y]),
    lambda x, y: np.concatenate([x, y], axis=1),
    lambda x, y: np.concatenate((x, y), axis=None), lambda x, y: np.stack([x, y]),
    lambda x, y: np.stack((x, y), axis=-1),
    lambda x, y: np.vstack([x, y[0]]), lambda x, y: np.hstack([x, y]), lambda x, y: np.hstack([x[0], y[0]]),
    lambda x, y: np.column_stack([x[:, 0], y[:, 1]]), lambda x, y: np.split(x, 3, axis=1)[1] + 1,
    lambda x, y: np.split(x, [1, 2], axis=1)[2] + 1, lambda x, y: np.flip(x) + 1, lambda x, y: np.flip(x, 0) + 1,
    lambda x, y: np.zeros_like(x), lambda x, y: np.ones_like(x, dtype=np.int32), lambda x, y: np.full_like(x, 3),
    lambda x, y: np.full_like(x, y[0, 0]), lambda x, y: np.empty_like(x).shape, lambda x, y: np.copy(x) + y,
    lambda x, y: np.ravel(x) + 1, lambda x, y: np.dot(x, y.T), lambda x, y: x.dot(y[0]), lambda x, y: np.dot(x, 2.0),
    lambda x, y: np.matmul(x, y.T), lambda x, y: x @ y[0], lambda x, y: np.inner(x, y),
    lambda x, y: np.outer(x[0], y[1]),
    lambda x, y: np.square(x), lambda x, y: np.absolute(x), lambda x, y: np.mod(x, 2), lambda x, y: divmod(x, 2),
    lambda x, y: np.nan_to_num(x / 0.0, nan=1.0), lambda x, y: np.atleast_2d(x[0]) + 1,
    lambda x, y: np.add(x, y, dtype=np.float32), lambda x, y: np.result_type(x, np.float32), lambda x, y: np.fabs(x),
    lambda x, y: np.broadcast_arrays(x, y[:1])[1] + 0, lambda x, y: [5.0, 1.0, 2.0] * x, lambda x, y: x + [1, 2, 3],
    lambda x, y: np.array([1.0, 2.0, 3.0]) * x, lambda x, y: np.float32(2) * x, lambda x, y: np.multiply(2, x),
    lambda x, y: x.astype(np.float32, copy=False), lambda x, y: x.astype(float, copy=False) is x,
    lambda x, y: x.nbytes,
    lambda x, y: abs(-x), lambda x, y: +x, lambda x, y: x // 0.5, lambda x, y: x % y, lambda x, y: (x > y) | (x < 0),
    lambda x, y: ~(x > y), lambda x, y: x.real + x.conj(), lambda x, y: np.conjugate(x) if False else x + 0,
])
def test_functions_and_methods(check, fn):
    check(fn, X, Y)


def test_copyto_and_fill(check):
    def fn(x, y):
        np.copyto(x, y, where=y > 0)
        np.copyto(y[0], 2)
        y[1].fill(3)

    check(fn, X, Y)


@pytest.mark.parametrize(("fn", "way_out"), [
    (lambda x: np.roots(x), r"np\.roots .*takes a graph break"),
    (lambda x: np.vectorize(abs)(x), r"np\.where in place of if"),
    (lambda x: np.isnat(x), r"np\.isnat .*takes a graph break"),
    (lambda x: np.hypot.accumulate(x), r"hypot\.accumulate"),
    (lambda x: np.add.reduceat(x, x.astype(int)), r"np\.add\.at"),
    (lambda x: np.nonzero(x), r"np\.where"), (lambda x: np.where(x > 0), r"np\.where"),
    (lambda x: np.unique(x), "depends on data"),
    (lambda x: np.exp(x, out=np.empty((2, 3)).real.copy), "out="),
    (lambda x: np.reshape(x, (3, 2), order="K"), "Transpose first"), (lambda x: x.byteswap(), "byteswap"),
])
def test_what_is_missing_says_so(fn, way_out):
    with pytest.raises(UnsupportedError, match=way_out) as caught:
        trace(fn, (X.copy(),), {})
    assert "test_protocol.py:" in str(caught.value)


@pytest.mark.parametrize("fn", [
    lambda x: x + np.ones((4, 5)), lambda x: x.reshape(4), lambda x: np.sum(x, axis=3), lambda x: x @ np.ones(4),
    lambda x: np.concatenate([x, np.ones((3, 2))]), lambda x: np.stack([x, x[0]]), lambda x: x.squeeze(0),
    lambda x: np.split(x, 2, axis=1), lambda x: (x > 0) - (x > 1), lambda x: x & 1, lambda x: x[:0].max(),
    lambda x: x.transpose(0, 0), lambda x: np.broadcast_to(x, (3, 3)), lambda x: np.split(x, -1),
])
def test_misfits_raise_numpys_kind_of_error(fn):
    try:
        fn(X)
    except Exception as error:
        kinds = (TypeError,) if isinstance(error, TypeError) else (ValueError, TypeError)
    with pytest.raises(kinds) as caught:
        trace(fn, (X,), {})
    assert isinstance(caught.value, JitfuseError)


def test_the_table_of_functions_is_numpys():
    for function in FUNCTIONS:
        assert callable(function)
        assert any(hasattr(module, function.__name__) for module in (np, np.linalg, np.fft, np.lib.stride_tricks))
