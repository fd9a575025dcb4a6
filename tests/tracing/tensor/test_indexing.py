"""Indexing, views, assignment and write-back: the same as NumPy's, element for element and alias for alias."""
from __future__ import annotations

import numpy as np
import pytest
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.errors import OverlapError, UnsupportedError
from jitfuse.tracing.tracer import trace

SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def indices(draw, shape):
    """Draw a basic index that fits a shape."""
    items = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        bound = st.none() | st.integers(-extent - 1, extent + 1)
        spans = st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -2, 3]))
        items.append(draw(spans | st.integers(-extent, extent - 1) if extent else spans))
    for _ in range(draw(st.integers(0, 1))):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()) and len(items) == len([i for i in items if i is None]) + len(shape):
        items.insert(draw(st.integers(0, len(items))), ...)
    elif draw(st.booleans()):
        items.append(...)
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@settings(max_examples=drawn(150), deadline=None)
@given(data=st.data())
def test_reading(check, data):
    shape = data.draw(SHAPES)
    index = data.draw(indices(shape))
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    check(lambda x: x[index] * 2, x)
    check(lambda x: x[index], x)


@settings(max_examples=drawn(150), deadline=None)
@given(data=st.data())
def test_assignment(check, data):
    shape = data.draw(SHAPES)
    index = data.draw(indices(shape))
    dtype = data.draw(st.sampled_from(["float64", "float32", "int32", "bool"]))
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    target = x[index].shape
    value = np.full(tuple(n if data.draw(st.booleans()) else 1 for n in target), 2.5)

    def fn(x, v):
        y = x.copy()
        y[index] = v
        x[index] = v
        return y

    check(fn, x, value)
    check(fn, x, 7)


VIEWS = [
    lambda x: x[1:], lambda x: x[::-1], lambda x: x.T, lambda x: x[:, ::2], lambda x: x[0], lambda x: x[..., None],
    lambda x: x.reshape(-1), lambda x: x.ravel(), lambda x: x.T.reshape(-1), lambda x: x.T.ravel(), lambda x: x[1],
    lambda x: x.swapaxes(0, 1)[1:], lambda x: np.transpose(x)[::-1], lambda x: x.reshape(x.shape[::-1]),
    lambda x: x[:, 1], lambda x: x.copy(), lambda x: x.flatten(), lambda x: np.expand_dims(x, 0), lambda x: x[None, 1:],
    lambda x: np.flip(x, 1), lambda x: np.squeeze(x[:, :1]), lambda x: x[:2].reshape(2, 1, -1),
    lambda x: np.asarray(x), lambda x: np.moveaxis(x, 0, -1)[0],
]


@settings(max_examples=drawn(200), deadline=None)
@given(data=st.data())
def test_views_and_bases_see_each_others_writes(check, data):
    draw = data.draw
    views = draw(st.lists(st.sampled_from(VIEWS), min_size=1, max_size=3))
    writes = draw(st.lists(st.integers(0, len(views)), min_size=1, max_size=4))
    inplace = draw(st.booleans())

    def fn(x):
        y = x * 1.0
        arrays = [y]
        for view in views:
            base = arrays[-1]
            arrays.append(view(base) if base.ndim == 2 and min(base.shape) > 1 else base[::2])
        for k, target in enumerate(writes):
            if inplace:
                arrays[target] += k + 1
            else:
                arrays[target][...] = arrays[(target + 1) % len(arrays)].sum() + k
            arrays[target][-1:] = -k
        return [a * 1 for a in arrays]

    check(fn, np.arange(16.0).reshape(4, 4))


def test_augmented_assignment_to_items_and_slices(check):
    def fn(x, v):
        y = np.zeros(5)
        y[1:3] += v
        y[::2] *= 3
        y[0] -= 1
        y[y < 0] = 9
        z = y
        z += 1
        x[1:] = x[:-1]
        x[0] += v
        x /= 2
        return y, z, y[1:3]

    t = check(fn, np.arange(4.0), 2.0)
    assert set(t.program.writes) == {0}


def test_scalars_of_rank_zero_are_immutable(check):
    def fn(x):
        a = x.sum()
        b = a
        a += 1
        c = x[0]
        d = c
        c *= 2
        n = np.array(1.0)
        m = n
        n += 1
        return a, b, c, d, n + 0, m + 0

    check(fn, np.arange(3.0))


