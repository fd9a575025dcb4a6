"""New arrays lie in memory as NumPy's do: what is a view of what, what a write reaches, and strides of results."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest

import jitfuse as jf

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "permuted": lambda a: np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
    "swapped": lambda a: np.ascontiguousarray(a.transpose(1, 0, 2)).transpose(1, 0, 2),
    "steps": lambda a: np.asfortranarray(np.repeat(a, 2, axis=1))[:, ::2],
    "reversed": lambda a: np.asfortranarray(a[::-1])[::-1],
    "repeated": lambda a: np.broadcast_to(a[:1, :, :1].copy(), a.shape),
}
SHAPES = ((2, 3, 4), (3, 1, 5), (1, 1, 2), (0, 3, 2), (7, 5, 3))


def _array(shape: tuple[int, ...], layout: str) -> Any:
    return LAYOUTS[layout](np.random.default_rng(3).standard_normal(shape))


def _strides(a: Any) -> tuple[int, ...]:
    """Return the strides of axes along which there is something to step over."""
    return tuple(s for s, n in zip(a.strides, a.shape, strict=True) if n != 1) if a.size else ()


def _is_dense(a: Any) -> bool:
    """Return whether an array is no part of another: its elements without gaps, under axes in some order."""
    return a.size <= 1 or (a.flags.writeable and a.transpose(np.argsort([-s for s in a.strides])).flags.c_contiguous)


# ---------------------------------------------------------------- one function
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "number": lambda x: x * 2,
    "own transpose": lambda x: x + x.transpose(0, 1, 2)[..., ::-1],
    "c order": lambda x: x + np.ones(x.shape),
    "row": lambda x: np.ones(x.shape[-1]) + x,
    "column": lambda x: x + np.ones((x.shape[1], 1)),
    "outer": lambda x: x[..., None] * np.ones(2),
    "comparison": lambda x: x > 0,
    "where": lambda x: np.where(x > 1, x, 0.0),
    "clip": lambda x: np.clip(x, 0, 1),
    "sum 0": lambda x: x.sum(0),
    "sum 1": lambda x: x.sum(1),
    "sum 2": lambda x: np.sum(x, -1),
    "kept": lambda x: x.sum((0, 2), keepdims=True) + x,
    "mean": lambda x: x.mean(0),
    "std": lambda x: x.std(1),
    "any": lambda x: (x > 0).any(2),
    "cumsum": lambda x: x.cumsum(1),
    "cast": lambda x: x.astype(np.float32),
    "cast to C": lambda x: x.astype(np.float32, order="C"),
    "cast to F": lambda x: x.astype(np.float32, order="F"),
    "method copy": lambda x: x.copy(),
    "copy K": lambda x: x.copy(order="K"),
    "copy A": lambda x: x.copy("A"),
    "copy F": lambda x: x.copy("F"),
    "np.copy": lambda x: np.copy(x),
    "np.array": lambda x: np.array(x),
    "np.array F": lambda x: np.array(x, order="F"),
    "asfortranarray": lambda x: np.asfortranarray(x * 2),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x * 2),
    "zeros F": lambda x: np.zeros(x.shape, order="F") + x,
    "zeros_like": lambda x: np.zeros_like(x),
    "ones_like F": lambda x: np.ones_like(x, order="F"),
    "full_like C": lambda x: np.full_like(x, 3.0, order="C"),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "concatenate mixed": lambda x: np.concatenate([x, np.ones(x.shape)]),
    "stack": lambda x: np.stack([x, x], 1),
    "sort": lambda x: np.sort(x, 1),
    "argsort": lambda x: np.argsort(x, 0),
    "roll": lambda x: np.roll(x, 1, 1),
    "roll flat": lambda x: np.roll(x, 1),
    "take": lambda x: np.take(x, [0, 0], axis=1),
    "index 0": lambda x: x[[0] * len(x)],
    "index 1": lambda x: x[:, [0, 0]],
    "index 2": lambda x: x[..., [[0, 1], [1, 0]]],
    "two indices": lambda x: x[:, [0, 0], [1, 0]],
    "indices apart": lambda x: x[[0] * len(x), :, [1] * len(x)],
    "tril": lambda x: np.tril(x),
    "pad": lambda x: np.pad(x, 1),
    "diff": lambda x: np.diff(x, axis=2),
    "repeat": lambda x: np.repeat(x, 2, 1),
    "tile": lambda x: np.tile(x, 2),
    "round": lambda x: np.round(x, 1),
    "rint": lambda x: np.round(x),
    "select": lambda x: np.select([x > 0], [x]),
    "matmul": lambda x: x @ np.ones((x.shape[-1], 2)),
    "stack of products": lambda x: np.stack([x, x], 1) @ np.ones((x.shape[-1], 2)),
    "stack of inverses": lambda x: np.linalg.inv(x[..., None, None] * np.eye(2) + np.eye(2)),
    "vander": lambda x: np.vander(np.arange(4.0) * x.size, 3),
    "matmul.T": lambda x: (x @ np.ones((x.shape[-1], 2))).transpose(0, 2, 1),
    "dot": lambda x: np.dot(x, np.ones((x.shape[-1], 2))),
    "einsum": lambda x: np.einsum("ijk,ijk->kj", x, x),
    "outer ufunc": lambda x: np.multiply.outer(x, np.ones(2)),
    "accumulate": lambda x: np.add.accumulate(x, 1),
    "fft": lambda x: np.fft.fft(x, axis=1),
    "delete": lambda x: np.delete(x, 0, axis=2),
    "insert": lambda x: np.insert(x, 1, 0.0, axis=2),
    "median": lambda x: np.median(x, axis=0),
    "polyval": lambda x: np.polyval([1.0, 2.0], x),
    "transpose": lambda x: (x * 2).T,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_strides_of_numpy(name: str) -> None:
    function = FUNCTIONS[name]
    for layout, shape in amount.covering(FUNCTIONS, name, list(LAYOUTS), SHAPES):
        x = _array(shape, layout)
        try:
            with np.errstate(all="ignore"):
                want = function(x)
        except (ValueError, IndexError):
            continue  # nothing to reduce or to index
        fused = jf.fuse(function)
        got = fused(x)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        assert _strides(got) == _strides(want), (shape, layout, x.strides, want.strides, got.strides)
        assert got.flags.owndata or got.base is not x
        ran = jf.ProgramRunner(fused.program(x))(dict.fromkeys(fused.program(x).feeds, x)).outputs["result"]
        assert ran is x or _strides(np.asarray(ran)) == _strides(want), (shape, layout)


def test_one_array_in_two_orders() -> None:
    function = jf.fuse(lambda x: (lambda y: (y, y.T, y.T * 1.0, y.transpose(1, 0, 2)))(x * 2))
    x = _array((2, 3, 4), "C")
    y, t, copy, other = function(x)
    assert y.flags.c_contiguous and t.flags.f_contiguous and copy.flags.f_contiguous and not other.flags.c_contiguous
    for result in (y, t.T, copy.T, other.transpose(1, 0, 2)):
        np.testing.assert_array_equal(result, x * 2)


def test_kernels_take_no_steps_over_memory_in_f_order() -> None:
    function = jf.fuse(lambda x: np.sin(x) * 2)
    x = _array((30, 20, 10), "F")
    assert function(x).flags.f_contiguous
    text = str(function.explain(x))
    assert text.count("float64 strides n n 1") == 2 and function.stats()["launches"] == 1


# ---------------------------------------------------------------- views and writes
def _written_through(steps: list[str]) -> Callable[[Any], Any]:
    """Return a function that makes an array, looks at it in another shape, and writes into the one or the other."""
    source = "def function(x):\n" + "".join(f"    {s}\n" for s in steps) + "    return y, z\n"
    space: dict[str, Any] = {"np": np}
    exec(source, space)
    function: Callable[[Any], Any] = space["function"]
    return function


MAKERS = (
    "x * 2", "x.T * 2", "x.transpose(1, 0, 2) + x.transpose(1, 0, 2)", "x.sum(1) + 0", "x.T.copy()", "np.copy(x.T)",
    "x.T.astype('f4')", "np.zeros_like(x.T)", "np.sort(x.T)", "x[:, [0, 0]]", "np.concatenate([x.T, x.T])",
    "x.T[::-1] * 1", "np.where(x.T > 0, x.T, 0)", "x.T.cumsum(0)", "x.T.max(axis=1, keepdims=True)",
    "np.take(x.T, [0, 0], 0)",
    "np.zeros(x.shape, order='F')", "np.stack([x.T, x.T], 1)", "x.T.round(1)", "(x @ np.ones((x.shape[-1], 3))).T",
)
LOOKS = (
    "y.reshape(-1)", "y.ravel()", "y.ravel('F')", "y.ravel('K')", "y.ravel('A')", "y.T.reshape(-1)",
    "y.reshape(y.shape[::-1])", "y.reshape(-1, order='F')", "y.reshape(-1, order='A')", "y.reshape(y.shape[0], -1)",
    "y.T.reshape(y.shape[-1], -1)",
    "np.ravel(y)", "y.flatten()", "np.asfortranarray(y)", "np.ascontiguousarray(y)", "np.asarray(y, order='F')",
    "y.swapaxes(0, -1).reshape(-1, 1)", "y[None].reshape(-1)", "y[..., ::2].reshape(-1)",
)


@pytest.mark.full
@pytest.mark.parametrize("maker", MAKERS)
def test_writes_reach_what_shares_memory_and_nothing_else(maker: str) -> None:
    for look, shape, layout in amount.covering(MAKERS, maker, LOOKS, SHAPES, ("C", "F", "permuted", "steps")):
        function = _written_through([f"y = {maker}", f"z = {look}", "z[...] += 1", "y[..., :1] *= 3", "z *= 2"])
        x, again = _array(shape, layout), _array(shape, layout)
        try:
            want = function(x)
        except ValueError:
            continue  # what has no elements has no shape with one open extent
        got = jf.fuse(function)(again)
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-12, err_msg=f"{maker}; {look}; {shape} {layout}")
            if _is_dense(w):
                assert _strides(g) == _strides(w), (maker, look, shape, layout)


def test_loops_and_reads_keep_the_order() -> None:
    def function(x: Any) -> Any:
        y = x.T * 2
        while y.sum() > 1:
            y = y * 0.5
        z = y.reshape(-1)
        z += 1
        return y, z

    x = np.abs(_array((2, 3, 4), "C"))
    fused = jf.fuse(function)
    for _ in range(3):
        for want, got in zip(function(x), fused(x), strict=True):
            np.testing.assert_allclose(got, want)
            assert got.strides == want.strides


# ---------------------------------------------------------------- parts of complex numbers
def _parts_written(z: Any) -> Any:
    w = z * 1
    w.real[...] = 7
    w.imag[1:] += w.real[:-1]
    w.real = w.real * 2
    v = w[::2].imag
    v *= -1
    w.real += 1
    return w, v, w.real.copy(), w.T.real.reshape(-1)


def _argument_written(z: Any) -> Any:
    z.real[:] = 0
    z.imag /= 2
    return z.real.sum()


def _read_before(z: Any) -> Any:
    r, kept = np.real(z), z.imag.copy()
    z[...] = 1 - 2j
    return r + 0, kept


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("function", [_parts_written, _argument_written, _read_before])
def test_parts_of_complex_numbers_are_views(function: Callable[[Any], Any], dtype: str) -> None:
    for shape, order in itertools.product(((3, 4), (0, 2), (5, 1)), "CF"):
        draw = np.random.default_rng(1)
        z = (draw.standard_normal(shape) + 1j * draw.standard_normal(shape)).astype(dtype, order=order)
        plain, fused = z.copy("K"), z.copy("K")
        want, got = function(plain), jf.fuse(function)(fused)
        np.testing.assert_array_equal(fused, plain)
        for w, g in zip(*((r if isinstance(r, tuple) else (r,)) for r in (want, got)), strict=True):
            np.testing.assert_array_equal(g, w)
            assert g.dtype == w.dtype


def test_parts_of_eager_arrays_are_views() -> None:
    z = jf.asarray(np.ones(3) + 2j)
    z.real[1:] = 5
    np.testing.assert_array_equal(np.asarray(z), [1 + 2j, 5 + 2j, 5 + 2j])


def test_real_arrays_have_no_imaginary_part_to_set() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y.imag = 1
        return y

    with pytest.raises(TypeError, match="imaginary part to set"):
        jf.fuse(function)(np.ones(3))


@pytest.mark.parametrize("index", [np.int64(1), np.array(1), np.array([1])])
def test_rows_at_a_traced_index(index: Any) -> None:
    def function(x: Any, i: Any) -> Any:
        y = x.transpose(0, 2, 1) * 1
        z = x.transpose(0, 2, 1).copy("K")
        a = z[i]
        b = a.reshape(-1)
        b += 1
        c = z.T[i].reshape(-1)
        c *= 2
        d = y[i].T.reshape(-1)  # NumPy's scalars give views, arrays of rank 0 copies
        d -= 1
        return y, z, a, b, c, d

    x = np.arange(24.0).reshape(2, 3, 4)
    fused = jf.fuse(function)
    for want, got in zip(function(x.copy(), index), fused(x.copy(), index), strict=True):
        np.testing.assert_array_equal(got, want)
        assert _strides(got) == _strides(want)


# ---------------------------------------------------------------- what is handed from one part to the next
def _written_before_a_look(x: Any) -> Any:
    y = x * 2
    m = y[y > 0] + 1
    z = y.T.reshape(-1)
    z += 1
    return y, m, z


def _axes_beside_a_look(x: Any) -> Any:
    y, w = x.T * 1, (x * 3).T[:, None]
    if y.sum() > -1e9:
        y = y + w[:, 0]
    return y, w + 0, y[y > 0], w.reshape(-1)


@pytest.mark.parametrize("function", [_written_before_a_look, _axes_beside_a_look])
def test_what_is_handed_on_at_graph_breaks_is_in_c_order(function: Callable[[Any], Any]) -> None:
    fused = jf.fuse(function)
    for order, shape in itertools.product("FC", ((3, 4), (5, 5), (1, 3), (0, 2))):
        x = np.array(np.random.default_rng(2).standard_normal(shape), order=order)  # type: ignore[call-overload]
        for _ in range(3):
            for want, got in zip(function(x), fused(x), strict=True):
                np.testing.assert_array_equal(got, want)


def test_ravel_of_repeated_rows_is_in_c_order() -> None:
    x = np.broadcast_to(np.arange(4.0), (2, 3, 4))
    for function in (lambda x: x.ravel("K") + 0, lambda x: x.flatten("K"), lambda x: x.transpose(2, 0, 1).ravel("K")):
        np.testing.assert_array_equal(jf.fuse(function)(x), function(x))


@pytest.mark.parametrize("make", [
    lambda x: np.array([x, x * 2]), lambda x: np.array([x]), lambda x: np.compress([True, False, True], x, 1),
    lambda x: np.repeat(x, [1, 2, 0], 1),
])
def test_writes_reach_new_arrays_in_c_order(make: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        y = make(x)
        flat = y.reshape(-1)
        flat += 1
        return y, flat

    x = _array((2, 3, 4), "F")
    for want, got in zip(function(x), jf.fuse(function)(x), strict=True):
        np.testing.assert_array_equal(got, want)
        assert _strides(got) == _strides(want)
