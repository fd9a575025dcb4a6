"""Eager arrays over torch tensors give what those over NumPy give, share memory, and meet the others as they should."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
Y = np.array([[1.5, -2.0, 0.5, 4.0]])

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, y: (x + y) * 2 - y / x,
    "floor": lambda x, y: (x // y, x % y, jf.floor_divide(x, y)),
    "power": lambda x, y: abs(x) ** y,
    "comparison": lambda x, y: (x < y, x == x, (x > 0) & (y > 0), ~(x > 0)),
    "functions": lambda x, y: (jf.sin(x), jf.exp(x), jf.sqrt(abs(x)), jf.tanh(x), jf.maximum(x, y),
                               jf.where(x > 0, x, y)),
    "reductions": lambda x, y: (jf.sum(x), jf.mean(x, axis=0), jf.max(x, axis=1, keepdims=True), jf.std(x),
                                jf.argmax(x)),
    "scans": lambda x, y: (jf.cumulative_sum(x, axis=1), jf.diff(x)),
    "shapes": lambda x, y: (x.T, jf.reshape(x, (4, 3)), jf.expand_dims(x, axis=0), jf.concat([x, x], axis=1),
                            jf.stack([x, x]), jf.flip(x, axis=0), jf.roll(x, 1), jf.broadcast_to(y, (3, 4))),
    "items": lambda x, y: (x[1], x[:, 1:3], x[..., ::2], x[None], x[jf.asarray(np.array([0, 2]))]),
    "products": lambda x, y: (x @ x.T, jf.tensordot(x, x, axes=2), jf.matmul(x, y.T)),
    "order": lambda x, y: (jf.sort(x, axis=0), jf.argsort(x, axis=1)),
    "casts": lambda x, y: (jf.astype(x, jf.float32), jf.astype(x, jf.int64), jf.astype(x > 0, jf.uint8)),
    "linalg": lambda x, y: (jf.linalg.vector_norm(x), jf.linalg.det(x @ x.T + 5 * jf.eye(3))),
    "numpy": lambda x, y: (np.sin(x), np.sum(x, axis=0), np.clip(x, -1, 1), np.add(x, y)),
}


def _pairs(got: Any, want: Any) -> list[tuple[Any, Any]]:
    if isinstance(want, tuple | list):
        return [pair for g, w in zip(got, want, strict=True) for pair in _pairs(g, w)]
    return [(got, want)]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_operations_agree_with_numpy_arrays(name: str, dtype: str) -> None:
    x, y = X.astype(dtype), Y.astype(dtype)
    want = OPERATIONS[name](jf.asarray(x), jf.asarray(y))
    got = OPERATIONS[name](jf.asarray(torch.from_numpy(x)), jf.asarray(torch.from_numpy(y)))
    for g, w in _pairs(got, want):
        assert type(g).__name__ == "TorchArray" and str(g.dtype) == str(w.dtype) and g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    x = torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, dtype))
    a = jf.asarray(x)
    assert str(a.dtype) == dtype and type(a).__name__ == "TorchArray"
    assert str((a + a).dtype) == dtype and str(jf.sum(a).dtype) == ("int64" if dtype[0] in "bi" and dtype != "bfloat16"
                                                                     else "uint64" if dtype == "uint8" else dtype)
    assert (a == a).all()


def test_memory_is_shared() -> None:
    tensor = torch.zeros(2, 3)
    a = jf.asarray(tensor)
    a[0] = 7.0
    a += 1
    assert tensor.tolist() == [[8.0] * 3, [1.0] * 3] and np.shares_memory(np.asarray(a[1]), tensor.numpy())
    tensor[1, 1] = 5.0
    assert float(a[1, 1]) == 5.0 and len(a) == 2 and [float(r[0]) for r in a] == [8.0, 1.0]


def test_fused_functions_take_and_return_them() -> None:
    a = jf.asarray(torch.arange(4.0))
    f = jf.fuse(lambda a, b: (jf.sin(a) * b, a.sum()))
    for _ in range(3):
        got, total = f(a, 2.0)
        assert type(got).__name__ == type(total).__name__ == "TorchArray"
        np.testing.assert_allclose(np.asarray(got), np.sin(np.arange(4.0, dtype="float32")) * 2, rtol=1e-6)
    assert f.stats()["traces"] == 1


def test_kinds_meet() -> None:
    a, b = jf.asarray(torch.ones(3)), jf.asarray(np.ones(3))
    assert type(a + b).__name__ == "TorchArray" and str((a + b).dtype) == "float64"
    assert type(a + np.float64(1)).__name__ == "TorchArray" and str((a * 2).dtype) == "float32"
    with pytest.raises(jf.JitfuseError):
        a + jf.asarray(np.ones(4))
    with pytest.raises(jf.JitfuseError):
        a.reshape(2, 2)


def test_python_protocols() -> None:
    import copy
    import pickle

    a = jf.asarray(torch.tensor([1.0, 2.0]))
    assert a.tolist() == [1.0, 2.0] and float(a[0]) == 1.0 and int(a[1]) == 2 and bool(a[0])
    for other in (copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.copy()):
        other[0] = 9.0
        assert float(a[0]) == 1.0 and float(other[0]) == 9.0
    assert torch.equal(torch.from_dlpack(a), torch.tensor([1.0, 2.0]))
    assert "TorchArray" in repr(a)


def test_items_backwards_and_of_conjugates() -> None:
    y = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(jf.asarray(y)[::-1, ::-1]), y.numpy()[::-1, ::-1])
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    np.testing.assert_array_equal(np.asarray(jf.asarray(conjugate)[0]), 1 - 2j)
    np.testing.assert_array_equal(np.asarray(jf.asarray(conjugate.imag)[1:]), [1.0])


def test_memory_is_the_same_whatever_becomes_of_the_tensor() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    a = jf.asarray(tensor)
    assert a[0].tolist() == [0.0, 1.0, 2.0]
    tensor.t_().unsqueeze_(0).mul_(2)
    assert a.shape == (2, 3) and a[0].tolist() == [0.0, 2.0, 4.0] and jf.prod(a, axis=0).tolist() == [0.0, 16.0, 40.0]
    tensor.set_(torch.ones(2))
    assert a.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] and jf.linalg.qr(a).Q.shape == (2, 2)
    grown = torch.arange(3.0)
    b = jf.asarray(grown)
    grown.resize_(1 << 16)
    assert b[1:].tolist() == [1.0, 2.0] and jf.cumulative_prod(b).tolist() == [0.0, 0.0, 0.0]


def test_what_is_made_of_an_array_leaves_its_own_ndarray_alone() -> None:
    a = jf.asarray(torch.arange(6.0))
    for x in (a, jf.cumulative_prod(a), jf.fft.fft(a)):
        x[0], before = x[1], x[1:].tolist()
        for made in (np.asarray(x), np.asarray(x), x[...], x.array, np.from_dlpack(x)):
            made = np.asarray(made)
            made.shape = (3, 2)
            made.flags.writeable = False
        x[0] = 7.0
        assert x.shape == (6,) and x[0].tolist() == 7.0 and x[1:].tolist() == before


def test_an_array_that_gets_gradients_keeps_them() -> None:
    weight = torch.full((4,), 2.0, requires_grad=True)
    a = jf.asarray(torch.ones(4))
    assert jf.prod(a[1:]).tolist() == 1.0
    a *= jf.asarray(weight)
    assert a.value.requires_grad
    jf.sum(a * a).value.backward()
    assert weight.grad.tolist() == [4.0] * 4