def test_out_writes_into_the_array(check):
    def fn(x, y):
        out = np.empty(3)
        result = np.add(x, y, out=out)
        np.multiply(x, 2, out=x[:3])
        np.sum(x.reshape(1, 3), axis=0, out=y)
        return out, result, np.clip(x, 0, 1, out=out)

    check(fn, np.arange(3.0), np.ones(3))


def test_in_place_casts_only_within_the_kind(check):
    x = np.arange(3)
    with pytest.raises(TypeError, match="same_kind"):
        trace(lambda x: x.__iadd__(0.5), (x,), {})
    with pytest.raises(TypeError, match="same_kind"):
        trace(lambda x: np.add(x, 1.5, out=x), (x,), {})
    check(lambda x: x.__iadd__(np.float64(0.1)), np.arange(3, dtype="float32"))
    with pytest.raises(ValueError, match="does not fit"):
        trace(lambda x: x.__iadd__(np.ones((2, 3))), (np.ones(3),), {})


def test_masked_assignment(check):
    m = np.array([[True, False, True], [False, False, True]])

    def fn(x, m):
        x[x > 3] = 0
        x[m] = -1.5
        x[m[:, 0]] = np.arange(3.0)
        x[1:][m[1:]] = 7
        return x

    check(fn, np.arange(6.0).reshape(2, 3), m)
    check(fn, np.arange(6, dtype="int32").reshape(2, 3), m)
    with pytest.raises(ValueError, match=r"np\.where"):
        trace(lambda x, m: x.__setitem__(m, x), (np.ones((2, 3)), m), {})


@pytest.mark.parametrize(("use", "error", "way_out"), [
    (lambda x: x[x > 0], UnsupportedError, r"np\.where"),
    (lambda x: x[[0, 3]], IndexError, "index 3 is out of bounds for axis 0 with size 3"),
    (lambda x: x[[0.5]], IndexError, "must be of integer"),
    (lambda x: x[3], IndexError, "out of bounds for axis 0 with size 3"),
    (lambda x: x[0, 0], IndexError, "too many indices"),
    (lambda x: x["a"], IndexError, "only integers"),
    (lambda x: x[1.0], IndexError, "only integers"),
    (lambda x: x[..., ...], IndexError, "single ellipsis"),
    (lambda x: x.__setitem__(slice(0, 2), np.ones(3)), ValueError, "could not broadcast"),
])
def test_bad_indices_say_where_and_what(use, error, way_out):
    with pytest.raises(error, match=way_out) as caught:
        trace(use, (np.arange(3.0),), {})
    assert "test_indexing.py:" in str(caught.value)


def test_writes_reach_argument_arrays_in_containers(check):
    def fn(state, k):
        state["w"][1:] += k
        state["b"][0] *= 2
        return None

    t = check(fn, {"w": np.arange(4.0), "b": [np.ones(2), np.zeros(2)][0]}, 3.0)
    assert [t.program.feed_names[f] for f in t.program.writes] == ["args[0]['w']", "args[0]['b']"]


def test_strided_arguments(check):
    base = np.arange(24.0).reshape(4, 6)
    for x in (base[::2, ::-1], base.T, base[:, 1], base[::-1]):
        check(lambda x: (x.reshape(-1) * 2, x.ravel()[0], x[1:]), x)
        check(lambda x: x.__setitem__(0, 5), x)


def test_one_array_passed_twice_is_one_array(check):
    def fn(x, y):
        x[0] = 5
        return y * 2

    x = np.arange(3.0)
    t = trace(fn, (x, x), {})
    assert len(t.program.feeds) == 1 and t.program.writes
    assert [(str(chain), feed) for chain, feed in t.aliases] == [("args[1]", 0)]
    assert not any(g.expected is x for g in t.guards)


def test_overlap_with_a_written_argument_is_refused():
    x = np.arange(5.0)
    with pytest.raises(OverlapError, match=r"args\[0\] is written and shares memory with args\[1\]"):
        trace(lambda x, y: x.__iadd__(y), (x[1:], x[:-1]), {})
    trace(lambda x, y: x + y, (x[1:], x[:-1]), {})
    with pytest.raises(OverlapError):
        trace(lambda x: x.__iadd__(1), (np.lib.stride_tricks.as_strided(x, (3, 3), (0, 8)),), {})


