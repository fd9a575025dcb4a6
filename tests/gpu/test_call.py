"""Fused functions on the GPU: residency, writes, randomness, closures, fallbacks, the cache."""
from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype


def filled(shape: tuple[int, ...], seed: int = 0, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def on_gpu(x: Any) -> Any:
    return jf.asarray(x, device="gpu")


def same(got: Any, expected: Any, tolerance: float = 0) -> None:
    assert isinstance(got, jf.gpu.GpuTensor)
    host = np.asarray(got)
    assert host.dtype == np.asarray(expected).dtype and host.shape == np.shape(expected)
    np.testing.assert_allclose(host, expected, rtol=tolerance, atol=tolerance)


def test_a_product_of_a_product() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.T
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ v

    args = [filled(s, seed) for seed, s in enumerate(((40, 16), (50, 16), (50, 24)))]
    fused = jf.fuse(attention, device="gpu")
    same(fused(*args), attention(*args), 1e-5)
    assert fused.stats()["fallbacks"] == 0


def test_a_chain_shows_no_transfers() -> None:
    @jf.fuse
    def affine(x: Any, b: Any) -> Any:
        return np.sin(x) * x + b

    @jf.fuse
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    x = filled((20, 30))
    t = on_gpu(x)
    before = jf.gpu.transfers()
    y = t
    for k in range(5):
        y = softmax(affine(y, k + 0.5))
    assert jf.gpu.transfers() == before
    e = x.astype("float64")
    for k in range(5):
        e = np.sin(e) * e + (k + 0.5)
        e = np.exp(e - e.max(1, keepdims=True))
        e /= e.sum(1, keepdims=True)
    np.testing.assert_allclose(np.asarray(y), e, rtol=2e-5)
    assert affine.stats()["fallbacks"] == 0 and affine.stats()["launches"] == 5 and affine.stats()["traces"] == 1


def test_host_arrays_go_in_and_results_stay() -> None:
    @jf.fuse(device="gpu")
    def f(x: Any, y: Any) -> Any:
        return {"sum": x + y, "rows": (x * y).sum(axis=1), "high": x > y, "total": x.max()}

    x, y = filled((7, 9)), filled((7, 9), 1)
    before = jf.gpu.transfers()
    r = f(x, y)
    after = jf.gpu.transfers()
    assert (after.uploads - before.uploads, after.downloads - before.downloads) == (2, 0)
    same(r["sum"], x + y)
    same(r["high"], x > y)
    same(r["total"], x.max())
    same(r["rows"], (x * y).sum(axis=1), 1e-5)
    assert r["total"].shape == ()


def test_bits_agree_with_the_cpu() -> None:
    def f(x: Any, y: Any) -> Any:
        m = x.mean(axis=1, keepdims=True)
        return (x - m) / np.sqrt(((x - m) ** 2).sum(axis=1, keepdims=True)), np.sum(x * y), (x / y).sum(axis=0)

    for shape in ((3, 5), (50, 700), (2, 70_001)):
        x, y = filled(shape), filled(shape, 1)
        for got, expected in zip(jf.fuse(f, device="gpu")(x, y), jf.fuse(f)(x, y), strict=True):
            assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


def test_strided_tensors_and_new_shapes_compile_nothing_new() -> None:
    @jf.fuse(device="gpu")
    def f(x: Any) -> Any:
        return x * 2 + 1

    x = filled((40, 30))
    same(f(on_gpu(x)), x * 2 + 1)
    compiles = f.stats()["compiles"]
    for n in (3, 17, 64):
        same(f(on_gpu(x[:n])), x[:n] * 2 + 1)
    assert f.stats()["compiles"] == compiles
    t = on_gpu(x)
    same(f(t[::2, ::-1]), x[::2, ::-1] * 2 + 1)
    same(f(t.T), x.T * 2 + 1)


def test_results_that_are_views_or_arguments() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return x, x[1:, ::2], (x + 1).T, x.reshape(-1)

    x = filled((6, 4))
    t = on_gpu(x)
    a, b, c, d = f(t)
    assert a is t and b.storage_ is t.storage_
    for got, expected in zip((b, c, d), (x[1:, ::2], (x + 1).T, x.reshape(-1)), strict=True):
        same(got, expected)


def test_writes() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        x[1:3] = 7
        x *= 2
        return x.sum()

    x = filled((5, 4))
    t = on_gpu(x)
    view = t[2:]
    before = jf.gpu.transfers()
    total = f(t)
    assert jf.gpu.transfers() == before
    expected = x.copy()
    expected[1:3] = 7
    expected *= 2
    same(t, expected)
    same(view, expected[2:])
    same(total, expected.sum(dtype="float32"), 1e-6)
    g = jf.fuse(f.__wrapped__, device="gpu")
    g(x)
    np.testing.assert_array_equal(x, expected)


def test_tensors_in_closures_and_containers() -> None:
    w = on_gpu(filled((4,), 1))

    @jf.fuse
    def f(p: Any) -> Any:
        return p["x"] * w + p["b"][0]

    x, b = filled((3, 4)), np.float32(2)
    same(f({"x": on_gpu(x), "b": [b]}), x * np.asarray(w) + b)
    same(f({"x": x, "b": [b]}), x * np.asarray(w) + b)
    assert f.stats()["traces"] == 1


def test_scalars_of_the_call_do_not_compile() -> None:
    @jf.fuse
    def f(x: Any, s: Any, n: Any) -> Any:
        return x * s + n

    x = filled((50,))
    t = on_gpu(x)
    for s, n in ((0.5, 3), (1.5, -7), (np.inf, 2**40)):
        same(f(t, s, n), x * np.float32(s) + np.float32(n))
    assert f.stats()["compiles"] + f.stats()["cache_hits"] == 1


def test_python_numbers_are_checked_on_the_host() -> None:
    function = jf.fuse(lambda x, h: x * (1 / h), device="gpu")
    x = filled((5,))
    same(function(x, 2.0), x * 0.5)
    with pytest.raises(ZeroDivisionError):
        function(x, 0.0)
    assert function.stats()["fallbacks"] == 0


def test_random_numbers_are_those_of_the_cpu() -> None:
    def f(n: Any) -> Any:
        return jf.random.uniform((100,), dtype="float32") + n, jf.random.uniform((3, 5), dtype="float32")

    jf.random.seed(5)
    expected = [jf.fuse(f)(1.0) for _ in range(2)]
    jf.random.seed(5)
    gpu = jf.fuse(f, device="gpu")
    for pair in expected:
        for got, e in zip(gpu(1.0), pair, strict=True):
            same(got, e)


def test_training_and_evaluation() -> None:
    @jf.fuse(device="gpu")
    def f(x: Any, training: bool) -> Any:
        return x * 2 if training else x + 1

    x = filled((9,))
    same(f(x, training=True), x * 2)
    same(f(x), x + 1)
    assert f.stats()["traces"] == 1


def test_an_operator_that_wgsl_lacks_runs_in_the_interpreter() -> None:
    def f(x: Any) -> Any:
        return np.gcd(x, x + 6) + 1

    x = np.arange(10, dtype="int32")
    fused = jf.fuse(f, device="gpu", name="lacking")
    with pytest.warns(jf.FallbackWarning, match="gcd of int32"):
        same(fused(x), f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(fused(on_gpu(x)), f(x))
    assert fused.stats()["fallbacks"] == 2
    with pytest.raises(jf.CompileError, match="gcd of int32"):
        jf.fuse(f, device="gpu", strict=True)(x)


def test_products_of_matrices() -> None:
    @jf.fuse(device="gpu")
    def attention(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.T / np.sqrt(np.float32(q.shape[1]))
        e = np.exp(s - s.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True)) @ v + 1

    q, k, v = (filled((40, 16), n) for n in range(3))
    before = jf.gpu.transfers()
    got = attention(*(on_gpu(x) for x in (q, k, v)))
    assert jf.gpu.transfers().downloads == before.downloads
    s = q.astype("float64") @ k.T / 4
    e = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(np.asarray(got), (e / e.sum(axis=1, keepdims=True)) @ v + 1, atol=1e-5)


def test_library_steps_run_on_the_host_and_are_counted() -> None:
    @jf.fuse(device="gpu")
    def f(a: Any) -> Any:
        return np.sort(a * 2, axis=1) + 1

    a = filled((6, 7))
    with pytest.warns(jf.FallbackWarning, match="sort"):
        same(f(a), np.sort(a * 2, axis=1) + 1)
    assert f.stats()["fallbacks"] == 1


def test_kernels_and_explain() -> None:
    @jf.fuse(device="gpu")
    def f(x: Any) -> Any:
        return np.exp(x).sum(axis=0)

    f(filled((5, 6)))
    (kernel,) = f.kernels
    assert kernel.backend == "wgsl" and "@compute" in kernel.source and len(kernel.key) == 64
    assert "kernel over" in f.explain(filled((5, 6)))
    again = jf.fuse(lambda x: np.exp(x).sum(axis=0), device="gpu")
    again(filled((3, 6)))
    assert again.kernels[0].key == kernel.key


def test_kernels_come_from_the_disk() -> None:
    def made() -> Any:
        fused = jf.fuse(lambda x: x * 3 + 0.125, device="gpu")
        fused(filled((5, 4)))
        return fused.kernels[0].key, fused.kernels[0].from_cache

    key, _ = made()
    gc.collect()  # the process keeps kernels as long as somebody has them
    again, from_cache = made()
    assert again == key and from_cache


def test_warm_uploads_nothing() -> None:
    @jf.fuse(device="gpu")
    def f(x: Any) -> Any:
        return x + 1.25

    before = jf.gpu.transfers()
    f.warm(jf.spec((10, 3), "float32"))
    assert jf.gpu.transfers() == before
    made = f.stats()["compiles"] + f.stats()["cache_hits"]
    f(filled((10, 3)))
    assert f.stats()["compiles"] + f.stats()["cache_hits"] == made


@pytest.mark.parametrize("parts", [
    lambda x: (x[:5], x[5:]), lambda x: (x.reshape(3, 4)[0], x.reshape(3, 4)[2]), lambda x: (x[::2], x[1::2]),
    lambda x: (x[:7], x[5:]), lambda x: (x[2:], x[2:]), lambda x: (x, x),
], ids=["halves", "rows", "interleaved", "overlapping", "equal views", "one array"])
def test_writes_into_two_views_of_one_buffer(parts: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        x += 1
        y[...] = y * 2
        return x.sum() + y.sum()

    fused, x = jf.fuse(f), filled((12,))
    t = on_gpu(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        for _ in range(2):
            same(fused(*parts(t)), f(*parts(x)), 1e-5)
            same(t, x)


def test_a_library_step_takes_a_reshaped_scalar() -> None:
    fused = jf.fuse(lambda x, y: np.sort(x.reshape(1)) + y)
    with pytest.warns(jf.FallbackWarning, match="sort"):
        same(fused(np.float32(2), on_gpu(np.ones(3, "float32"))), np.full(3, 3, "float32"))


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_dtypes_without_a_wgsl_version_run_elsewhere() -> None:
    for dtype in ("complex64", "complex128", "bfloat16", "float16"):
        x = np.arange(4).astype(numpy_dtype(dtype))
        same(jf.fuse(lambda x: x[::-1] + 1, device="gpu")(on_gpu(x)), x[::-1] + 1)


def test_reads_of_data_on_the_device() -> None:
    f = jf.fuse(lambda x: x + 1 if x.sum() > 0 else x - 1)
    with pytest.warns(jf.FallbackWarning, match=r"np\.where"):
        made = f(jf.asarray(np.ones(4, "float32"), device="gpu"))
    np.testing.assert_array_equal(np.asarray(made), np.full(4, 2, "float32"))
    np.testing.assert_array_equal(f(np.ones(4, "float32")), np.full(4, 2, "float32"))
