"""Eager arrays: over NumPy and torch, beside NumPy's functions, into fused functions and out of them."""
from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import same_numbers

import jitfuse as jf
from jitfuse.arrays.numpy_array import NumPyArray
from jitfuse.dtypes import SUPPORTED

X = np.array([[1.5, -2.0, 0.0], [np.nan, np.inf, -0.0]])


def same(got: Any, want: Any) -> None:
    """An eager array, or several, with NumPy's dtype, shape and elements."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
        return
    assert isinstance(got, jf.AbstractTensor), type(got)
    assert (got.dtype, got.shape) == (np.asarray(want).dtype, np.shape(want))
    same_numbers(np.asarray(got), want)


@pytest.mark.parametrize("dtype", [d for d in SUPPORTED if d != "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(1).integers(0, 5, shape).astype(dtype)
    t = jf.asarray(a)
    for name in ("add", "mul", "eq", "truediv", "pow", "and_", "lshift"):
        if (name, dtype) == ("pow", "bool"):
            continue  # NumPy's operator squares in int8, np.power does not
        function = getattr(operator, name)
        for other, plain in ((t, a), (a, a), (2, 2)):
            try:
                want = function(a, plain)
            except TypeError:
                with pytest.raises(TypeError):
                    function(t, other)
                continue
            same(function(t, other), want)
            same(function(other, t), function(plain, a))
    same(abs(t), abs(a))


@pytest.mark.parametrize("function", [
    lambda x: np.sin(x), lambda x: np.sum(x, axis=0), lambda x: np.add.reduce(x), lambda x: np.where(x > 0, x, 1),
    lambda x: np.concatenate([x, x]), lambda x: x[0], lambda x: x[:, ::-1], lambda x: x[x > 0], lambda x: x[[1, 0]],
    lambda x: x.T, lambda x: x.reshape(3, 2), lambda x: x.sum(axis=1, keepdims=True), lambda x: x.astype("int8"),
    lambda x: np.nonzero(x), lambda x: np.unique(x), lambda x: np.histogram(x, range=(0, 1)), lambda x: x.real,
    lambda x: x.max(), lambda x: np.divmod(x, 2), lambda x: np.meshgrid(x[0], x[1]), lambda x: x.ravel(),
    lambda x: np.linalg.svd(np.nan_to_num(x, posinf=1.0)), lambda x: np.fft.rfft(x), lambda x: x.swapaxes(0, 1),
])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numpys_functions_and_methods(function: Callable[[Any], Any]) -> None:
    same(function(jf.asarray(X)), function(X))


def test_memory_is_shared_and_written_into() -> None:
    a = np.arange(6.0)
    t = jf.asarray(a)
    view = t[2:4]
    view += 1
    t[0] = 9
    np.add(t, 1, out=t)
    np.add.at(t, [1, 1], 10)
    same(t, [10.0, 22.0, 4.0, 5.0, 5.0, 6.0])
    assert np.shares_memory(np.asarray(t), a) and np.shares_memory(jf.asarray(t).array, a)
    assert not np.shares_memory(jf.asarray(t, copy=True).array, a) and jf.from_dlpack(t) is t
    assert np.shares_memory(np.from_dlpack(t), a) and np.shares_memory(jf.from_dlpack(a).array, a)
    scalar = jf.asarray(2.0) * 3
    scalar[()] = 5
    scalar += 1
    assert float(scalar) == 6.0 and int(scalar) == 6 and bool(scalar) and complex(scalar) == 6
    assert f"{scalar:.1f}" == "6.0"
    with pytest.raises(jf.DTypeError, match="cannot cast add's result from float64 to int64"):
        whole = jf.asarray([1, 2])
        whole += 0.5
    with pytest.raises(ValueError, match="copy"):
        jf.asarray(t, dtype="int8", copy=False)
    with pytest.raises(jf.ArgumentError, match=r"reshape of \(2, 2\) to \(4,\) copies"):
        jf.reshape(jf.ones((2, 2)).T, (4,), copy=False)


def test_python_sees_an_array() -> None:
    t = jf.asarray([[1, 2], [3, 4]])
    assert t.tolist() == [[1, 2], [3, 4]] and len(t) == 2 and [r.tolist() for r in t] == [[1, 2], [3, 4]]
    assert repr(t) == "NumPyArray(array([[1, 2],\n       [3, 4]]))" and str(t) == "[[1 2]\n [3 4]]"
    same(pickle.loads(pickle.dumps(t)), t.array)
    same(copy.deepcopy(t), t.array)
    assert [5, 6, 7][jf.asarray(1)] == 6 and t.device == "cpu" and t.to_device("cpu") is t
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)
    with pytest.raises(jf.DTypeError, match="dtype object is not supported"):
        jf.asarray([None])


def test_numpy_arrays_stay_numpys() -> None:
    a = np.array([3.0, 1.0])
    for name in ("sort", "sin", "argsort", "unstack", "floor_divide", "tanh"):
        args = (a, a) if name == "floor_divide" else (a,)
        result = getattr(jf, name)(*args)
        assert type(result[0] if name == "unstack" else result) in (np.ndarray, np.float64), name
    assert type(jf.linalg.vector_norm(a)) is np.float64 and type(jf.fft.fft(a)) is np.ndarray
    assert type(jf.unique_counts(a).counts) is np.ndarray and type(jf.matmul(a, a)) is np.float64


class TestFused:
    def test_what_comes_in_goes_out(self) -> None:
        f = jf.fuse(lambda x, s: {"y": jf.sin(x["x"]) * s, "x": x["x"], "sum": np.sum(x["x"]), "row": x["x"][0]})
        x = jf.asarray(np.arange(6.0).reshape(2, 3))
        for _ in range(2):
            got = f({"x": x}, 2.0)
            assert got["x"] is x and type(got["sum"]) is NumPyArray
            same(got["y"], np.sin(x.array) * 2.0)
            assert np.shares_memory(got["row"].array, x.array)
        assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0
        assert type(f({"x": x.array}, 2.0)["y"]) is np.ndarray and f.stats()["traces"] == 1

    def test_arguments_are_written_into(self) -> None:
        @jf.fuse
        def fill(x: Any, y: Any) -> None:
            x[1:] += y
            y[()] = 7

        x, y = jf.zeros(3), jf.asarray(1.0) + 1
        fill(x, y)
        same(x, [0.0, 2.0, 2.0])
        same(y, np.asarray(7.0))
        assert jf.fuse(jf.asarray)(y, copy=False) is y

    def test_globals_and_constants(self) -> None:
        held = jf.asarray([1.0, 2.0])
        f = jf.fuse(lambda: held * 2)
        same(f(), [2.0, 4.0])
        held[0] = 5
        same(f(), [10.0, 4.0])
        assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0
        same(jf.fuse(lambda x: x + held)(jf.ones(2)), [6.0, 3.0])

    def test_creation_is_numpys_in_plain_python(self, monkeypatch: pytest.MonkeyPatch) -> None:
        f = jf.fuse(lambda x: jf.zeros(2) + x)
        monkeypatch.setenv("JITFUSE_DISABLE", "1")
        assert type(f(np.ones(2))) is np.ndarray and type(f(jf.ones(2))) is NumPyArray

    @pytest.mark.parametrize("function", [
        lambda x: np.linalg.inv(x + 3 * np.eye(3)) @ x, lambda x: np.linalg.solve(x + 3 * np.eye(3), x[0]) * 2,
        lambda x: np.linalg.det(x * 2), lambda x: np.linalg.slogdet(x), lambda x: np.linalg.svd(x + 1),
        lambda x: np.linalg.svd(x[:2], full_matrices=False), lambda x: np.linalg.qr(x[:, :2], "complete"),
        lambda x: np.linalg.qr(x, "r"), lambda x: np.linalg.eigh(x @ x.T, "U"), lambda x: np.linalg.eigvalsh(x @ x.T),
        lambda x: np.linalg.cholesky(x @ x.T + np.eye(3), upper=True), lambda x: np.linalg.pinv(x[:2]),
        lambda x: np.linalg.matrix_rank(x), lambda x: np.linalg.matrix_power(x, -3), lambda x: np.linalg.svdvals(x),
        lambda x: np.linalg.matrix_norm(x, ord="nuc"), lambda x: np.linalg.matrix_norm(x, ord=-1, keepdims=True),
        lambda x: np.linalg.vector_norm(x, axis=1, ord=3), lambda x: np.linalg.cross(x, x[0]),
        lambda x: np.linalg.matrix_power(x, 0), lambda x: np.linalg.trace(x), lambda x: np.fft.fft(x * 2),
        lambda x: np.fft.irfft(np.fft.rfft(x.real)) * 2, lambda x: np.fft.fftn(x, (2, 4), (0, 1)),
        lambda x: np.fft.fftshift(x),
        lambda x: np.fft.ifft2(x, axes=(0, 1)), lambda x: np.fft.hfft(x, 6, norm="ortho"), lambda x: np.fft.irfftn(x),
    ])
    @pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
    def test_library_steps_between_kernels(self, function: Callable[[Any], Any], dtype: str) -> None:
        x = (np.random.default_rng(3).normal(size=(3, 3)) * 2).astype(dtype)
        want, got = function(x), jf.fuse(function)(x)
        tolerance = 1e-4 if dtype == "float32" else 1e-10
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    def test_errors_name_the_step_and_the_line(self) -> None:
        f = jf.fuse(lambda x: np.linalg.inv(x - x) * 2)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            f(np.ones((2, 2)))
        assert caught.value.__notes__[0].startswith("in inv, written at ")
        with pytest.raises(np.linalg.LinAlgError) as caught:
            jf.fuse(lambda x: np.linalg.det(x))(np.ones((2, 3)))
        assert "det takes square matrices" in caught.value.__notes__[0]
        with pytest.raises(jf.DTypeError, match="svd does not take float16"):
            jf.fuse(lambda x: np.linalg.svd(x))(np.ones((2, 2), "float16"))
        for name in ("nonzero", "unique_values", "unique_all"):
            with pytest.raises(NotImplementedError, match="has a shape that depends on data"):
                jf.fuse(getattr(jf, name), strict=True)(jf.ones(3))


class TestTorch:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch", reason="torch is not installed")

    def test_an_array_over_a_tensor(self, torch: Any) -> None:
        tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        t = jf.asarray(tensor)
        assert t.value.data_ptr() == tensor.data_ptr() and t.dtype == jf.float32 and t.__array_namespace__() is jf
        same(t + 1, tensor.numpy() + 1)
        same(jf.sqrt(t), np.sqrt(tensor.numpy()))
        same(jf.sum(t, axis=0), tensor.numpy().sum(0))
        same(jf.concat([t, t]), np.concatenate([tensor, tensor]))
        same(jf.linalg.svdvals(t), np.linalg.svdvals(tensor.numpy()))
        same(jf.sort(t, descending=True), np.sort(tensor.numpy())[:, ::-1])
        t[0, 0] = 5
        t += t
        assert tensor[0, 0] == 10.0
        assert type(jf.from_dlpack(tensor)) is type(t) and type(t[0].value) is torch.Tensor

    def test_through_fused_functions(self, torch: Any) -> None:
        f = jf.fuse(lambda x: (x * 2, x))
        t = jf.asarray(torch.ones(3))
        doubled, back = f(t)
        assert type(doubled) is type(t) and type(doubled.value) is torch.Tensor and back is t
        same(doubled, np.full(3, 2.0, "float32"))


def test_an_eager_array_over_the_memory_of_an_argument() -> None:
    x = np.arange(3.0)
    held = jf.asarray(x)
    f = jf.fuse(lambda y: held + y)
    for y in (x, x * 2, x):
        np.testing.assert_array_equal(np.asarray(f(y)), x + y)


def test_floor_division_at_infinities_and_beside_them() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 7.5, -7.5, 1e200, -3.0])
    for dtype in ("float64", "float32", "float16"):
        with np.errstate(all="ignore"):
            x = values.astype(dtype)
            a, b = np.meshgrid(x, x)
            want = np.where(np.isinf(a) | np.isinf(b), a / b, a // b)
            both = jf.asarray(a) // jf.asarray(b)
            finite = np.array([7.5, -3.0, 0.5], dtype)
            np.testing.assert_array_equal(np.asarray(both), want)
            np.testing.assert_array_equal(np.asarray(jf.asarray(finite) // 2.0), finite // np.array(2.0, dtype))
            np.testing.assert_array_equal(np.asarray(jf.asarray(finite) // np.inf), finite / np.array(np.inf, dtype))
            np.testing.assert_array_equal(np.asarray(2.0 // jf.asarray(x)), jf.floor_divide(np.array(2.0, dtype), x))
            assert (jf.asarray(finite) // 2.0).dtype == dtype


RANK_0 = {
    "astype": lambda x: jf.astype(x, "float32"), "astype to its own": lambda x: jf.astype(x, "float64", copy=False),
    "reshape": lambda x: jf.reshape(x, ()), "where": lambda x: jf.where(x > 1, x, x), "sin": lambda x: jf.sin(x),
    "zeros_like": lambda x: jf.zeros_like(x), "ones_like": lambda x: jf.ones_like(x), "sum": lambda x: jf.sum(x),
    "full_like": lambda x: jf.full_like(x, 2), "squeeze": lambda x: jf.squeeze(jf.expand_dims(x, axis=0), axis=0),
    "clip": lambda x: jf.clip(x, 0, 1), "permute_dims": lambda x: jf.permute_dims(x, ()),
}


@pytest.mark.parametrize("name", RANK_0)
@pytest.mark.parametrize("x", [np.array(3.5), np.float64(3.5)], ids=["array", "scalar"])
def test_plain_arrays_of_rank_0_give_what_they_give_in_fused_functions(name: str, x: Any) -> None:
    outside, inside = RANK_0[name](x), jf.fuse(RANK_0[name])(x)
    assert type(outside) is type(inside) and outside.dtype == inside.dtype
    np.testing.assert_array_equal(outside, inside)
