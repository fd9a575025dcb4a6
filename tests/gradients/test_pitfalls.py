"""Where derivatives go wrong: equal values, writes, dtypes, empty arrays, nesting, randomness."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gradients_expected import expect, gradient

import jitfuse as jf

INF, NAN = np.inf, np.nan


# ---------------------------------------------------------------- equal values and arguments
def test_equal_arguments_have_gradients_of_their_own() -> None:
    x = np.array([1.0, 2.0])
    for _ in range(2):
        a, b = jf.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x)
        expect((a, b), 2 * x * x, x * x)
        a, b = jf.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x[::-1])
        expect((a, b), 2 * x * x[::-1], x * x)
        expect(jf.grad(lambda a, b: np.sum(a * a * b))(x, x), 2 * x * x)
    a, b = jf.grad(lambda a, b: a * a * b, (0, 1))(2.0, 2.0)
    assert (a, b) == (8, 4)
    tree = jf.grad(lambda t: np.sum(t["a"] * t["b"] ** 2))({"a": x, "b": x})
    expect((tree["a"], tree["b"]), x ** 2, 2 * x * x)
    expect(gradient(lambda x: np.zeros(2) + 0 * x + np.zeros(2), x), [0, 0])

    def constants(x: Any) -> Any:
        a, b = np.ones(2), np.ones(2)
        a[0] = x[0]
        b[1] = x[1] ** 2
        return a * 3 + b

    expect(gradient(constants, x), [3, 4])


def test_the_argument_itself_is_the_result() -> None:
    expect(jf.grad(lambda x: x)(3.0), 1)
    value, (pulled,) = (lambda made: (made[0], made[1](np.array([5.0, 7.0]))))(
        jf.vjp(lambda x: x, np.array([1.0, 2.0])))
    expect((value, pulled), [1, 2], [5, 7])
    _, pull_back = jf.vjp(lambda x: (x, x), np.array([1.0, 2.0]))
    expect(pull_back((np.array([1.0, 0.0]), np.array([10.0, 20.0])))[0], [11, 20])


def test_positions_of_arguments() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    for argnums, want in ((0, b), (-1, a), ((1, 0), (a, b)), ([0], (b,)), ((0, 0), (b, b)), ((0, -2), (b, b)),
                          ((), ())):
        found = jf.grad(lambda a, b: np.sum(a * b), argnums)(a, b)
        assert type(found) is tuple or type(argnums) is int
        for g, w in zip(found if type(found) is tuple else (found,), want if type(want) is tuple else (want,),
                        strict=True):
            expect(g, w)


def test_positions_from_the_function_around() -> None:
    x = np.ones(2)

    def of_gradient(by: Any) -> Any:
        def summed(x: Any, y: Any) -> Any:
            found = jf.grad(lambda x, y: np.sum(x ** 3 * y), by)(x, y)
            return np.sum(found[0] if isinstance(by, tuple) else found)

        return jf.grad(summed)(x, 2 * x)

    expect(tuple(of_gradient(by) for by in (0, 1, (1,), -2)), [12, 12], [3, 3], [3, 3], [12, 12])
    for wrong in (2, -3, 0.0, True, None, "x", (0, 2)):
        with pytest.raises(jf.ArgumentError, match="argnums"):
            jf.grad(lambda x, y: np.sum(x * y), wrong)(x, x)


def test_a_result_that_does_not_depend() -> None:
    expect(jf.grad(lambda x: np.float64(3.0))(np.ones(2)), [0, 0])
    expect(jf.grad(lambda x, y: np.sum(y))(np.ones(2), np.ones(3)), [0, 0])
    expect(jf.jvp(lambda x: np.arange(3.0), (np.ones(2),), (np.ones(2),))[1], [0, 0, 0])


# ---------------------------------------------------------------- writes
def test_writes_at_equal_indices() -> None:
    """The last one stays; those that add all count."""
    index, v = np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0])

    def put(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] = v
        return z * np.array([1.0, 10.0, 100.0])

    def added(z: Any, v: Any) -> Any:
        z = z.copy()
        np.add.at(z, index, v)
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(put, np.ones(3), v), [0, 10, 0], [0, 100, 1])
    expect(gradient(added, np.ones(3), v), [1, 10, 100], [1, 100, 1])
    expect(gradient(lambda x: x[index] * v, np.ones(3)), [4, 0, 2])
    expect(gradient(lambda x: np.take(x, index) * v, np.ones(3)), [4, 0, 2])

    def number(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] = v
        return z

    expect(gradient(number, np.ones(3), 2.0), [0, 1, 0], 2)

    def buffered(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] += v
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(buffered, np.ones(3), v), [1, 10, 100], [0, 100, 1])


def test_views_and_overlapping_writes() -> None:
    def shifted(x: Any) -> Any:
        z = x.copy()
        z[1:] += 2 * z[:-1]
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(shifted, [1.0, 2.0, 3.0]), [21, 210, 100])

    def through(x: Any) -> Any:
        z = x.copy()
        w = z[::-1]
        w[0] = w[1] * 5
        z *= 2
        return w * np.array([1.0, 10.0, 100.0])

    expect(gradient(through, [1.0, 2.0, 3.0]), [200, 20 + 10, 0])

    def of_transposed(x: Any) -> Any:
        z = x * 1.0
        z.T[0] = x[0, 1]
        d = z.ravel()
        d[3] = d[2] ** 2
        return z

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    expect(gradient(of_transposed, x), [[0, 3 + 4], [0, 0]])

    def argument(x: Any) -> Any:
        x[0] = x[1] ** 2
        return x * np.array([1.0, 10.0])

    x = np.array([3.0, 4.0])
    expect(jf.grad(lambda x: np.sum(argument(x)))(x), [0, 18])


def test_layouts_of_arguments() -> None:
    base = np.arange(24.0).reshape(4, 6) / 7
    for x in (base[::-1, ::2], base.T, np.asfortranarray(base), base[:, 1], base[1:2, ::-1], np.broadcast_to(
            base[0], (3, 6))):
        expect(jf.grad(lambda x: np.sum(np.sin(x) * x))(x), np.cos(x) * x + np.sin(x))
        expect(jf.grad(lambda x: np.sum(np.cumsum(x.T, axis=0)))(x), np.cumsum(np.ones(x.T.shape), axis=0)[::-1].T)


# ---------------------------------------------------------------- integers, dtypes, empty arrays, numbers
def test_integers_on_the_path_are_constant() -> None:
    x = np.array([1.2, 2.7, -0.5])
    expect(gradient(lambda x: x * x.astype(int), x), [1, 2, 0])
    expect(gradient(lambda x: np.floor(x) + np.argmax(x) * x, x), [1, 1, 1])
    expect(gradient(lambda x: x[np.argsort(x)] * np.array([1.0, 2.0, 3.0]), x), [2, 3, 1])
    expect(gradient(lambda x: np.where(x > 0, 1, 2) * x, x), [1, 1, 2])
    expect(gradient(lambda x: x * np.arange(3) + x ** np.arange(3), x), [0, 2, 2 - 1.0])
    expect(gradient(lambda x: x * (x > 0), x), [1, 1, 0])
    expect(gradient(lambda x: np.sum(x > 0) * x + np.searchsorted(np.array([0.0, 1.0]), x), x), [2, 2, 2])
    expect(gradient(lambda x: x // 1 + x % 1, x), [1, 1, 1])
    _, aux = jf.grad(lambda x: (np.sum(x ** 2), np.argmax(x)), has_aux=True)(x)
    assert aux == 1 and np.asarray(aux).dtype.kind == "i"
    with pytest.raises(jf.DerivativeError, match="int64"):
        jf.grad(lambda x: np.sum(x))(np.arange(3))
    with pytest.raises(jf.DerivativeError, match="one real number"):
        jf.grad(lambda x: np.argmax(x))(x)


DTYPES = ("float16", "float32", "float64", ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_kept(dtype: Any) -> None:
    x = np.array([0.5, 1.5, 2.0]).astype(dtype)
    functions: list[Callable[..., Any]] = [
        lambda x: np.sum(x * 2.5), lambda x: np.sum(np.exp(x) / 3), lambda x: np.mean(x ** 2),
        lambda x: np.max(x) * 2, lambda x: np.sum(np.where(x > 1, x, 0.0)), lambda x: np.sum(np.clip(x, 0.0, 1.0)),
        lambda x: np.sum(np.cumsum(x)), lambda x: np.sum(x[np.array([0, 0, 1])]), lambda x: np.sum(x * np.arange(3)),
        lambda x: np.sum(np.concatenate([x, x])), lambda x: np.sum(np.sqrt(x)), lambda x: np.var(x),
        lambda x: np.sum(x.astype("float64") * np.arange(3.0)), lambda x: np.sum(np.sort(x)),
    ]
    for number, function in enumerate(functions):
        got = jf.grad(function)(x)
        assert got.dtype == x.dtype and got.shape == x.shape, number
        want = jf.grad(function)(x.astype("float64"))
        rtol = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3}.get(str(x.dtype), 5e-2)
        np.testing.assert_allclose(got.astype("float64"), want, rtol=rtol, atol=rtol)


def test_averages_of_more_elements_than_float16_has_numbers() -> None:
    x = (np.arange(100_000) % 7).astype("float16")
    np.testing.assert_allclose(jf.grad(np.mean)(x), np.full(100_000, 1e-5), rtol=5e-3)
    np.testing.assert_allclose(jf.grad(np.var)(x), 2e-5 * (x - np.mean(x.astype(float))), rtol=2e-2, atol=1e-7)
    with np.errstate(all="ignore"):
        assert np.isnan(jf.grad(lambda x: np.var(x, ddof=1))(np.ones(1)))


def test_mixed_dtypes_have_each_their_own() -> None:
    a, b, c = np.ones(3, "float32"), np.ones(3, "float64"), np.ones(3, "complex64")
    found = jf.grad(lambda a, b, c: np.sum(np.real(a * b * c)), (0, 1, 2))(a, b, c)
    assert [g.dtype.name for g in found] == ["float32", "float64", "complex64"]
    _, moved = jf.jvp(lambda a, b: a * b, (a, b), (a, b))
    assert moved.dtype == "float64"


def test_empty_arrays() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        x = np.zeros(shape)
        for function in (np.sum, lambda x: np.sum(x * x), lambda x: np.sum(np.cumsum(x, axis=0)),
                         lambda x: np.sum(np.sort(x, axis=-1)), lambda x: np.prod(x), lambda x: np.sum(x[::-1]),
                         lambda x: np.sum(np.concatenate([x, x])), lambda x: np.sum(x.T @ x), lambda x: np.sum(
                             np.sum(x, axis=0)), lambda x: np.sum(np.cumprod(x, axis=-1)), np.linalg.norm):
            got = jf.grad(function)(x)
            assert got.shape == shape
    expect(gradient(lambda x: x[3:], [1.0, 2.0, 3.0]), [0, 0, 0])
    expect(gradient(lambda x: x[np.array([], int)], [1.0, 2.0]), [0, 0])

    def nothing_written(x: Any) -> Any:
        z = x.copy()
        z[2:] = 7.0
        z[np.array([], int)] = 3.0
        return z

    expect(gradient(nothing_written, [1.0, 2.0]), [1, 1])
    expect(jf.grad(lambda c: jf.scan(lambda c, a: (c * a, c), c, np.zeros((0,)))[0])(2.0), 1)


def test_numbers_and_arrays_of_rank_zero() -> None:
    got = jf.grad(lambda x: x ** 2)(3.0)
    assert got == 6 and np.asarray(got).dtype == np.float64 and np.shape(got) == ()
    got = jf.grad(lambda x: x ** 2)(np.float32(3.0))
    assert got == 6 and got.dtype == np.float32
    got = jf.grad(lambda x: x ** 2)(np.array(3.0))
    assert got == 6 and np.shape(got) == ()
    got = jf.grad(lambda x: np.sum(x ** 2))(np.array([3.0]))
    assert got.shape == (1,)
    assert jf.grad(lambda x, y: x * y, 1)(2.0, np.float32(3.0)).dtype == np.float32
    assert abs(jf.grad(lambda x: abs(x) ** 2)(3.0 + 4.0j) - (6 + 8j)) < 1e-12


# ---------------------------------------------------------------- complex numbers
COMPLEX: list[Callable[..., Any]] = [
    lambda xp, z: xp.sum(abs(z)), lambda xp, z: xp.sum(abs(z) ** 2), lambda xp, z: xp.sum((z * z).real),
    lambda xp, z: xp.sum((z * z).imag), lambda xp, z: xp.sum((z * xp.conj(z)).real),
    lambda xp, z: xp.sum(xp.exp(1j * z).real), lambda xp, z: xp.sum(xp.angle(z)), lambda xp, z: xp.sum(
        (1 / z + z ** 3).imag), lambda xp, z: xp.sum(abs(xp.fft.fft(z))), lambda xp, z: xp.sum((z @ z.T).real),
    lambda xp, z: xp.sum(xp.log(z).real + xp.sqrt(z).imag), lambda xp, z: abs(xp.prod(z)),
    lambda xp, z: xp.sum((z ** (1 + 2j)).real), lambda xp, z: xp.sum(xp.cumsum(z, 0).real * 2), lambda xp, z: xp.sum(
        xp.sin(z).real * xp.tan(z).imag), lambda xp, z: xp.sum(xp.real(z) * xp.imag(z)), lambda xp, z: xp.mean(z).real,
    lambda xp, z: abs(xp.sum(xp.linalg.inv(z[:2]))), lambda xp, z: xp.sum(xp.fft.ifft(z.real).imag),
    lambda xp, z: xp.sum(xp.fft.irfft(z)), lambda xp, z: xp.sum(xp.where(z.real > 0, z, 2j * z).imag),
    lambda xp, z: abs(xp.linalg.det(z[:2])), lambda xp, z: xp.sum(xp.tanh(z).real + xp.cosh(z).imag),
]


@pytest.mark.parametrize("number", range(len(COMPLEX)))
def test_complex_functions_have_torchs_gradients(number: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    z = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    function = COMPLEX[number]
    leaf = torch.from_numpy(z.copy()).requires_grad_()
    function(torch, leaf).backward()
    got = jf.grad(lambda z: function(np, z))(z)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, leaf.grad.resolve_conj().numpy(), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- loops and branches
def test_a_value_read_inside_and_behind_a_loop() -> None:
    def function(x: Any, w: Any) -> Any:
        h = np.tanh(x)
        last, ys = jf.scan(lambda c, a: (c * h.sum() + a, c * a), np.float64(1.0), h)
        return last * w + np.sum(ys * h) + np.sum(h)

    def plain(x: Any, w: Any) -> Any:
        h, c, total = np.tanh(x), 1.0, 0.0
        for a in h:
            c, y = c * h.sum() + a, c * a
            total += y * a
        return c * w + total + h.sum()

    x, w = np.array([0.3, -0.4, 0.8]), 1.3
    dx, dw = jf.grad(function, (0, 1))(x, w)
    for k in range(3):
        e = 1e-6 * np.eye(3)[k]
        assert abs(dx[k] - (plain(x + e, w) - plain(x - e, w)) / 2e-6) < 1e-8
    assert abs(dw - (plain(x, w + 1e-6) - plain(x, w - 1e-6)) / 2e-6) < 1e-8


def test_integer_carries_and_unused_parts_of_loops() -> None:
    x = np.array([0.5, 1.5, 2.5])

    def function(x: Any) -> Any:
        (n, total), ys = jf.scan(lambda c, a: ((c[0] + 1, c[1] * a + c[0]), (a * c[0], c[0])), (0, np.float64(1.0)), x)
        return total + np.sum(ys[0]) * n

    expect(jf.grad(function)(x), [1.5 * 2.5 + 0, 0.5 * 2.5 + 3, 0.5 * 1.5 + 1 + 6])
    expect(jf.grad(lambda x: jf.fori_loop(0, 3, lambda i, v: (v[0] * x[i], v[1] + 1), (np.float64(1.0), 0))[0])(x),
           [3.75, 1.25, 0.75])
    expect(jf.grad(lambda x: np.sum(jf.cond(x[0] > 0, lambda v: v * v, lambda v: np.sqrt(v - 9), x)))(x), 2 * x)


def test_branches_beside_infinities() -> None:
    x = np.array([0.0, 1.0])

    def function(x: Any) -> Any:
        return np.sum(jf.cond(x[0] > 0, lambda v: np.log(v), lambda v: v * 2, x))

    with np.errstate(all="ignore"):
        expect(jf.grad(function)(x), [2, 2])

    def in_loop(x: Any) -> Any:
        _, ys = jf.scan(lambda c, a: (c, np.where(a > 0, np.log(a), a)), np.float64(0.0), x)
        return np.sum(ys)

    with np.errstate(all="ignore"):
        expect(jf.grad(in_loop)(x), [1, 1])


# ---------------------------------------------------------------- nesting and closures
def test_nested_in_all_orders() -> None:
    x = np.array([0.5, 1.5])

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    first, second = np.cos(x) * x + np.sin(x), -np.sin(x) * x + 2 * np.cos(x)
    third = -np.cos(x) * x - 3 * np.sin(x)
    inner = jf.fuse(lambda x: np.sum(jf.grad(f)(x) ** 2))
    expect(jf.grad(inner)(x), 2 * first * second)
    expect(jf.fuse(jf.grad(f))(x), first)
    expect(jf.grad(lambda x: np.sum(jf.grad(lambda x: np.sum(jf.grad(f)(x)))(x)))(x), third)
    expect(jf.jvp(jf.grad(f), (x,), (np.ones(2),))[1], second)
    expect(jf.grad(lambda x: np.sum(jf.jvp(f, (x,), (np.ones(2),))[1]))(x), second)
    expect(jf.hvp(f, (x,), (np.ones(2),))[0], second)
    expect(jf.jvp(lambda x: jf.jvp(f, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1], second.sum())
    expect(jf.grad(lambda x: x * jf.grad(lambda y: x * y)(2.0))(3.0), 6)  # no confusion of x and y
    expect(jf.grad(lambda x: x * jf.jvp(lambda y: x + y, (1.0,), (1.0,))[1])(3.0), 1)
    expect(jf.grad(lambda x: np.sum(jf.stop_gradient(np.sin(x)) * x))(x), np.sin(x))
    (pulled,) = jf.fuse(lambda x: jf.vjp(np.sin, x)[1](x))(x)
    expect(pulled, np.cos(x) * x)


def test_closures_over_arrays_that_change() -> None:
    w = np.array([1.0, 2.0])
    slope = jf.grad(lambda x: np.sum(w * x * x))
    x = np.array([1.0, 1.0])
    expect(slope(x), [2, 4])
    w[0] = 10
    expect(slope(x), [20, 4])
    holder = {"w": np.array([1.0, 1.0])}
    slope = jf.grad(lambda x: np.sum(holder["w"] * x))
    expect(slope(x), [1, 1])
    holder["w"] = np.array([3.0, 4.0])
    expect(slope(x), [3, 4])

    class Model:
        def __init__(self) -> None:
            self.w = np.array([1.0, 2.0])

        def loss(self, x: Any) -> Any:
            return np.sum(self.w * x)

    model = Model()
    slope = jf.grad(model.loss)
    expect(slope(x), [1, 2])
    model.w = model.w * 3
    expect(slope(x), [3, 6])
    model.w += 1
    expect(slope(x), [4, 7])


# ---------------------------------------------------------------- training and randomness
def doubled_in_training(x: Any, training: bool = False) -> Any:
    return np.sum(x * 2 if training else x * 3)


def test_the_mode_of_calls() -> None:
    x = np.ones(2)
    slope = jf.grad(doubled_in_training)
    for mode, want in (({}, 3), ({"training": True}, 2), ({"training": False}, 3)):
        expect(slope(x, **mode), [want, want])
        expect(jf.value_and_grad(doubled_in_training)(x, **mode), 2 * want, [want, want])
    expect(jf.vjp(doubled_in_training, x)[1](1.0)[0], [3, 3])
    expect(jf.jvp(doubled_in_training, (x,), (x,))[1], 6)
    by_flag = jf.grad(lambda x: np.sum(x * 2 if jf.is_training() else x * 3))
    expect(by_flag(x), [3, 3])
    expect(jf.fuse(lambda x: by_flag(x), training=True)(x), [2, 2])
    expect(jf.fuse(lambda x, training=False: slope(x, training=training))(x, training=True), [2, 2])


def test_dropout_drops_the_same_elements_backwards() -> None:
    def dropped(x: Any, training: bool = False) -> Any:
        y = jf.nn.dropout(x, 0.4)
        return np.sum(y), y

    x = np.full(200, 2.0)
    for training in (True, False):
        (_, y), slope = jf.value_and_grad(dropped, has_aux=True)(x, training=training)
        expect(slope, y / 2)
        assert bool(0 < np.sum(slope == 0) < 200) is training


def test_draws_are_the_same_forwards_and_backwards_and_go_on_behind() -> None:
    def function(x: Any) -> Any:
        before = jf.random.uniform((3,))

        def inner(x: Any) -> Any:
            noise = jf.random.uniform((3,))
            return np.sum(x * noise * noise), noise

        slope, noise = jf.grad(inner, has_aux=True)(x)
        return before, noise, jf.random.uniform((3,)), slope

    jf.random.seed(3)
    want = [*jf.fuse(lambda: [jf.random.uniform((3,)) for _ in range(3)])(), jf.random.uniform((3,))]
    jf.random.seed(3)
    *found, slope = jf.fuse(function)(np.ones(3))
    expect(tuple(found), *want[:3])
    expect(slope, want[1] ** 2)
    expect(jf.random.uniform((3,)), want[3])
    jf.random.seed(3)
    expect(jf.grad(lambda x: np.sum(x * jf.random.uniform((3,))))(np.ones(3)), want[0])

    def in_loop(x: Any) -> Any:
        last, noise = jf.scan(lambda c, a: (lambda u: (c + a * u, u))(jf.random.uniform(())), np.float64(0.0), x)
        return last, noise

    slope, noise = jf.grad(in_loop, has_aux=True)(np.ones(4))
    expect(slope, noise)
    assert len(set(noise)) == 4


def test_a_pull_back_is_of_the_call_that_has_made_it() -> None:
    x = np.ones(3)
    value, pull_back = jf.vjp(lambda x: x * x * jf.random.uniform((3,)), x)
    behind = jf.random.state().copy()
    x *= 5  # it keeps what it was given
    for _ in range(2):
        expect(pull_back(np.ones(3))[0], 2 * value)
    np.testing.assert_array_equal(jf.random.state(), behind)
    torch = pytest.importorskip("torch")
    leaf = torch.ones(3)
    value, pull_back = jf.vjp(lambda x: x ** 3, leaf)
    leaf.mul_(2)
    expect(pull_back(torch.ones(3))[0].numpy(), [3, 3, 3])


def test_derivatives_run_in_the_interpreter_where_kernels_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    x = np.array([1.0, 2.0])
    gradient = jf.grad(lambda x: np.sum(x**3))
    expect((gradient(x), jf.jvp(np.sin, (x,), (x,))[1], jf.vjp(np.sin, x)[1](x)[0]),
           3 * x**2, np.cos(x) * x, np.cos(x) * x)
    assert gradient.stats()["launches"] == 0


# ---------------------------------------------------------------- equal steps
def test_what_a_recursion_computes_again_is_differentiated_once() -> None:
    def minor(a: Any, row: int, columns: tuple[int, ...]) -> Any:
        if not columns:
            return 1.0
        signed = [a[row, c] * minor(a, row + 1, columns[:k] + columns[k + 1 :]) * (-1) ** k
                  for k, c in enumerate(columns)]
        return sum(signed)

    gradient = jf.grad(lambda a: minor(a, 0, tuple(range(len(a)))))
    a = np.random.default_rng(0).normal(size=(5, 5))
    assert len(gradient.program(a).steps) < 900  # 2,269 where each product has a cotangent of its own
    a = a[:4, :4]  # fewer steps are compiled
    expect(gradient(a), np.linalg.det(a) * np.linalg.inv(a).T)
