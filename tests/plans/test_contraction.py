"""Matrix products by own kernels: every size, layout and batch, with what comes before and after in the same kernel."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from programs import quiet

import jitfuse as jf
from jitfuse.plans.plan import CandidatePlan

SIZES = (1, 3, 8, 14, 17, 33, 70)
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.fixture(autouse=True)
def _own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose own kernels at every size."""
    monkeypatch.setattr(CandidatePlan, "cost_ns", lambda self, choice: not self.policy.own)


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-90, 90, shape).astype(dtype)


def assert_product(actual: Any, a: Any, b: Any) -> None:
    """Compare with float64: k rounding errors of the sum of magnitudes; integers exactly."""
    expected = np.matmul(a, b)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    exact, scale = np.matmul(*(x.astype("f8") for x in (a, b))), np.matmul(*(np.abs(x).astype("f8") for x in (a, b)))
    bound = (a.shape[-1] + 1) * np.finfo(expected.dtype).eps * scale
    np.testing.assert_array_less(np.abs(actual - exact) - bound, np.finfo(expected.dtype).tiny)


def launched(function: Callable[..., Any], *args: Any) -> tuple[Any, int]:
    """Return a fused function's result and its launches."""
    fused = jf.fuse(function)
    result = fused(*args)
    assert fused.stats()["fallbacks"] == 0
    return result, fused.stats()["launches"]


@pytest.mark.parametrize("dtype", [*FLOATS, "float16", *INTEGERS])
def test_products_of_all_sizes(dtype: str) -> None:
    fused = jf.fuse(lambda a, b: a @ b, budget=jf.Budget(seconds=1000))  # each size is a signature
    rng = np.random.default_rng(0)
    sizes = SIZES if dtype == "float32" else SIZES[::3]
    for m, k, n in itertools.product(sizes, sizes, sizes):
        a, b = filled(rng, (m, k), dtype), filled(rng, (k, n), dtype)
        assert_product(fused(a, b), a, b)
    large = (300, 520, 700) if dtype in FLOATS else (70, 300, 90)
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), large):
        a, b = filled(rng, (m, k), dtype), filled(rng, (k, n), dtype)
        assert_product(fused(a, b), a, b)
    assert fused.stats()["fallbacks"] == 0


@pytest.mark.full
@pytest.mark.parametrize("dtype", [*FLOATS, "int64"])
def test_layouts(dtype: str) -> None:
    rng = np.random.default_rng(1)
    views: tuple[Callable[[Any], Any], ...] = (
        lambda x: x, lambda x: x.copy("F"), lambda x: x[::-1], lambda x: np.repeat(x, 2, 1)[:, ::2],
        lambda x: x[:, ::-1], lambda x: np.broadcast_to(x[:1], x.shape), lambda x: np.broadcast_to(x[:, :1], x.shape),
    )
    for left, right in itertools.product(views, views):
        a, b = left(filled(rng, (19, 37), dtype)), right(filled(rng, (37, 45), dtype))
        assert_product(jf.fuse(lambda a, b: a @ b)(a, b), a, b)
        assert_product(jf.fuse(lambda a, b: b.T @ a.T)(a, b), b.T, a.T)


@pytest.mark.parametrize("shapes", [
    ((4, 9, 5), (4, 5, 7)), ((4, 9, 5), (5, 7)), ((9, 5), (4, 5, 7)), ((3, 1, 9, 5), (4, 5, 7)),
    ((1, 9, 5), (6, 5, 1)), ((2, 3, 4, 40, 33), (3, 1, 33, 50)), ((0, 9, 5), (5, 7)), ((50, 8, 8), (50, 8, 8)),
])
def test_batches(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(2)
    for dtype in ("float32", "int32"):
        a, b = (filled(rng, s, dtype) for s in shapes)
        assert_product(jf.fuse(lambda a, b: a @ b)(a, b), a, b)
        swapped = jf.fuse(lambda a, b: np.swapaxes(b, -1, -2) @ np.swapaxes(a, -1, -2))(a, b)
        assert_product(swapped, np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2))


def test_nan_and_infinities_spread_as_in_numpy() -> None:
    a, b = np.ones((20, 300), "f4"), np.ones((300, 40), "f4")
    a[3, 4], b[5, 6], b[270, 8], a[7, 9], b[9, :] = np.nan, np.inf, -np.inf, np.inf, 0.0
    with quiet():
        np.testing.assert_array_equal(jf.fuse(lambda a, b: a @ b)(a, b), a @ b)


