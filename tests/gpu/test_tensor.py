"""GPU tensors: residency, views, operators, NumPy functions, looks."""
from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.backends.wgsl.runtime.buffers import pool_of
from jitfuse.backends.wgsl.runtime.device import default_device
from jitfuse.errors import UnsupportedError

DTYPES = ["float32", "float64", "int32", "int64", "bool"]


def filled(dtype: str, shape: tuple[int, ...]) -> Any:
    return (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)


def on_gpu(x: Any) -> Any:
    return jf.asarray(x, device="gpu")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (33, 5)])
def test_there_and_back(dtype: str, shape: tuple[int, ...]) -> None:
    x = filled(dtype, shape)
    t = on_gpu(x)
    assert (t.shape, t.dtype, t.device, t.ndim, t.size) == (shape, dtype, "gpu", len(shape), x.size)
    for back in (np.asarray(t), jf.asarray(t, device="cpu"), t.value):
        assert back.dtype == x.dtype and back.shape == shape and np.array_equal(back, x)
    assert jf.asarray(t) is t and jf.asarray(t, device="gpu") is t
    assert "gpu" not in repr(t).split("device")[0] and dtype in repr(t)


@pytest.mark.parametrize("order", [lambda x: x.T, lambda x: x[::-2, 1:], lambda x: np.asfortranarray(x)])
def test_any_layout_is_uploaded(order: Any) -> None:
    x = order(filled("float32", (6, 9)))
    assert np.array_equal(np.asarray(on_gpu(x)), x)


def test_transfers_count_arrays_and_do_not_change_afterwards() -> None:
    before = jf.gpu.transfers()
    t = on_gpu(np.zeros(100, "float32"))
    np.asarray(t)
    after = jf.gpu.transfers()
    assert after == (before.uploads + 1, before.downloads + 1, before.upload_bytes + 400, before.download_bytes + 400)
    with pytest.raises(AttributeError):
        after.uploads = 0  # type: ignore[misc]


def test_views_share_memory_and_cost_nothing() -> None:
    x = filled("float32", (8, 10))
    t = on_gpu(x)
    before = jf.gpu.transfers()
    views = [
        (t.T, x.T), (t[2:7:2], x[2:7:2]), (t[:, ::-3], x[:, ::-3]), (t[3], x[3]), (t[..., 4, None], x[..., 4, None]),
        (t.reshape(4, 20), x.reshape(4, 20)), (t[1, 2], x[1, 2]), (t[1:][::-1].T, x[1:][::-1].T),
    ]
    assert jf.gpu.transfers() == before
    for view, expected in views:
        assert view.storage_ is t.storage_ and np.array_equal(np.asarray(view), expected)
    assert np.array_equal(np.asarray(t.T.reshape(-1)), x.T.reshape(-1))


def test_operators_and_numpy_functions_stay_on_the_gpu() -> None:
    x, y = filled("float32", (5, 6)), filled("float32", (6,))
    a, b = on_gpu(x), on_gpu(y)
    before = jf.gpu.transfers()
    pairs = [(a + b, x + y), (2 * a - 1, 2 * x - 1), (a > b, x > y), (-a, -x), (abs(a), abs(x)), (np.sqrt(abs(a)),
             np.sqrt(abs(x))), (np.maximum(a, b), np.maximum(x, y)), (a.max(axis=1), x.max(axis=1)),
             (np.where(a > 0, a, b), np.where(x > 0, x, y)), (np.concatenate([a, a]), np.concatenate([x, x])),
             (a.T + 1, x.T + 1), (a[1:] - a[:-1], x[1:] - x[:-1]), (a ** 2, x ** 2)]
    assert jf.gpu.transfers() == before
    for got, expected in pairs:
        assert isinstance(got, jf.gpu.GpuTensor)
        assert got.dtype == expected.dtype and np.array_equal(np.asarray(got), expected)
    assert np.array_equal(np.asarray(x + b), x + y)


def test_scalars() -> None:
    t = on_gpu(np.arange(5, dtype="int32"))
    total = t.sum()
    assert (int(total), float(total), total.item(), bool(total)) == (10, 10.0, 10, True)
    assert [10, 20][on_gpu(np.int32(1))] == 20 and f"{total:3d}" == " 10"
    assert t.tolist() == [0, 1, 2, 3, 4] and [int(v) for v in t] == t.tolist() and len(t) == 5
    with pytest.raises(TypeError):
        len(total)
    with pytest.raises(ValueError):
        np.array(t, copy=False)


def test_a_tensor_pickles_by_its_elements() -> None:
    x = filled("float64", (3, 4))
    assert np.array_equal(np.asarray(pickle.loads(pickle.dumps(on_gpu(x)))), x)


def test_bad_arguments() -> None:
    with pytest.raises(jf.ArgumentError, match="'cpu' and 'gpu'"):
        jf.asarray(np.zeros(3), device="tpu")
    with pytest.raises(jf.DTypeError):
        on_gpu(np.array(["a"]))
    with pytest.raises(UnsupportedError):
        on_gpu(np.zeros(3))[[0, 1]]


def test_buffers_go_back_to_the_pool() -> None:
    pool = pool_of(default_device())
    on_gpu(np.zeros(12_345, "float32"))
    gc.collect()
    made = pool.made
    for _ in range(20):
        t = on_gpu(np.zeros(12_345, "float32"))
        view = t[3:]
        del t
        assert np.asarray(view).shape == (12_342,)
        del view
    assert pool.made <= made + 2


def test_free_buffers_are_bounded() -> None:
    pool = pool_of(default_device())
    for k in range(8):
        on_gpu(np.zeros((40 << 20) + k * (10 << 20), "bool"))
    assert pool._free_bytes <= 1 << 28
    assert pool._free_bytes == sum(length * len(free) for (_, length), free in pool._free.items())


def test_writes_outside_of_fused_functions_are_numpys() -> None:
    def f(x: Any, y: Any) -> Any:
        v = x[1:]
        x += y
        x[2:] = v[:-1]
        x[0] = 7
        v *= 2
        x -= x[::-1]
        v **= 2
        v /= v + 1
        x[:0] = 5
        return x, v

    x, y = filled("float32", (6,)), filled("float32", (1,))
    for got, expected in zip(f(on_gpu(x), on_gpu(y)), f(x.copy(), y), strict=True):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)
    n, t = np.arange(5), on_gpu(np.arange(5))
    for z in (n, t):
        z <<= 2
        z |= 1
        z[::2] = 9
    assert np.array_equal(np.asarray(t), n)
    with pytest.raises(TypeError):
        t += 2.5
    with pytest.raises(UnsupportedError, match="shares memory"), pytest.warns(jf.FallbackWarning):
        np.add(t[1:], 1, out=t[:-1])