def test_read_only_arrays_refuse_writes():
    x = np.arange(3.0)
    x.flags.writeable = False
    for fn in (lambda x: x.__setitem__(0, 1), lambda x: x.__iadd__(1), lambda x: x[1:].fill(0)):
        with pytest.raises(ValueError, match="read-only"):
            trace(fn, (x,), {})
    with pytest.raises(ValueError, match="read-only"):
        trace(lambda x: np.broadcast_to(x, (2, 3)).__setitem__(0, 1), (np.ones(3),), {})


def test_ranges_index_as_lists_do():

    def fn(x):
        y = x * 2
        y[range(1, 3)] = 7
        return y[range(2)], y[:, range(0, 3, 2)], y[[0, 1], range(2)], y[range(0)], x[np.ix_(range(2), [1, 2])]

    x = np.arange(9.0).reshape(3, 3)
    for found, expected in zip(jf.fuse(fn)(x), fn(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_shapes_are_set_in_place():

    def fn(x):
        y = x * 2
        row, y.shape = y[1], 6
        row[0] = 9
        y.shape = (3, -1)
        y[0] += row[:2]
        return y, row, y.shape, len(y)

    def copies(x):
        y = (x * 2).T
        y.shape = 6
        return y

    def arguments(x):
        x.shape = 6
        return x + 1

    x = np.arange(6.0).reshape(2, 3)
    for found, expected in zip(jf.fuse(fn)(x), fn(x), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(AttributeError, match="in-place modification"):
        jf.fuse(copies)(x)
    with pytest.warns(jf.FallbackWarning, match=r"x\.reshape"):
        np.testing.assert_array_equal(jf.fuse(arguments)(x), np.arange(1.0, 7.0))
    assert x.shape == (6,)


def test_windows_of_windows(check):
    def fn(x):
        y = x
        for _ in range(60):
            y = y[:, 1:-1][::-1]
        z = y[None, 1]
        z += 1
        return y.reshape(-1), y.T.ravel(), y[1], (y * 2).T, y.T * 2 + y.T, x.sum()

    check(fn, np.arange(130 * 4.0).reshape(4, 130))
    check(fn, np.arange(130 * 4.0).reshape(130, 4).T)


def test_parts_that_are_put_back_are_written_once(check):
    def fn(x, v):
        x[1] -= v
        x[1:3, ::2] *= 2
        x[..., None][2] += 1
        x[None, 0] /= 4
        x[0] = x[0]
        return x.sum()

    t = check(fn, np.arange(12.0).reshape(4, 3), np.ones(3))
    assert sum(s.op_name == "update_slice" for s in t.program.steps) == 4


def test_parts_are_moved(check):
    def fn(x):
        x[1:3] = x[2:4]
        x[:, 0] = x[:, 1]
        x[0] = x[:1]
        x[2:, None] = x[None, :2].reshape(2, 1, 3)
        x[3, 1:] = x[0:1, :2]

    check(fn, np.arange(12.0).reshape(4, 3))


def test_an_index_that_is_used_again_is_read_anew_where_it_may_have_changed(check):
    def fn(x):
        n = np.zeros((), "int64")
        n += 1
        part = slice(n, None)
        first = x[part].sum()
        n += 1
        x[part] = first
        part = 1, slice(0, 2)
        x[part] += x[1][part[1]]
        x[:, 1:][part] -= 4.0
        return x[part]

    check(fn, np.arange(12.0).reshape(4, 3))


def test_parts_of_arrays_in_c_order_give_results_in_c_order():
    def fn(x, y):
        part = x[1:, ::-1][None, ::2]
        inner = part[0][:, 1:]
        joined = np.concatenate([inner, inner])
        return part * 2, inner + inner.T[:1, :1], y[1:] * 2, joined, inner[1:].copy("K"), y[:1].T + 1

    x = np.arange(30.0).reshape(6, 5)
    expected = fn(x, np.asfortranarray(x))
    for found, wanted in zip(jf.fuse(fn)(x, np.asfortranarray(x)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.strides == wanted.strides
