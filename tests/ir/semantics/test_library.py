"""Library steps: host calls between kernels, with NumPy's and SciPy's values, dtypes and exceptions."""
from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.special as special
from amount import crossed
from oracle import check

import jitfuse as jf
from jitfuse.compile import interface as compiler
from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.semantics import library, linear_algebra

RNG = np.random.default_rng(5)
DTYPES = [d for d, k in SUPPORTED.items() if k != "complex" and d != "bfloat16"]
UNARY = ("gammaln", "gamma", "rgamma", "psi", "i0", "i0e", "i1", "i1e", "ndtr", "log_ndtr", "erfinv", "erfcinv",
         "ndtri", "zeta")
BINARY = ("beta", "betaln", "gammainc", "gammaincc", "gammaincinv", "zeta")


@pytest.mark.parametrize("name", UNARY)
def test_special_functions_of_one_operand(name: str) -> None:
    function = getattr(special, name)
    for dtype in DTYPES:
        x = RNG.uniform(0, 3, (3, 4)).astype(dtype)
        check(lambda x: (function(x), function(x[1:, ::-1]), function(x[:0])), (x,))
    check(lambda x: function(x), (np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.5, -2.0, 5e-324]),))


@pytest.mark.full
@pytest.mark.parametrize("name", BINARY)
def test_special_functions_of_two_operands(name: str) -> None:
    function = getattr(special, name)
    for a in DTYPES:
        for b in DTYPES:
            x, y = RNG.uniform(1, 3, (3, 1)).astype(a), RNG.uniform(1, 3, 4).astype(b)
            check(lambda x, y: function(x, y), (x, y))
        check(lambda x: (function(x, 2), function(1.5, x)), (x,))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_real_results_are_arrays_of_their_own(dtype: str) -> None:
    def changed(a: Any) -> Any:
        values, _ = np.linalg.eigh(a + np.conj(np.matrix_transpose(a)))
        values *= 2
        singular = np.linalg.svd(a)[1]
        singular[0] = 1
        logarithm = same_logarithm = np.linalg.slogdet(a)[1]
        same_logarithm += 1
        return values, singular, logarithm, same_logarithm

    a = (RNG.normal(size=(3, 3)) + (1j if dtype[0] == "c" else 0) * RNG.normal(size=(3, 3))).astype(dtype)
    for want, got in zip(changed(a), jf.fuse(changed)(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 5), (5, 1)])
def test_results_that_a_library_reads_as_views_of_results(shape: tuple[int, ...]) -> None:
    def sources(x: Any) -> tuple[Any, ...]:
        cube = x[:, :, None] * x[:, None, :1]
        return x * 2, np.einsum("abc,abc->ba", cube, cube), np.einsum("ab,ba->ab", x, x.T), np.sort(x, axis=0)

    for k in range(4):
        for views in (
            lambda v: (v.reshape(-1), v), lambda v: (v, v.reshape(-1)), lambda v: (v[None], v.reshape(-1, 1)),
            lambda v: (v.reshape(-1),), lambda v: (v.T, v), lambda v: (v[..., None], v.T, v.reshape(-1)),
        ):
            def both(x: Any, k: int = k, views: Any = views) -> Any:
                made = views(sources(x)[k])
                return (*made, *(np.median(m, axis=-1) for m in made))

            compiler.native_runtime()  # results through tables, not from Python
            check(both, (RNG.normal(size=shape),))


def test_a_library_step_lies_between_fused_kernels() -> None:
    fused = jf.fuse(lambda x: np.exp(special.gammaln(x * x + 1)) - x)
    x = RNG.uniform(0, 3, 50)
    np.testing.assert_allclose(fused(x), np.exp(special.gammaln(x * x + 1)) - x)
    assert fused.stats()["launches"] == 2
    assert "library call gammaln" in fused.explain(x)


@pytest.mark.parametrize(("dtype", "shape"), crossed(2, DTYPES, [(7,), (3, 5), (1, 4, 2), (0, 3), (2, 0)]))
def test_sorting(dtype: str, shape: tuple[int, ...]) -> None:
    x = RNG.integers(0, 5, shape).astype(dtype)
    for k in (None, 0, -1):
        check(lambda x, k=k: (np.sort(x + x, axis=k), np.argsort(x, axis=k), np.argsort(x, axis=k, stable=True)), (x,))
    check(lambda x: (np.sort(x.T, axis=0), np.argsort(x[::-1], kind="heapsort"), np.sort(x, kind="mergesort")), (x,))


def test_partitions_and_insertion() -> None:
    x, v = RNG.normal(size=(4, 9)), RNG.normal(size=(2, 3))
    check(lambda x: (np.partition(x, 3), np.argpartition(x, (2, -1), axis=1), np.partition(x, 0, axis=None)), (x,))
    check(lambda x, v: (np.searchsorted(x, v), x.searchsorted(v, "right"), np.digitize(v, x)), (np.sort(x[0]), v))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(300,), (4, 90), (2, 3, 133), (0, 40), (4, 0), (1, 1)])
def test_the_first_of_a_sort(dtype: str, shape: tuple[int, ...]) -> None:
    x = (RNG.normal(size=shape) * 4).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[::13], x.flat[5::17], x.flat[6::17], x.flat[::29] = np.nan, np.inf, -np.inf, -0.0
    for axis, largest in itertools.product(range(x.ndim), (True, False)):
        n = x.shape[axis]
        order = np.argsort(np.flip(x, axis) if largest else x, axis, kind="stable")
        order = n - 1 - np.flip(order, axis) if largest else order
        for given, count in itertools.product((x, np.asfortranarray(x)), {0, min(n, 1), min(n, 5), min(n, 12), n}):
            found = library.topk(given, axis=axis, count=count, largest=largest)
            np.testing.assert_array_equal(found, order.take(np.arange(count), axis))


