"""Direct ways over torch tensors: any strides and dtypes, gradients, memory of their own, operators in place."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf
from tests.arrays.test_direct import CALLS

torch = pytest.importorskip("torch", reason="torch is not installed")
WAVE = np.sin(np.arange(48.0)).reshape(6, 8) * 4
TENSORS: dict[str, Callable[[], Any]] = {
    "transposed": lambda: torch.from_numpy(WAVE[:3, :3].copy()).T,
    "strided": lambda: torch.from_numpy(WAVE.copy())[::2, 1::3],
    "expanded": lambda: torch.tensor([1.5, -2.0, 0.5]).expand(3, 3),
    "one of three": lambda: torch.from_numpy(WAVE.copy())[:3, 2],
    "zeros and infinities": lambda: torch.tensor([-0.0, 0.0, np.inf, -np.inf, np.nan, -np.nan, 1e300]),
    "huge": lambda: torch.tensor([1e200, -1e200, 3e199], dtype=torch.float64),
    "odd": lambda: torch.from_numpy(WAVE.ravel()[:7].astype("float32")),
    "ties": lambda: torch.tensor([2.0, 1.0, 2.0, -0.0, 0.0, 1.0, 2.0]),
    "numbers by twos": lambda: torch.arange(12)[::2],
    "int32": lambda: torch.tensor([[3, -1], [-2147483648, 7]], dtype=torch.int32),
    "int8": lambda: torch.tensor([-128, -1, 127, 100, 100], dtype=torch.int8),
    "uint16": lambda: torch.from_numpy(np.array([0, 65535, 3], "uint16")),
    "bools": lambda: torch.tensor([[True, False], [False, False]]).T,
    "complex64": lambda: torch.tensor([[1 + 2j, -0.5j], [0.25, 3 - 1j]], dtype=torch.complex64).T,
    "conjugate": lambda: torch.tensor([1 + 2j, 3 - 1j, 0.5j]).conj(),
    "bfloat16": lambda: torch.tensor([0.5, -3.0, 7.0], dtype=torch.bfloat16),
    "parameter": lambda: torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]), requires_grad=False),
    "gradients": lambda: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "large": lambda: torch.arange(39_200.0).reshape(140, 280)[:, ::2],
}
SLOW = ("isin", "tensordot", "outer", "linalg", "vecdot", "matmul", "searchsorted", "meshgrid")


def _agree(got: Any, want: Any) -> None:
    assert type(got) is type(want), (got, want)
    if isinstance(want, tuple | list):
        for g, w in zip(got, want, strict=True):
            _agree(g, w)
    elif isinstance(want, jf.AbstractTensor):
        assert str(got.dtype) == str(want.dtype) and got.shape == want.shape
        g, w = _plain(got), _plain(want)
        if w.dtype.kind not in "fc":
            np.testing.assert_array_equal(g, w)
        else:
            size = np.abs(w[np.isfinite(w)].astype("complex128")).max(initial=0)
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=min(1e-6 * size, 1e300))
    elif not isinstance(want, Exception):
        assert got == want


def _plain(x: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(x)
    return array.astype("float32") if array.dtype.name == "bfloat16" else array


def _shares(found: Any, tensor: Any) -> bool:
    if isinstance(found, tuple | list):
        return any(_shares(part, tensor) for part in found)
    storage = tensor.untyped_storage()
    begin = storage.data_ptr()
    array = type(found).__name__ == "TorchArray" and found.ndim > 0  # the parts of a vector are numbers
    return array and begin <= found.value.data_ptr() < begin + storage.nbytes()


@pytest.mark.parametrize("name", sorted(n for n in CALLS if n.startswith("linalg.") or "." in n or hasattr(jf, n)))
def test_over_any_tensor(name: str) -> None:
    module, _, last = name.rpartition(".")
    function = getattr(getattr(jf, module) if module else jf, last)
    for kind, make in TENSORS.items():
        if kind == "large" and name.startswith(SLOW):
            continue
        for call in CALLS[name]:
            own, other = make(), make()
            want = outcome(lambda c=call, t=own: c(function.__wrapped__, jf.asarray(t)))
            got = outcome(lambda c=call, t=other: c(function, jf.asarray(t)))
            if isinstance(want, Exception) and kind in ("gradients", "parameter"):
                continue  # what needs no ndarray keeps gradients
            _agree(got, want)
            if kind not in ("uint16", "bfloat16") and _shares(got, other):
                assert _shares(want, own), f"{kind}: a result in the operand's memory"


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")


@pytest.mark.parametrize("kind", sorted(TENSORS.keys() - {"large"}))
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("other", [2, -1, 0, 0.5, True, 1j, "itself", "wider", "narrow", "backwards", "row"])
def test_operators_in_place(kind: str, other: Any) -> None:
    def operand(x: Any) -> Any:
        if not isinstance(other, str):
            return other
        t = x.value
        made = {"itself": lambda: t, "wider": lambda: t.to(torch.complex128), "narrow": lambda: t[:1].clone(),
                "backwards": lambda: torch.flip(t, (0,)), "row": lambda: torch.ones(1, dtype=t.dtype)}
        return jf.asarray(made[other]())

    for name in BINARY:
        plain, quick = (jf.asarray(TENSORS[kind]()) for _ in range(2))
        memory = quick.value
        result = outcome(lambda n=name, x=plain: getattr(x, f"__{n}__")(operand(x)))
        made = outcome(lambda n=name, x=quick: getattr(x, f"__i{n}__")(operand(x)))
        if isinstance(result, Exception) or result is NotImplemented:
            assert isinstance(made, Exception) or made is NotImplemented
        elif made is quick:
            assert quick.value is memory and result.shape == quick.shape
            cast = result.value.to(memory.dtype)
            np.testing.assert_array_equal(_plain(quick), _plain(jf.asarray(cast)))
        else:
            assert isinstance(made, Exception), (name, made)
            np.testing.assert_array_equal(_plain(quick), _plain(jf.asarray(TENSORS[kind]())))


def test_nothing_is_written_into_copies_of_conjugates() -> None:
    for lazy in (lambda t: t.conj(), lambda t: t.conj().imag):
        tensor = torch.tensor([1 + 2j, 3 - 1j])
        x = jf.asarray(lazy(tensor))
        for write in (lambda x=x: operator.setitem(x, 0, 5.0), lambda x=x: x.put([1], [7.0])):
            with pytest.raises(ValueError, match="read-only"):
                write()
        assert torch.equal(tensor, torch.tensor([1 + 2j, 3 - 1j]))


PARTS: dict[str, tuple[Any, Any]] = {
    "next": (np.s_[1:, :5], np.s_[:-1, :5]), "rows": (np.s_[1:], np.s_[:-1]), "steps": (np.s_[2::2], np.s_[:-2:2]),
    "columns": (np.s_[:, 2:6:2], np.s_[:, 0:4:2]), "first": (np.s_[:], np.s_[:1]), "number": (np.s_[:], np.s_[0, 0]),
}


@pytest.mark.parametrize("parts", sorted(PARTS))
def test_in_place_over_parts_of_the_same_memory(parts: str) -> None:
    for function in (operator.iadd, operator.imul, operator.ifloordiv, operator.ipow):
        tensor = torch.arange(1.0, 43.0, dtype=torch.float64).reshape(7, 6) / 16
        want, (own, other) = tensor.numpy().copy(), PARTS[parts]
        want[own] = getattr(operator, function.__name__[1:])(want[own], want[other])
        function(jf.asarray(tensor[own]), jf.asarray(tensor[other]))
        np.testing.assert_allclose(tensor.numpy(), want, rtol=1e-15)
    square = torch.arange(9.0).reshape(3, 3)
    x = jf.asarray(square)
    x += x.T
    np.testing.assert_array_equal(square.numpy(), np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T)


def test_in_place_operators_tell_autograd() -> None:
    for function in (operator.iadd, operator.ifloordiv, operator.imod, operator.ipow):
        tensor, weight = torch.ones(3), torch.ones(3, requires_grad=True)
        product = (tensor * weight).sum()
        function(jf.asarray(tensor), 2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_in_place_operators_and_inference_mode() -> None:
    with torch.inference_mode():
        tensor = torch.tensor([5.0, -5.0, 7.5])
        for function in (operator.ifloordiv, operator.imod, operator.ipow):
            function(jf.asarray(tensor), 2.0)
        assert tensor.tolist() == [0.0, 1.0, 1.0]
    for function in (operator.ifloordiv, operator.imod, operator.ipow):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            function(jf.asarray(tensor), 3.0)


def test_in_place_powers() -> None:
    floats = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 5e-324, 1e300, 2.0, 7.0]
    for dtype in (torch.float32, torch.float64, torch.int64):
        for size in (0, 1, 11):
            for exponent in (0, 1, 2, 3, 0.5, -1.0, "itself"):
                tensor = torch.arange(-4, 7) if dtype is torch.int64 else torch.tensor(floats, dtype=dtype)
                x = jf.asarray(tensor[:size])
                by = jf.asarray(abs(x.value)) if exponent == "itself" else exponent
                want = outcome(lambda x=x, by=by: x**by)
                made = outcome(lambda x=x, by=by: operator.ipow(x, by))
                if isinstance(want, Exception) or want.dtype != x.dtype:
                    assert isinstance(made, Exception)
                else:
                    np.testing.assert_array_equal(_plain(x), _plain(want))
                    np.testing.assert_array_equal(np.signbit(_plain(x)), np.signbit(_plain(want)))


@pytest.mark.parametrize("make", [jf.asarray, lambda a: jf.asarray(torch.from_numpy(a))])
def test_axes_that_are_no_ints_raise_after_those_that_are(make: Callable[[Any], Any]) -> None:
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        function = getattr(jf.fft, name)
        want = getattr(np.fft, name)(WAVE, axis=1)
        for axis in (1, -1, np.int64(1)):
            np.testing.assert_array_equal(np.asarray(function(make(WAVE.copy()), axis=axis)), want)
        for axis in (1.0, 2, -3, "1"):
            assert isinstance(outcome(lambda f=function, a=axis: f(make(WAVE.copy()), axis=a)), Exception)


TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn", "fftshift")
SIGNALS: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    **{str(size): lambda size=size: WAVE.ravel()[:size] for size in (1, 2, 3, 8, 13, 17)},
    "infinite": lambda: np.array([1.0, np.inf, 2.0, -np.inf, 0.5]),
    "not a number": lambda: np.array([1.0, np.nan, -0.0]), "matrix": lambda: WAVE, "columns": lambda: WAVE.T,
    "part": lambda: WAVE[1::2, ::3], "three": lambda: WAVE.reshape(2, 8, 3),
}


@pytest.mark.parametrize("make", [jf.asarray, lambda a: jf.asarray(torch.from_numpy(a))])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64", "int64"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_numpys(name: str, dtype: str, make: Callable[[Any], Any]) -> None:
    options: list[dict[str, Any]] = [{}] if name == "fftshift" else [{}, {"norm": "ortho"}, {"norm": "forward"}]
    options += [{"axes": 0}] if name == "fftshift" else [{"axes": (0,)}] if name[-1] == "n" else [
        {"axis": 0}, {"axis": -2}, {"n": 5}, {"n": 7, "axis": 0}]
    for signal in SIGNALS.values():
        with np.errstate(all="ignore"):
            x = signal().astype(dtype) * np.array(1 - 0.5j if dtype.startswith("complex") else 1, dtype)
        for given in options:
            want = outcome(lambda x=x, given=given: getattr(np.fft, name)(x, **given))
            got = outcome(lambda x=x, given=given: getattr(jf.fft, name)(make(x), **given))
            if isinstance(want, Exception):
                assert isinstance(got, Exception)
            else:
                assert np.asarray(got).dtype == want.dtype
                np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("make", [jf.asarray, lambda a: jf.asarray(torch.from_numpy(a))])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "complex128"])
def test_sets_are_numpys(dtype: str, make: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 17, 400):
        for shape in ((size,), (size, 1)):
            x = rng.integers(-4, 5, size=shape).astype(dtype)
            if dtype.startswith("float") and size > 2:
                x[:3] = np.array([np.nan, -0.0, np.nan], dtype).reshape((3,) + (1,) * (x.ndim - 1))
            for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
                want, got = getattr(np, name)(x), getattr(jf, name)(make(x.copy()))
                for g, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
                    assert np.asarray(g).dtype == w.dtype
                    np.testing.assert_array_equal(np.asarray(g), w)
            among = x.ravel()[: size // 2]
            for invert in (False, True):
                want = np.isin(x, among, invert=invert)
                np.testing.assert_array_equal(np.asarray(jf.isin(make(x), make(among), invert=invert)), want)


def test_grids() -> None:
    x, y, z = np.arange(3.0), np.array([1, 2]), np.array(7.0, "float32")
    for arrays in ((x,), (x, y), (x, y, z), (x, z), (np.empty(0), x)):
        for indexing in ("xy", "ij"):
            want = np.meshgrid(*arrays, indexing=indexing)
            for make in (jf.asarray, lambda a: jf.asarray(torch.from_numpy(np.array(a)))):
                got = jf.meshgrid(*map(make, arrays), indexing=indexing)
                assert type(got) is type(want)
                for g, w in zip(got, want, strict=True):
                    assert np.asarray(g).dtype == w.dtype
                    np.testing.assert_array_equal(np.asarray(g), w)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int8"])
@pytest.mark.parametrize("size", [1, 20_000])
def test_python_ints_that_do_not_fit_raise(dtype: str, size: int) -> None:
    plain = np.full(size, 3, dtype)
    for value in (-1, -200, 300, 1 << 40):
        for name in ("add", "floor_divide", "remainder", "pow", "maximum", "bitwise_and", "bitwise_left_shift",
                     "less", "equal"):
            for after in (True, False):
                want, got = (_with_number(name, array, value, after) for array in (plain, torch.from_numpy(plain)))
                if isinstance(want, Exception):
                    error = OverflowError if isinstance(want, OverflowError) else ValueError
                    assert isinstance(got, error), (name, value, got)
                else:
                    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def _with_number(name: str, array: Any, value: int, after: bool) -> Any:
    x = jf.asarray(array)
    return outcome(lambda: getattr(jf, name)(*((x, value) if after else (value, x))))


def test_where_wraps_as_numpys_does() -> None:
    for size in (1, 20_000):
        plain = np.full(size, 3, "uint8")
        got = jf.where(jf.asarray(torch.from_numpy(plain)) > 5, jf.asarray(torch.from_numpy(plain)), -1)
        np.testing.assert_array_equal(np.asarray(got), np.where(plain > 5, plain, -1))


@pytest.mark.parametrize("call", [
    lambda x: jf.mean(x, axis=0), lambda x: jf.flip(x, axis=0), lambda x: jf.moveaxis(x, 0, 0), jf.matrix_transpose,
    lambda x: jf.linalg.vector_norm(x, axis=0), lambda x: jf.tensordot(x[None, None], jf.stack([x, x])[None], axes=2),
])
def test_axes_that_are_not_there_raise(call: Callable[[Any], Any]) -> None:
    for array in (np.array(2.0), torch.tensor(2.0)):
        assert isinstance(outcome(lambda a=array: call(jf.asarray(a))), Exception)


def test_places_from_the_end() -> None:
    for array in (np.array(WAVE), WAVE.ravel()[:7].astype("float32"), np.arange(5)):
        for places in ([0, -1, 2], [-1], [], [[0, 1], [-2, 0]], -1, [9]):
            index = np.array(places, "int64")
            for dtype in ("int64", "int32", "uint8"):
                for axis in (None, 0, -1):
                    given = {} if axis is None else {"axis": axis}
                    want = outcome(lambda a=array, g=given, i=index, d=dtype: np.take(a, i.astype(d), **g))
                    got = outcome(lambda a=array, g=given, i=index, d=dtype: jf.take(
                        jf.asarray(torch.from_numpy(a)), jf.asarray(torch.from_numpy(i.astype(d))), **g))
                    if isinstance(want, Exception):
                        assert isinstance(got, Exception)
                    elif axis is not None or array.ndim == 1:
                        np.testing.assert_array_equal(np.asarray(got), want, strict=True)


def test_items_are_written_as_numpys() -> None:
    for dtype in ("float32", "int8", "bool", "complex64"):
        for index in (2, -1, slice(1, 5, 2), None, ..., [0, 3], (slice(None),), "mask", "places", 9):
            for value in (1, 2.5, 1j, True, 300, "array", "narrow", "list"):
                plain = WAVE.ravel()[:6].astype(dtype)
                tensor = torch.from_numpy(plain.copy())
                x = jf.asarray(tensor)
                values: dict[Any, Any] = {"array": np.array([7.5]), "narrow": np.array(3, "uint8"), "list": [1]}
                masks = {"mask": plain == plain[0], "places": np.array([1, 5])}
                at = masks[index] if type(index) is str else index
                v = values.get(value, value)
                want = outcome(lambda p=plain, at=at, v=v: operator.setitem(p, at, v))
                to = jf.asarray(torch.from_numpy(at)) if type(at) is np.ndarray else at
                v = jf.asarray(torch.from_numpy(v)) if type(v) is np.ndarray else v
                got = outcome(lambda x=x, at=to, v=v: operator.setitem(x, at, v))
                assert type(got) is type(want), (dtype, index, value, got, want)
                np.testing.assert_array_equal(tensor.numpy(), plain)


def test_quotients_of_infinities_in_place() -> None:
    for dtype in (torch.float32, torch.float64):
        for other in (2.0, np.inf, -np.inf, 0.0, np.nan, 3, "row"):
            numbers = [1.0, -1.0, np.inf, -np.inf, np.nan, 0.0, -0.0, 7.5]
            x, y = (jf.asarray(torch.tensor(numbers, dtype=dtype)) for _ in range(2))
            by = jf.asarray(torch.tensor(numbers[::-1], dtype=dtype)) if other == "row" else other
            memory = y.value
            want = jf.floor_divide.__wrapped__(x, by)
            y //= by
            assert y.value is memory
            _agree(y, want)
            np.testing.assert_array_equal(np.signbit(_plain(y)), np.signbit(_plain(want)))


def test_next_floats() -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 2.2e-308, 1.7976931348623157e308, 1e-45]
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            a, b = np.meshgrid(*[np.array(numbers).astype(dtype)] * 2)
            want = np.nextafter(a, b)
        got = np.asarray(jf.nextafter(*(jf.asarray(torch.from_numpy(v)) for v in (a, b))))
        np.testing.assert_array_equal(got, want, strict=True)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def test_nothing_is_written_where_many_elements_are_one() -> None:
    for dtype in (torch.float32, torch.int32):
        for other in (2, torch.tensor([2, 3, 4]), torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64)):
            for function in (operator.iadd, operator.imul, operator.ifloordiv, operator.imod):
                tensor = torch.ones(1, dtype=dtype).expand(3)
                with pytest.raises((RuntimeError, TypeError)):
                    function(jf.asarray(tensor), jf.asarray(other) if isinstance(other, torch.Tensor) else other)
                assert tensor.tolist() == [1, 1, 1]
