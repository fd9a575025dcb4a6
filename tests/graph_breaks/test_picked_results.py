"""Elements that a mask picks, as results: picked when a call ends, so that no count of them is another path."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from oracle import same

import jitfuse as jf

pytestmark = pytest.mark.usefixtures("natively")


def positive(x: Any) -> Any:
    return x[x > 0]


def computed(x: Any) -> Any:
    y = x[np.abs(x) < 1]
    return np.sqrt(np.abs(y)) * 2 - y


def several(x: Any) -> Any:
    return {"low": x[x < 0], "high": [x[x > 0], x[x > 1] + 1], "count": np.sum(x > 0)}


def written(x: Any) -> Any:
    y = x[x > 0]
    x[:1] = 9
    return y


def places(x: Any) -> Any:
    return np.nonzero(x > 0)


def by_places(x: Any) -> Any:
    (i,) = np.where(x > 0)
    return x[i] * 2, i + 1, np.round(x[i]).sum()


def set_by_places(x: Any) -> Any:
    i = np.flatnonzero(x > 0)
    y = x.copy()
    y[i] = 0
    y[np.flatnonzero(x < -1)] -= 1
    return y


def last_axis(x: Any) -> Any:
    z = np.stack([x, x + 1])
    (i,) = np.nonzero(x > 0)
    return z[:, x > 0], z[..., i], z[1:, i]


def rows(x: Any) -> Any:
    z = np.stack([x, x + 1], axis=1)
    return z[x > 0], z[z > 0], z.T[:, x > 0]


def extremes(x: Any) -> Any:
    z = np.stack([x, -x, np.abs(x) + 3])
    return z[:, z[2] < 100].max(axis=1), z[z > -100].max(), z[z > -100].min(), z.astype(np.int16)[z > 2].max()


def after_a_graph_break(x: Any) -> Any:
    return x[x > 0] if x.sum() > 0 else x[x < 0] * 2


FUNCTIONS = [positive, computed, several, written, places, by_places, set_by_places, last_axis, rows, extremes,
             after_a_graph_break]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", [1, 7, 255, 256, 1003])
def test_no_count_is_another_path(function: Callable[[Any], Any], size: int) -> None:
    rng, fused = np.random.default_rng(size), jf.fuse(function)
    for shift in (0.0, 0.5, -0.5, 3.0, -9.0, 9.0) * 3:
        x = rng.normal(size=size) + shift
        given, plain = x.copy(), x.copy()
        same(fused(given), function(plain))
        same(given, plain)
    counts = fused.stats()
    assert counts["fallbacks"] == 0 and counts["traces"] <= (2 if function is after_a_graph_break else 1)
    assert counts["splits"] == (function is after_a_graph_break)


DTYPES = ["bool", "int8", "uint16", "float16", "float32", "int64", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 8, 300, 4099])
def test_dtypes_and_masks_of_every_kind(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    fused = jf.fuse(lambda x, m: (x[m], (x + x)[m]))
    x = rng.integers(0, 9, size).astype(dtype)
    masks = [np.zeros(size, bool), np.ones(size, bool), rng.random(size) < 0.5, rng.random(size) < 0.01,
             np.arange(size) % 8 == 7, np.arange(size) < size // 2, np.arange(size) == size - 1]
    for m in masks * 2:
        same(fused(x, m), (x[m], (x + x)[m]))
    assert fused.stats()["traces"] == 1


def test_nan_infinities_and_zeros_keep_their_bits() -> None:
    x = np.tile([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324, 1.0], 100)
    for fused in (jf.fuse(lambda x: x[x != 1]), jf.fuse(lambda x: (x * 1)[x != 1])):
        for _ in range(3):
            assert fused(x).tobytes() == x[x != 1].tobytes()


def test_strided_arrays_and_masks() -> None:
    whole = np.arange(4096.0).reshape(64, 64)
    fused = jf.fuse(lambda x, m: x[m])
    mask = (np.arange(4096).reshape(64, 64) % 3 == 0)
    for x, m in [(whole, mask), (whole.T, mask), (whole, mask.T), (whole[::-1], mask[:, ::-1]), (whole.T, mask.T),
                 (whole[::2], mask[::2]), (np.broadcast_to(whole[0], (64, 64)), mask), (whole, mask[:, 0])] * 2:
        same(fused(x, m), x[m])


def test_masks_that_are_views_of_other_bytes() -> None:
    """NumPy takes any byte that is not zero for true."""
    x, fused = np.arange(1000.0), jf.fuse(lambda x, m: x[m])
    m = np.tile(np.array([0, 1, 2, 255, 128], np.uint8), 200).view(bool)
    for _ in range(3):
        same(fused(x, m), x[m.view(np.uint8) != 0])


def test_what_is_picked_is_fresh_memory() -> None:
    fused, x = jf.fuse(positive), np.arange(1.0, 2000.0)
    for _ in range(3):
        found = fused(x)
        assert found.flags.owndata and found.flags.writeable and found.base is None
        found[...] = 0
        assert x[0] == 1
    found.resize(3)
    assert found.shape == (3,)


def test_one_selection_twice_is_one_object() -> None:
    def twice(x: Any) -> Any:
        y = x[x > 0]
        return y, y

    fused = jf.fuse(twice)
    for _ in range(3):
        a, b = fused(np.array([1.0, -1.0, 2.0]))
        assert a is b


def test_what_is_put_into_objects_and_containers() -> None:
    @dataclass
    class Point:
        x: Any
        kept: Any

    class Model:
        kept: Any = None

    def fields(x: Any) -> Any:
        return Point(x[x > 0], x)

    def attribute(x: Any, model: Any) -> Any:
        model.kept = x[x > 0]
        return x[x < 0]

    fused, written = jf.fuse(fields), jf.fuse(attribute)
    for shift in (0.0, 1.0, -1.0) * 2:
        x = np.arange(-3.0, 3.0) + shift
        same(fused(x).x, x[x > 0])
        model = Model()
        same(written(x, model), x[x < 0])
        same(model.kept, x[x > 0])


def test_none_are_picked_for_the_largest() -> None:
    for name in ("max", "min"):
        def function(x: Any, name: str = name) -> Any:
            return getattr(x[x > 0], name)()

        fused = jf.fuse(function)
        for x in (np.ones(3), -np.ones(3), np.arange(3.0)) * 2:
            if (x > 0).any():
                same(fused(x), function(x))
                continue
            with pytest.raises(ValueError) as expected:
                function(x)
            with pytest.raises(ValueError) as raised:
                fused(x)
            assert str(expected.value) in str(raised.value)


def test_a_loop_over_picked_elements_is_detected() -> None:
    """What is picked in a loop is held by nobody after it, so that its state comes again."""
    def shrinks(x: Any) -> Any:
        m, k = x > 0, 0
        while np.abs(x[m]).max() > 1e-3 and k < 1000:
            x = x * 0.5
            k += 1
        return x[m], k

    fused = jf.fuse(shrinks)
    for k in range(6):
        x = np.random.default_rng(k).normal(size=50) * 3**k
        same(fused(x), shrinks(x))
    assert fused.stats()["traces"] <= 2


def test_places_that_a_loop_uses_are_found_once() -> None:
    def smoothed(x: Any) -> Any:
        (i,) = np.nonzero(x > 0)
        for _ in range(20):
            x[i] = x[i] * 0.5
        return x

    fused = jf.fuse(smoothed)
    for _ in range(3):
        x = np.arange(-5.0, 5.0)
        same(fused(x.copy()), smoothed(x.copy()))
    assert fused.stats()["splits"] == 1 and fused.stats()["fallbacks"] == 0


def test_modes_pick_each_their_own() -> None:
    def function(x: Any, training: bool = False) -> Any:
        return x[x > 0] * 2 if training else x[x > 1]

    fused = jf.fuse(function)
    x = np.arange(-3.0, 5.0)
    for training in (True, False, True):
        same(fused(x, training=training), function(x, training=training))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    fused = jf.fuse(lambda x: (x[x > 0], torch.sqrt(x[x > 0])))
    for shift in (0.0, 1.0, -5.0):
        x = torch.arange(6.0) - 3 + shift
        for a, b in zip(fused(x), (x[x > 0], torch.sqrt(x[x > 0])), strict=True):
            assert isinstance(a, torch.Tensor) and torch.equal(a, b)


def test_strict_functions_and_programs_refuse_as_before() -> None:
    with pytest.raises(jf.JitfuseError, match="shape that depends on data"):
        jf.fuse(positive, strict=True)(np.ones(3))
    with pytest.raises(jf.JitfuseError, match="shape that depends on data"):
        jf.fuse(positive).program(np.ones(3))


# ---------------------------------------------------------------- what reviews found
def first_picked_in_a_branch(y: Any, m: Any) -> Any:
    i = np.nonzero(m)[0]
    n = len(i)
    s, q, t = y[m] * 2, y[m] + 1, 0.0
    for k in range(10):
        t = t + len(s) + q[0] * n if y[k] > 3 else t
    return s, q, t


def picked_in_a_branch_that_is_not_taken(y: Any, m: Any) -> Any:
    n, k = len(y[m]), 0
    while y.any() and k < 5:
        k += 1
    s = y[m]
    t = n if m.any() else len(s)
    return s, t


def written_in_a_branch(y: Any, m: Any) -> Any:
    s, n = y[m], len(y[m])
    for k in range(10):
        if y[k] > 3:
            s[0] = y[k] + n
    return s


@pytest.mark.parametrize(
    "function", [first_picked_in_a_branch, picked_in_a_branch_that_is_not_taken, written_in_a_branch]
)
def test_branches_and_selections_of_before(function: Callable[..., Any]) -> None:
    """What is picked for the first time where a branch goes both ways is picked for all that comes later too."""
    fused = jf.fuse(function)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y, m = rng.integers(-5, 6, 10) * 1.0, rng.random(10) < 0.7
        m[0] = True
        same(fused(y.copy(), m), function(y.copy(), m))


def test_errors_of_extremes_are_caught() -> None:
    def largest(x: Any) -> Any:
        try:
            return x[x > 0].max()
        except ValueError:
            return -1.0

    def of_empty_rows(x: Any, m: Any) -> Any:
        return x[:, m].max(axis=1), x[:, m].T.min(axis=0)

    fused = jf.fuse(largest)
    for x in (np.ones(3), -np.ones(3), np.arange(3.0)) * 3:
        same(fused(x), largest(x))
    empty = jf.fuse(of_empty_rows)
    same(empty(np.zeros((0, 3)), np.array([True, False, True])), (np.zeros(0), np.zeros(0)))
    with pytest.raises(ValueError, match="zero-size array"):
        empty(np.zeros((0, 3)), np.zeros(3, bool))


def test_numbers_of_places_of_rank_0_are_arrays() -> None:
    fused = jf.fuse(lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True))
    for _ in range(3):
        same(fused(np.array(3.0)), np.unique(np.array(3.0), True, True, True))


def test_what_is_picked_from_a_transpose_lies_as_in_numpy() -> None:
    x = np.arange(120.0).reshape(4, 5, 6)
    m = np.array([True, False, True, True, False])
    for function in (lambda x, m: x.T[:, np.nonzero(m)[0]], lambda x, m: x.T[:, m], lambda x, m: (x.T + 1)[:, m] * 2,
                     lambda x, m: x.swapaxes(0, 1)[m], lambda x, m: x[:, m], lambda x, m: x.T[:, m].copy()):
        fused = jf.fuse(function)
        for _ in range(3):
            found, expected = fused(x, m), function(x, m)
            same(found, expected)
            assert found.strides == expected.strides


def test_array_api_functions_of_numpy() -> None:
    x = np.array([3.0, np.nan, 1.0, 3.0, np.nan])
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        fused = jf.fuse(lambda x, name=name: getattr(np, name)(x))
        for _ in range(3):
            found, expected = fused(x), getattr(np, name)(x)
            assert type(found) is type(expected)
            if name == "unique_values":  # in no order
                found, expected = np.sort(found), np.sort(expected)
            same(found, expected)