def test_methods_sort_in_place() -> None:
    def order(x: Any) -> Any:
        x.sort(axis=0)
        y = x[0] * 2
        y.partition(1)
        return y, x.argsort(), x.argpartition(2)

    x = RNG.normal(size=(4, 5))
    want_x = x.copy()
    want = order(want_x)
    for a, b in zip(want, jf.fuse(order)(x), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, want_x)


@pytest.mark.parametrize(("dtype", "name"), crossed(
    2, [d for d in DTYPES if d != "bool"],
    ["median", "nanmedian", "quantile", "percentile", "nanquantile", "nanpercentile"]))
def test_order_statistics(dtype: str, name: str) -> None:
    function = getattr(np, name)
    x = RNG.normal(0, 9, (3, 4, 5)).astype(dtype)
    extra: tuple[Any, ...] = () if "median" in name else (0.3,)
    for k in (None, 0, -1, (0, 2)):
        check(lambda x, k=k: (function(x, *extra, axis=k), function(x, *extra, axis=k, keepdims=True)), (x,))
    if extra:
        check(lambda x, q: (function(x, q, axis=1), function(x, q[0], method="hazen")), (x, np.array([0.1, 0.5, 1.0])))
        check(lambda x: function(x, [0, 1], axis=0, method="nearest"), (x,))


def test_nan_and_bool_medians() -> None:
    x = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 5.0, 6.0, 7.0]])
    check(lambda x: (np.median(x, axis=1), np.nanmedian(x, axis=1), np.nanquantile(x, 0.5, axis=1)), (x,))
    check(lambda x: np.median(x > 2, axis=1), (x,))
    with pytest.raises(jf.DTypeError, match="quantile does not take bool"):
        jf.fuse(lambda x: np.quantile(x > 2, 0.5))(x)


def test_what_the_host_raises_comes_out_with_its_line_and_nothing_is_written() -> None:
    def wrong(x: Any, q: Any, y: Any) -> Any:
        y += 1
        return np.quantile(x, q) + y

    fused, x, y = jf.fuse(wrong), np.arange(4.0), np.zeros(3)
    fused(x, 0.5, y)
    for _ in range(3):
        with pytest.raises(ValueError, match="Quantiles must be in the range") as raised:
            fused(x, 3.0, y)
        (note,) = raised.value.__notes__
        assert note.startswith("in quantile, written at ") and "test_library.py" in note
        assert y.tolist() == [1, 1, 1]
    fused(x, 0.25, y)
    assert y.tolist() == [2, 2, 2]


def test_bad_attributes_raise_while_tracing() -> None:
    x = np.ones((2, 3))
    for function, error in (
        (lambda x: np.sort(x, axis=2), jf.ShapeError), (lambda x: np.sort(x, kind="bogo"), jf.ArgumentError),
        (lambda x: np.quantile(x, 0.5, method="guess"), jf.ArgumentError),
        (lambda x: np.partition(x, 7), jf.ShapeError), (lambda x: np.searchsorted(x, 1), jf.ShapeError),
    ):
        with pytest.raises(error):
            jf.fuse(function, strict=True)(x)


def test_without_scipy_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    library.require_scipy.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match="pip install scipy"):
            jf.fuse(lambda x: jf.gammaln(x))(np.ones(3))
    finally:
        library.require_scipy.cache_clear()


OPERATORS = [op for op in ops.table() if op.kind == ops.LIBRARY and op.arity != ops.VARIADIC]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_the_interpreter_carries_it_out_over_torch_too(op: ops.Op) -> None:
    torch = pytest.importorskip("torch")
    values = {"positions": (1,), "axis": 0, "axes": (0,), "n": 3, "count": 2, "s": (3,), "size": 3}
    attrs = {name: values[name] for name, default in op.attrs.items() if default is ops.REQUIRED}
    part = 0.5j if op.name.startswith("complex_") else 0.0
    arrays = [np.array([0.25, 0.5, 0.75]) + part for _ in range(op.arity)]
    if hasattr(linear_algebra, op.name):
        second = np.array(1e-6) if op.name == "pinv" else np.ones((2, 1))
        arrays = [np.array([[2.0, 0.5], [0.5, 1.0]]), second][: op.arity]
    if op.name == "repeat_counted":
        arrays = [np.array([1, 0, 2])]
    if op.name.startswith("generator_"):
        arrays = [np.array(3) if op.name == "generator_seed" else np.arange(9.0)]
    program = jf.fuse(lambda *xs: xs[0].call(op.name, *xs[1:], **attrs)).program(*arrays)
    feeds = program.ordered_feeds
    wanted = jf.ProgramRunner(program)(dict(zip(feeds, arrays, strict=True))).outputs
    tensors = [torch.from_numpy(a) for a in arrays]
    outputs = jf.ProgramRunner(program)(dict(zip(feeds, tensors, strict=True))).outputs
    for path, want in wanted.items():
        np.testing.assert_array_equal(np.asarray(outputs[path]), np.asarray(want))


def test_quantiles_at_whole_numbers_keep_integers() -> None:
    for q in (0, 1, 1.0, [0, 1], True):
        for dtype in ("int8", "int64", "float32"):
            x = np.array([3, 1, 2], dtype)
            want, got = np.quantile(x, q), jf.fuse(lambda x, q=q: np.quantile(x, q))(x)
            assert want.dtype == got.dtype and np.array_equal(want, got)