def test_the_same_bits_for_any_number_of_threads(runtime: Any) -> None:
    rng = np.random.default_rng(3)
    a, b, c = filled(rng, (300, 600), "float32"), filled(rng, (600, 700), "float32"), filled(rng, (700,), "float32")
    results = []
    for threads in (1, 2, 5):
        runtime.set_threads(threads)
        results.append(jf.fuse(lambda a, b, c: np.tanh(a @ b + c))(a, b, c))
    whole = results[0]
    for other in results[1:]:
        np.testing.assert_array_equal(other, whole)
    part = jf.fuse(lambda a, b, c: np.tanh(a @ b + c))(a[37:38], b[:, 100:117], c[100:117])
    np.testing.assert_array_equal(part, whole[37:38, 100:117])


def rows_divided(a: Any, b: Any, s: Any) -> Any:
    return (a @ b) / s[:, None] * 2


def several(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    return c, np.maximum(c, 0), c + a[:, :1]


def clamped(a: Any, b: Any, s: Any) -> Any:
    return np.clip((a @ b) * 0.5, -1, 1) ** 2


def masked(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    return np.where(c > s[:, None], c, -np.inf)


def prologues(a: Any, b: Any, s: Any) -> Any:
    return (np.tanh(a) * s[:, None]) @ np.concatenate([b[::2], b[1::2] - 1], axis=0)


def gram(a: Any, b: Any, s: Any) -> Any:
    return (a * 2).T @ (a * 2)


def softmax(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    e = np.exp(c - c.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def power_step(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    return c / np.sqrt((c * c).sum(axis=0))


def row_statistics(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    mean = c.mean(axis=-1, keepdims=True)
    return (c - mean) / np.sqrt(((c - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5), c.max(axis=-1)


def columns_and_product(a: Any, b: Any, s: Any) -> Any:
    c = a @ b
    return c, c.sum(axis=0), c.max(axis=0)


ONE_KERNEL = (
    rows_divided, several, clamped, masked, prologues, gram, softmax, power_step, row_statistics, columns_and_product,
)


@pytest.mark.parametrize("function", ONE_KERNEL)
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_surrounds_a_product_is_one_kernel(function: Callable[..., Any], dtype: str) -> None:
    rng = np.random.default_rng(4)
    for m, k, n in ((5, 6, 7), (40, 20, 130), (300, 64, 257)):
        a, b, s = filled(rng, (m, k), dtype), filled(rng, (k, n), dtype), filled(rng, (m,), dtype)
        if function is prologues:
            b = b[: k // 2 * 2]
            a = a[:, : k // 2 * 2]
        result, launches = launched(function, a, b, s)
        with quiet():
            expected = function(a, b, s)
        many = isinstance(expected, tuple)
        for r, e in zip(result if many else [result], expected if many else [expected], strict=True):
            scale = np.abs(e[np.isfinite(e)]).max(initial=1)
            tolerance = 100 * k * np.finfo(dtype).eps
            np.testing.assert_allclose(r, e, rtol=tolerance, atol=tolerance * scale)
            assert r.dtype == e.dtype
        assert launches == 1, (function, m, k, n)


def test_centred_gram_in_two_kernels() -> None:
    def covariance(x: Any) -> Any:
        centred = x - x.mean(axis=0)
        return centred.T @ centred / (x.shape[0] - 1)

    x = np.random.default_rng(5).standard_normal((200, 33))
    result, launches = launched(covariance, x)
    np.testing.assert_allclose(result, np.cov(x.T), rtol=1e-12, atol=1e-14)
    assert launches == 2


def test_layers_keep_what_lies_between_once() -> None:
    def layers(x: Any, w: Any, b: Any, v: Any) -> Any:
        return np.maximum(x @ w + b, 0) @ v

    rng = np.random.default_rng(6)
    args = [filled(rng, s, "float32") for s in ((64, 100), (100, 70), (70,), (70, 10))]
    result, launches = launched(layers, *args)
    np.testing.assert_allclose(result, layers(*args), rtol=1e-4, atol=1e-3)
    assert launches == 1


@pytest.mark.parametrize("shapes", [
    ((4, 5), (5, 0)), ((0, 5), (5, 4)), ((0, 5), (5, 0)), ((4, 0), (0, 3)), ((2, 4, 0), (0, 3)),
])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sums_of_empty_products(shapes: tuple[tuple[int, ...], tuple[int, ...]], axis: int) -> None:
    a, b = (np.ones(s, "f4") for s in shapes)
    result, expected = jf.fuse(lambda a, b: (a @ b).sum(axis=axis) + 1)(a, b), (a @ b).sum(axis=axis) + 1
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("n", [3, 17, 70])
def test_dear_values_of_a_side_are_computed_again_beside_the_product(n: int) -> None:
    def beside(x: Any, y: Any) -> Any:
        dear = np.expm1(x) * y
        return (dear @ dear) * dear, (dear @ np.swapaxes(dear, -1, -2)) - np.expm1(x)

    rng = np.random.default_rng(13)
    for shape in ((2, n, 1), (n, 1), (n, n)):
        x, y = filled(rng, (n,), "float64"), filled(rng, shape, "float64")
        for got, want in zip(jf.fuse(beside)(x, y), beside(x, y), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11 * np.abs(want).max())


# ---------------------------------------------------------------------- chains
def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * 0.125
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def masked_attention(q: Any, k: Any, v: Any) -> Any:
    causal = np.arange(k.shape[-2]) <= np.arange(q.shape[-2])[:, None]
    scores = np.where(causal, q @ np.swapaxes(k, -1, -2), -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e @ v) / e.sum(axis=-1, keepdims=True)


def layers(q: Any, k: Any, v: Any) -> Any:
    return np.maximum(q @ np.swapaxes(k, -1, -2) + 1, 0) @ v - v.mean()


@pytest.mark.parametrize("function", [attention, masked_attention, layers])
@pytest.mark.parametrize("dtype", FLOATS)
def test_no_product_between_is_stored(function: Callable[..., Any], dtype: str) -> None:
    rng = np.random.default_rng(7)
    for queries, keys, width, batch in (
        ((9,), (7,), (5, 3), ()), ((130,), (333,), (64, 40), ()), ((70,), (55,), (8, 8), (2, 3)),
        ((600,), (70,), (4, 1), (2,)),
    ):
        q, k = (filled(rng, (*batch, *n, width[0]), dtype) for n in (queries, keys))
        v = filled(rng, (*batch, *keys, width[1]), dtype)
        fused = jf.fuse(function)
        with quiet():
            expected = function(q, k, v)
        tolerance = 2000 * np.finfo(dtype).eps
        np.testing.assert_allclose(fused(q, k, v), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
        assert "products of products chained" in fused.explain(q, k, v)
        (plan,) = (spec.plans[False].runtime for spec in fused.parts.specs)
        scores = np.prod([*batch, *queries, *keys]) * np.dtype(dtype).itemsize
        assert plan.arena_bytes < max(scores, 4096)


def test_heads_side_by_side() -> None:
    def heads(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
        n, width = x.shape
        q, k, v = (np.swapaxes((x @ w).reshape(n, 4, width // 4), 0, 1) for w in (wq, wk, wv))
        return np.swapaxes(attention(q, k, v), 0, 1).reshape(n, width)

    rng = np.random.default_rng(8)
    x, *weights = (filled(rng, s, "float64") for s in ((50, 32), (32, 32), (32, 32), (32, 32)))
    result, launches = launched(heads, x, *weights)
    np.testing.assert_allclose(result, heads(x, *weights), rtol=1e-11, atol=1e-11)
    assert launches <= 5


def test_a_product_that_is_a_result_too_is_stored() -> None:
    rng = np.random.default_rng(9)
    a, b, c = (filled(rng, s, "float64") for s in ((30, 20), (20, 40), (40, 10)))
    (first, second), launches = launched(lambda a, b, c: (a @ b, (a @ b) @ c), a, b, c)
    np.testing.assert_allclose(first, a @ b, rtol=1e-12)
    np.testing.assert_allclose(second, a @ b @ c, rtol=1e-11)
    assert launches == 2


@pytest.mark.parametrize("square", [
    lambda y: y @ y, lambda y: y @ y[::-1], lambda y: y @ (y + 1), lambda y: (y + 1) @ y,
    lambda y: y @ np.swapaxes(y, -1, -2),
    lambda y: np.einsum("...ij,...jk->...ik", y, y), lambda y: np.einsum("...ij,...ik->...jk", y, y),
])
def test_a_product_that_both_sides_read_is_stored(square: Callable[..., Any]) -> None:
    rng = np.random.default_rng(11)
    for a, b in (((8, 5), (5, 8)), ((4, 1, 3), (4, 3, 1)), ((3, 8, 68), (3, 68, 8)), ((200, 30), (30, 200))):
        x, y = filled(rng, a, "float64"), filled(rng, b, "float64")
        expected, result = square(x @ y), jf.fuse(lambda x, y: square(x @ y))(x, y)
        np.testing.assert_allclose(result, expected, atol=1e-11 * np.abs(expected).max())
    u, v = filled(rng, (8, 34, 2), "float64"), filled(rng, (8, 34, 2), "float64")
    expected = square(np.einsum("abc,ubc->cau", u, v))
    result = jf.fuse(lambda u, v: square(np.einsum("abc,ubc->cau", u, v)))(u, v)
    np.testing.assert_allclose(result, expected, atol=1e-11 * np.abs(expected).max())


def test_the_bits_of_a_chain_do_not_depend_on_threads(runtime: Any) -> None:
    rng = np.random.default_rng(10)
    q, k, v = (filled(rng, (4, 200, 32), "float32") for _ in range(3))
    results = []
    for threads in (1, 2, 3):
        runtime.set_threads(threads)
        results.append(jf.fuse(attention)(q, k, v))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
