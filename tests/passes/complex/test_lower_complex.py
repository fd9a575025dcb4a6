"""Complex arrays through the whole pipeline, against NumPy: layouts, special values, parts, scalars, writes."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as special_functions

import jitfuse as jf

DTYPES = ("complex64", "complex128")
SIZES = (0, 1, 2, 17, 1003)
PARTS = (0.0, -0.0, 1.0, -1.5, 1e-30, 3e30, math.inf, -math.inf, math.nan)
SPECIAL = [complex(a, b) for a, b in itertools.product(PARTS, PARTS)]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")

EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "negative": lambda x, y: -x,
    "conj": lambda x, y: np.conj(x), "real": lambda x, y: x.real + y.real, "imag": lambda x, y: np.imag(x),
    "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y, "greater_equal": lambda x, y: x >= y,
    "maximum": np.maximum, "minimum": np.minimum, "isnan": lambda x, y: np.isnan(x),
    "isinf": lambda x, y: np.isinf(x), "isfinite": lambda x, y: np.isfinite(x),
    "logical_and": np.logical_and, "where": lambda x, y: np.where(x.real < y.real, x, y),
    "astype": lambda x, y: x.astype(np.complex128), "to_float": lambda x, y: x.astype(np.float32),
    "to_bool": lambda x, y: x.astype(bool), "concat": lambda x, y: np.concatenate([x, y]),
    "any": lambda x, y: np.any(x), "all": lambda x, y: np.all(x), "iscomplex": lambda x, y: np.iscomplex(x),
    "isclose": lambda x, y: np.isclose(x, y), "isclose_nan": lambda x, y: np.isclose(x, y, equal_nan=True),
    "isclose_real": lambda x, y: np.isclose(x.real, y), "clip": lambda x, y: np.clip(x, -1, 0.5j),
    "round": lambda x, y: np.round(x, 1), "round_tens": lambda x, y: np.round(y, -1),
    "zeros_like": lambda x, y: np.zeros_like(x), "full_like": lambda x, y: np.full_like(x, complex(-0.0, 0.0)),
}
CLOSE: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y, "square": lambda x, y: np.square(x),
    "abs": lambda x, y: abs(x), "sign": lambda x, y: np.sign(x), "scaled": lambda x, y: 2 * x - y / 3.0,
    "turned": lambda x, y: 1j * x, "norm": lambda x, y: np.linalg.norm(x), "norms": lambda x, y: np.linalg.norm(y, 3),
}


def numbers(dtype: str, n: int, seed: int) -> Any:
    r = np.random.default_rng(seed)
    return (r.standard_normal(n) + 1j * r.standard_normal(n)).astype(dtype)


def special(dtype: str, seed: int) -> Any:
    values = np.array(SPECIAL, dtype)
    return values[np.random.default_rng(seed).permutation(len(values) * 9) % len(values)]


def parts(x: Any) -> list[Any]:
    return [np.real(x), np.imag(x)]


def compare(fused: Any, function: Callable[..., Any], args: tuple[Any, ...], rtol: float) -> None:
    with np.errstate(all="ignore"):
        want = function(*args)
    got = fused(*args)
    assert np.asarray(got).dtype == np.asarray(want).dtype and np.shape(got) == np.shape(want)
    if rtol == 0:
        np.testing.assert_array_equal(got, want)
        return
    # an error is measured against the whole number; infinite and NaN parts must agree
    size = np.abs(np.where(np.isfinite(want), want, 0))
    for g, w in zip(parts(got), parts(want), strict=True):
        assert np.array_equal(np.isnan(g), np.isnan(w)) and np.array_equal(g[np.isinf(w)], w[np.isinf(w)])
        finite = np.isfinite(w)
        assert np.all(np.abs(g - w)[finite] <= (rtol * size + 1e-45)[finite])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_an_operator_gives_numpys_result(name: str, dtype: str) -> None:
    function = EXACT.get(name) or CLOSE[name]
    rtol = 0.0 if name in EXACT else 4e-7 if dtype == "complex64" else 8e-16
    fused = jf.fuse(lambda x, y: function(x, y))
    for n in SIZES:
        compare(fused, function, (numbers(dtype, n, 1), numbers(dtype, n, 2)), rtol)
    if name not in ("multiply", "divide", "square", "scaled"):  # an infinity in one part makes NaN by another path
        compare(fused, function, (special(dtype, 3), special(dtype, 4)), rtol)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_strides(dtype: str) -> None:
    base = numbers(dtype, 40 * 50, 5).reshape(40, 50)
    views = [
        base, base.T, base[::2, ::3], base[::-1, ::-1], base[3], base[:, 4], base[:, 4:5], base[:1, :1],
        np.broadcast_to(base[0], (30, 50)), base[:, :0], base[5:9, 1:40].T,
    ]
    fused = jf.fuse(lambda x: (x * 2 - x.conj(), x.real, x.T, x[..., ::-1], x + 1))
    for x in views:
        for got, want in zip(fused(x), (x * 2 - x.conj(), x.real, x.T, x[..., ::-1], x + 1), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
def test_reductions(dtype: str, axis: Any) -> None:
    def function(x: Any) -> Any:
        return (
            np.sum(x, axis=axis), x.mean(axis=axis), np.var(x, axis=axis), np.std(x, axis=axis, keepdims=True),
            np.any(x, axis=axis), np.all(x, axis=axis), np.max(x, axis=axis), np.min(x, axis=axis),
        )

    fused = jf.fuse(function)
    for shape in ((5, 7, 3), (2, 1, 2), (64, 3, 65), (3, 4, 300)):
        x = numbers(dtype, math.prod(shape), 6).reshape(shape)
        for got, want in zip(fused(x), function(x), strict=True):
            assert got.dtype == want.dtype and np.shape(got) == np.shape(want)
            np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "complex64" else 1e-10, atol=1e-6)


def test_reductions_of_nothing_and_of_nan() -> None:
    fused = jf.fuse(lambda x: (np.sum(x, axis=0), np.any(x, axis=0), np.all(x, axis=0)))
    for got, want in zip(fused(np.zeros((0, 3), "complex64")), (0, False, True), strict=True):
        np.testing.assert_array_equal(got, np.full(3, want))
    x = np.array([[1 + 2j, 3], [complex(0, math.nan), 4], [-1, 5j]])
    low, high = jf.fuse(lambda x: (x.min(axis=0), x.max(axis=0)))(x)
    assert np.isnan(low[0]) and np.isnan(high[0]) and low[1] == 5j and high[1] == 4


def test_long_sums_are_split_and_keep_their_bits() -> None:
    x = numbers("complex128", 300_001, 7)
    got = jf.fuse(lambda x: np.sum(x))(x)
    assert type(got) is np.complex128
    assert got.real == jf.fuse(lambda x: np.sum(x))(x.real.copy())
    assert got.imag == jf.fuse(lambda x: np.sum(x))(x.imag.copy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_and_numpy_scalars(dtype: str) -> None:
    @jf.fuse
    def function(x: Any, a: Any, b: Any) -> Any:
        return x * a + b

    x = numbers(dtype, 33, 8)
    for a, b in ((2.0, 1j), (1 + 2j, 3), (np.complex64(2j), 1.5), (np.float64(2), np.complex128(-1j)), (True, -0.5j)):
        got, want = function(x, a, b), x * a + b
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    before = function.stats()["traces"]
    for k in range(5):
        np.testing.assert_allclose(function(x, 2.0, complex(k, -k)), x * 2.0 + complex(k, -k), rtol=1e-6)
    assert function.stats()["traces"] == before


def test_promotion_with_reals() -> None:
    x, z = np.arange(5, dtype="float32"), np.arange(5) * 1j
    fused = jf.fuse(lambda x, z, k: (x * 1j, x + z, k * 1j, np.where(x > 2, z, x), z == x))
    k = np.arange(5)
    for got, want in zip(fused(x, z, k), (x * 1j, x + z, k * 1j, np.where(x > 2, z, x), z == x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_item_assignment_and_writes_into_arguments() -> None:
    def function(x: Any, y: Any) -> Any:
        x[2:7:2] = 1j * y[:3]
        x[0] = 5
        y *= 2j
        z = np.zeros((3, 4), dtype=complex)
        z[1] = x[:4]
        z[:, 2] += 1j
        return z

    x, y = numbers("complex128", 10, 9), numbers("complex128", 6, 10)
    for _ in range(2):
        mine, other, x_, y_ = x.copy(), y.copy(), x.copy(), y.copy()
        got, want = jf.fuse(function)(mine, other), function(x_, y_)
        np.testing.assert_allclose(got, want, rtol=1e-15)
        np.testing.assert_allclose(mine, x_, rtol=1e-15)
        np.testing.assert_allclose(other, y_, rtol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_matrices(dtype: str) -> None:
    a, b = numbers(dtype, 35, 11).reshape(5, 7), numbers(dtype, 28, 12).reshape(7, 4)
    fused = jf.fuse(lambda a, b: ((a + 1) @ b * 2, a.T @ a.conj(), (b.T @ a.T)[::-1]))
    for got, want in zip(fused(a, b), ((a + 1) @ b * 2, a.T @ a.conj(), (b.T @ a.T)[::-1]), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "complex64" else 1e-12)


def test_creation_and_constants() -> None:
    table = np.array([1 + 2j, 3 - 1j, 0.5j])

    def function(n: Any) -> Any:
        return (
            np.zeros(3, complex) + n, np.full((2, 2), 1 - 2j) * n, np.ones(4, "complex64"), table * n,
            np.array([1j, 2.0, 3]) + n, np.arange(4) * 1j,
        )

    for got, want in zip(jf.fuse(function)(2.5), function(2.5), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_what_complex_numbers_do_not_have_is_refused() -> None:
    z = np.array([1j, 2])
    for function in (np.floor, lambda z: z // 2, lambda z: z % 2, lambda z: z & 1):
        with pytest.raises(TypeError):
            jf.fuse(lambda z, f=function: f(z))(z)


def test_products_scans_and_positions() -> None:
    x = numbers("complex128", 60, 13).reshape(3, 4, 5)

    def function(x: Any) -> Any:
        return (
            np.prod(x, axis=1) + 1, np.cumsum(x, axis=2) * 2, np.argmax(x, axis=0), np.argmin(x), np.cumprod(x, axis=0),
        )

    for got, want in zip(jf.fuse(function)(x), function(x), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_real_products_of_the_parts_of_complex_matrices() -> None:
    a, b = numbers("complex64", 64 * 70, 14).reshape(64, 70), numbers("complex64", 70 * 48, 15).reshape(70, 48)
    got = jf.fuse(lambda a, b: a.real @ b.imag + 1)(a, b)
    np.testing.assert_allclose(got, a.real @ b.imag + 1, rtol=1e-3, atol=1e-4)


def test_gathering_and_choosing() -> None:
    x, k = numbers("complex64", 40, 16).reshape(8, 5), np.array([3, -1, 0, 7])
    fused = jf.fuse(
        lambda x, k: (x[k] * 2, np.take(x, k, axis=0).real, np.roll(x, 2, axis=1), np.where(x.real > 0, x, 0))
    )
    want = (x[k] * 2, x[k].real, np.roll(x, 2, axis=1), np.where(x.real > 0, x, 0))
    for g, w in zip(fused(x, k), want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


def test_dropping_imaginary_parts_warns() -> None:
    z, x = np.array([1 + 2j, 3]), np.zeros(2)

    def assigned(x: Any, z: Any) -> Any:
        y = x.copy()
        y[:] = z
        return y

    with pytest.warns(np.exceptions.ComplexWarning, match="test_lower_complex.py"):
        np.testing.assert_array_equal(jf.fuse(lambda z: z.astype(float))(z), [1, 3])
    with pytest.warns(np.exceptions.ComplexWarning):
        np.testing.assert_array_equal(jf.fuse(assigned)(x, z), [1, 3])


UNARY = (
    "np.exp(-abs({}))", "np.sqrt({})", "{}.conj()", "({} * 1j)", "{}.real", "{}.T", "{}[::-1]", "(-{})", "abs({})",
    "np.sin({})", "(1 / (2 + abs({})))", "np.where({0}.real > 0, {0}, 0)", "{}.sum(axis=0, keepdims=True)",
    "{}.astype('complex64')",
)
BINARY = ("({} + {})", "({} * {})", "({} - {})", "np.maximum({}, {})", "np.concatenate([{}, {}])")


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(seed: int) -> None:
    r = np.random.default_rng(seed)
    x, y = numbers("complex128", 36, seed).reshape(6, 6), numbers("complex64", 36, seed + 50).reshape(6, 6)
    values: dict[str, Any] = {"x": x, "y": y, "k": np.ones((6, 6))}
    arguments = dict(values)
    while len(values) < 11:
        a, b = (list(values)[r.integers(len(values))] for _ in range(2))
        forms = UNARY if r.random() < 0.6 else BINARY
        text = forms[r.integers(len(forms))].format(a, b)
        try:
            value = eval(text, {"np": np, **arguments})
        except ValueError:  # shapes that do not fit
            continue
        values[text] = value
    scope: dict[str, Any] = {"np": np}
    wanted = list(values)[3:]
    exec("def function(x, y, k):\n    return (" + ", ".join(wanted) + ",)\n", scope)
    for got, text in zip(jf.fuse(scope["function"])(*arguments.values()), wanted, strict=True):
        want = values[text]
        assert got.dtype == want.dtype and got.shape == want.shape, text
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * (1 + float(np.max(np.abs(want)))), err_msg=text)


def test_writes_into_parts() -> None:
    def into_part(x: Any) -> Any:
        x.real[0] = 5
        return x

    def into_copy(x: Any) -> Any:
        y = x.imag.copy()
        y[0] = 5
        return y + x.real

    x = numbers("complex128", 4, 17)
    np.testing.assert_array_equal(jf.fuse(into_part)(x.copy()), into_part(x.copy()))
    np.testing.assert_array_equal(jf.fuse(into_copy)(x.copy()), into_copy(x.copy()))

    def into_real(y: Any) -> Any:
        y.real[1:] += 1
        return y * 2

    y = np.arange(4.0)
    np.testing.assert_array_equal(jf.fuse(into_real)(y.copy()), into_real(y.copy()))


def test_the_real_part_of_a_real_array_is_the_array() -> None:
    def assigned(x: Any, n: Any) -> Any:
        y = x * 1
        kept = y.real
        y.real = n
        x.real[1:] = n.real
        return y, kept, x.real is x, n.real is n, n.imag, x.imag

    for x, n in ((np.arange(4.0), 2.5), (np.arange(4), 3), (np.arange(4.0, dtype="float32"), 1.0), (np.ones(3), True)):
        fused, other = jf.fuse(assigned, strict=True), x.copy()
        for k in range(2):
            for got, want in zip(fused(other, n), assigned(x, n), strict=True):
                np.testing.assert_array_equal(got, want, strict=True)
            np.testing.assert_array_equal(other, x)
            other, x = other + k, x + k


def test_functions_of_scipy_refuse_complex_numbers() -> None:
    z = numbers("complex64", 5, 1)
    for function in (lambda x: special_functions.xlogy(x, x), lambda x: special_functions.gammaln(x)):
        with pytest.raises(jf.DTypeError, match="real numbers"):
            jf.fuse(function, strict=True)(z)


@pytest.mark.parametrize("order", [
    lambda a, b: a < b, lambda a, b: a <= 1.5, lambda a, b: b < 2, lambda a, b: a >= b, lambda a, b: min(a, b),
])
def test_python_numbers_that_are_complex_have_no_order(order: Any) -> None:
    with pytest.raises(TypeError):
        order(1 + 2j, 3j)
    with pytest.raises(jf.DTypeError, match="no order"):
        jf.fuse(order)(1 + 2j, 3j)
    assert jf.fuse(lambda a, b: np.less(a, b))(1j, 2j) == np.less(1j, 2j)
    assert jf.fuse(lambda a, b: a == b)(1j, 2j) == (1j == 2j)
    x = np.array([1j, 2.0])
    np.testing.assert_array_equal(jf.fuse(lambda x, a: x < a)(x, 1j), x < 1j)
