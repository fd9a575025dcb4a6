"""Indexing by integer arrays: NumPy's elements, shapes and errors, fused with what comes before and after."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import launches
from oracle import check

import jitfuse as jf
from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.semantics import gathers

RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 6, 7))
I, J = np.array([[0, -1, 2], [3, 4, -5]]), np.array([1, 0, -2])


INDICES: list[Callable[..., Any]] = [
    lambda x, i, j: x[i], lambda x, i, j: x[:, i], lambda x, i, j: x[..., i], lambda x, i, j: x[i, j],
    lambda x, i, j: x[:, i, j], lambda x, i, j: x[i, :, j], lambda x, i, j: x[0, :, j], lambda x, i, j: x[i, 1:4, j],
    lambda x, i, j: x[::-1, None, j, None], lambda x, i, j: x[None, i, ..., None, j], lambda x, i, j: x[j, j, j],
    lambda x, i, j: x[i][:, 0], lambda x, i, j: x.T[j, :, i], lambda x, i, j: x[2, i], lambda x, i, j: x[i, 3],
    lambda x, i, j: x[[0, 2], :, [1, -1]], lambda x, i, j: x[[[0]], [1, 2]], lambda x, i, j: x[[]],
    lambda x, i, j: x[:, [True, False, True, False, False, True]], lambda x, i, j: x[np.arange(3), j],
    lambda x, i, j: x[i[:0]], lambda x, i, j: x[j[0]], lambda x, i, j: x[j[0], :, j[1]], lambda x, i, j: x[0, j[2], 1],
    lambda x, i, j: x[:, j[0]:][0] if isinstance(j, int) else x[0, j[0]], lambda x, i, j: x[i.astype("int32"), j],
]


@pytest.mark.parametrize("k", range(len(INDICES)))
def test_every_way_to_index(k: int) -> None:
    check(INDICES[k], (X, I, J))
    check(lambda x, i, j: INDICES[k](x * 2, i, j) + 1, (X, I, J))


@pytest.mark.parametrize("dtype", [d for d in SUPPORTED if d != "bfloat16"])
def test_dtypes_of_elements(dtype: str) -> None:
    check(lambda x, i, j: (x[i], x[:, j], np.take(x, j, axis=2)), ((X * 9).astype(dtype), I, J))


@pytest.mark.parametrize("dtype", [d for d, k in SUPPORTED.items() if k in ("int", "uint")])
def test_dtypes_of_indices(dtype: str) -> None:
    check(lambda x, i: x[i] + np.take(x, i, axis=0), (X, (np.abs(I) % 5).astype(dtype)))


def test_gathers_are_fused() -> None:
    assert launches(check(lambda x, i: np.sqrt(np.abs(x[:, i])) * 2 + 1, (X, I)), X, I) == 1
    assert launches(check(lambda x, j: x[j, :].max(axis=2), (X, J)), X, J) == 1
    assert launches(check(lambda x, j: (x[j + 1 - 1] * x[j, :, :]).max(axis=0), (X, J)), X, J) == 1
    assert launches(check(lambda x, i, j: np.maximum(x[i, j], x[j[0]][0]), (X, I, J)), X, I, J) == 1
    i = np.array([1, 2, 3])
    assert launches(check(lambda t, i: np.roll(t[i], 1, axis=0) + np.pad(t, 1)[i], (X[0, 0], i)), X[0, 0], i) == 1


@pytest.mark.full
def test_indices_that_are_computed() -> None:
    check(lambda x: x[np.argsort(x[:, 0, 0])], (X,))
    check(lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), (X,))
    check(lambda t, i: t[t[t[i]]], (np.array([2, 0, 3, 1]), np.array([0, 1, 2])))
    check(lambda x, j: x[np.where(j > 0, j, 0)][:, np.minimum(np.abs(j), 1)], (X, J))

    def chase(t: Any, i: Any) -> Any:
        for _ in range(150):
            i = t[i]
        return i

    check(chase, (RNG.permutation(50), np.arange(50)))


def test_gathers_behind_flat_positions() -> None:
    check(lambda x, i: np.ravel(x[:, i]).max(), (X, I))
    check(lambda x: np.ravel(np.take(x, [-1, 0], axis=2) * 2).cumsum(), (X,))
    check(lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1).reshape(-1).min(), (X,))


def test_take() -> None:
    for mode in ("raise", "wrap", "clip"):
        index = J if mode == "raise" else J + 6 * np.array([1, -2, 3])
        check(lambda x, j, mode=mode: (np.take(x, j, axis=1, mode=mode), x.take(j, 0, mode=mode)), (X, index % 5))
        check(lambda x, j, mode=mode: (np.take(x, j, mode=mode), np.take(x, j, -1, mode=mode)), (X, index))
    check(lambda x: (np.take(x, 3), np.take(x, [0, 1], axis=0), np.take(x, -1, axis=1)), (X,))
    check(lambda x, i: np.take_along_axis(x, i[:, :1, None] % 2, axis=0), (X, I.reshape(1, 6)))
    check(lambda x, j: np.take_along_axis(x, j, None), (X, J))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_of_what_no_trace_knows(mode: str) -> None:
    """NumPy does not ask the indices who computes, and some arrays that user code makes are plain ones."""
    check(lambda i: np.take(np.meshgrid([1.5, 2.5], [3.5])[0], i % 2, axis=1, mode=mode), (I,))


def test_negative_and_broadcast_layouts() -> None:
    check(lambda x, i, j: x[i, :, j], (X[::-1, :, ::2], I, J[::-1]))
    check(lambda x, j: x[j], (np.broadcast_to(X[0, 0], (5, 7)), J))
    check(lambda x, j: x[:, j], (X[:1], np.broadcast_to(np.array([2]), (4,))))


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(("index", "message"), [
    (17, "index 17 is out of bounds for axis 1 with size 6"), (-7, "index -7 is out of bounds for axis 1 with size 6"),
])
def test_an_index_out_of_bounds_raises_with_its_line_and_writes_nothing(index: int, message: str) -> None:
    def pick(x: Any, i: Any, y: Any) -> Any:
        y += 1
        return x[:, i] * 2

    fused, i, y = jf.fuse(pick), np.array([0, 1, 2, 3, 4] * 9), np.zeros(3)
    fused(X, i, y)
    i[13] = index
    for _ in range(3):
        with pytest.raises(IndexError, match=message) as raised:
            fused(X, i, y)
        assert isinstance(raised.value, jf.JitfuseError) and "test_gathering.py" in str(raised.value)
        assert y.tolist() == [1, 1, 1]
    big = np.zeros(500_000, int)
    big[400_001] = index
    with pytest.raises(IndexError, match=message):
        fused(X, big, y)


def test_elements_that_no_result_reads_raise_nothing() -> None:
    x, i = np.arange(4.0), np.array([0, 9, 1])
    np.testing.assert_array_equal(jf.fuse(lambda x, i: np.concatenate([x[i][:1], x]))(x, i), [0, 0, 1, 2, 3])
    with pytest.raises(IndexError):
        jf.fuse(lambda x, i: np.where(i < 4, x[i], 0))(x, i)


@pytest.mark.parametrize(("function", "error"), [
    (lambda x, j: x[[9]], IndexError), (lambda x, j: x[j * 1.0], IndexError), (lambda x, j: x[:, :, :, j], IndexError),
    (lambda x, j: x[:0][j], IndexError), (lambda x, j: x[j, np.zeros((2, 2), int)], ValueError),
    (lambda x, j: x[x[0] > 0], IndexError), (lambda x, j: x[..., j, ...], IndexError),
    (lambda x, j: np.take(x, j, mode="up"), jf.ArgumentError), (lambda x, j: np.take(x, j, axis=3), ValueError),
    (lambda x, j: np.take_along_axis(x, j, 0), ValueError), (lambda x, j: x[[0.5]], IndexError),
])
def test_mistakes(function: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        jf.fuse(function, strict=True)(X, J)


# ---------------------------------------------------------------- scatters
def scattering(*statements: str) -> Callable[..., Any]:
    """Return a function that carries out statements on a copy of x and on x itself."""
    text = "def f(x, i, j, v):\n y = x + 0\n" + "".join(f" {s}\n" for s in statements) + " return y, x"
    names: dict[str, Any] = {"np": np}
    exec(text, names)
    return names["f"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("statement", [
    "y[i] = 0", "y[i] = v[..., None]", "y[:, i] = 7.5", "y[i, :, j] = v", "y[j, j, j] = [1, 2, 3]", "y[::2][j[:2]] = 1",
    "y[0, j] += 1", "y[j] *= 2", "y.T[j] = 3", "y[j[0]] = 5", "y[j[0]][1] = 6", "y[j[0]] += y[j[1]]", "y[:, j[1]] -= 1",
    "np.add.at(y, i, 1)", "np.add.at(y, (slice(None), j), v[0, 0, 0])", "np.maximum.at(y, (i, 0), 0.5)",
    "np.subtract.at(y, 2, 1)", "np.put(y, i, [1, 2])", "y.put(j, 9)", "np.put_along_axis(y, i[:1, :1, None], 3, 1)",
    "x[i] = 4", "x[j, 0] = y[0, j]", "y[[0, 0, 1]] = v[0][:, :, None]", "y[[True, False, True, True, False]] = 8",
    "y[i[:0]] = 3", "y[:, [0, 2], :][0] = 1", "y[i] = y[i] + x[i]",
])
def test_scatters(statement: str) -> None:
    check(scattering(statement), (X, I, J, RNG.normal(size=(2, 3, 6))))


def test_the_last_of_equal_indices_stays() -> None:
    def write(n: Any) -> Any:
        y = np.zeros(4, n.dtype)
        y[n % 4] = n
        return y

    check(write, (np.arange(1000)[::-1].copy(),))
    check(lambda n: np.zeros(3) + n.sum() * 0, (np.arange(3),))


def test_scatters_out_of_bounds_write_nothing() -> None:
    x = X.copy()
    with pytest.raises(IndexError, match="index 9 is out of bounds") as raised:
        jf.fuse(scattering("x[i] = 1"))(x, np.array([0, 1, 2, 3, 4, 9]), J, X)
    assert "in scatter, written at" in str(raised.value)
    np.testing.assert_array_equal(x, X)


@given(st.data())
def test_any_index(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    common = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    items: list[Any] = []
    for n in shape[: data.draw(st.integers(1, len(shape)))]:
        kind = data.draw(st.sampled_from(["array", "array", "int", "slice", "new"]))
        if kind == "new":
            items.append(None)
        elif kind == "int":
            items.append(data.draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            items.append(data.draw(st.slices(n)))
        else:
            drop = data.draw(st.integers(0, len(common)))
            size = tuple(1 if data.draw(st.booleans()) else m for m in common[drop:])
            values = [data.draw(st.integers(-n, n - 1)) for _ in range(int(np.prod(size)))]
            items.append(np.array(values, int).reshape(size))
    used = sum(i is not None for i in items)
    if used < len(shape) and data.draw(st.booleans()):
        items.insert(data.draw(st.integers(0, len(items))), Ellipsis)
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    arrays = [i for i in items if isinstance(i, np.ndarray)]

    def index(given: Any) -> Any:
        rest = list(given)
        return tuple(rest.pop(0) if isinstance(i, np.ndarray) else i for i in items)

    def pick(x: Any, *given: Any) -> Any:
        y = x + 0
        y[index(given)] = -1
        return x[index(given)] * 1, y

    try:
        x[tuple(items)]
    except IndexError:
        return
    check(pick, (x, *arrays))


@pytest.mark.parametrize("shape", [(1, 0, 33), (4, 5, 6), (1, 1, 1), (64, 32, 40), (2, 300, 1)])
@pytest.mark.parametrize("function", [
    lambda x, a, b: np.take(x, (a @ b) % 3, axis=0), lambda x, a, b: x[np.tensordot(a, b, 1) % 3] + 1,
    lambda x, a, b: (x[(a @ b) % 3] * (a @ b)).sum(axis=0), lambda x, a, b: x[(a @ b).sum(axis=1) % 3],
])
def test_products_are_indices(function: Any, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    rows, inner, columns = shape
    for dtype in (np.int32, np.int64, np.uint8):
        a, b = rng.integers(0, 5, (rows, inner)).astype(dtype), rng.integers(0, 5, (inner, columns)).astype(dtype)
        x = rng.random(3)
        np.testing.assert_allclose(jf.fuse(function)(x, a, b), function(x, a, b), rtol=1e-13)


@pytest.mark.parametrize("case", range(60))
def test_combining_at_places_goes_element_by_element(case: int) -> None:
    """As ufunc.at does, to the bit, also where it is done over the flattened array."""
    rng = np.random.default_rng(case)
    x = rng.normal(size=rng.integers(0 if case % 20 == 0 else 1, 5, rng.integers(1, 4)))
    x = x.astype(rng.choice(["float32", "float64", "int32"]), order="F" if case % 3 == 0 else "C")
    axes = tuple(sorted(rng.choice(x.ndim, rng.integers(1, x.ndim + 1), replace=False).tolist()))
    common = ((3,), (2, 3), (40,), (), (0,))[case % 5]
    indices = [rng.integers(-x.shape[a] - (case % 7 == 0), max(x.shape[a], 1), common) for a in axes]
    place = int(rng.integers(0, x.ndim - len(axes) + 1))
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    shape = [1 if rng.random() < 0.2 else n for n in (*rest[:place], *common, *rest[place:])]
    value = (rng.normal(size=shape) * 9).astype(x.dtype if case % 4 else "float32")
    for combine in ("add", "multiply", "maximum"):
        plain = x.copy(order="K")
        front = np.moveaxis(plain, axes, range(len(axes)))
        spread = np.moveaxis(np.broadcast_to(value, (*rest[:place], *common, *rest[place:])),
                             range(place, place + len(common)), range(len(common)))
        try:
            getattr(np, combine).at(front, tuple(indices), spread)
        except (IndexError, np.exceptions.DTypePromotionError, TypeError) as error:
            with pytest.raises(type(error)):
                gathers.scatter(x, value, *indices, axes=axes, place=place, combine=combine)
            continue
        found = gathers.scatter(x, value, *indices, axes=axes, place=place, combine=combine)
        assert found.dtype == x.dtype and found.tobytes() == plain.tobytes()
        into = np.empty_like(x, order="A" if case % 2 else "C")
        gathers.scatter_into(into, x, value, *indices, axes=axes, place=place, combine=combine)
        assert into.tobytes() == plain.tobytes()
