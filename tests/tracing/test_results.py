"""What comes back: trees, arguments themselves, views of them, scalars, constants."""
from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest

from jitfuse.errors import ArgumentError, UntraceableError
from jitfuse.tracing.results.returned import OutputLeaf, SameLeaf, ViewLeaf
from jitfuse.tracing.tracer import trace

Pair = collections.namedtuple("Pair", "left right")
SCALE = 3.0
WEIGHTS = {"w": np.arange(3.0), "lr": 0.5}


@dataclasses.dataclass
class State:
    """Fields out of alphabetical order."""

    velocity: object
    position: object


def test_trees(check):
    check(lambda x: {"b": x + 1, "a": [x * 2, (x[0], None)], "c": {}}, np.arange(3.0))
    check(lambda p: Pair(p.left * 2, [p.right]), Pair(np.ones(2), 3.0))
    check(lambda x: (), np.ones(2))
    check(lambda x: None, np.ones(2))
    check(lambda x, *rest, k=2, **named: [x * k, *rest, named["z"]], np.ones(2), 1.0, 2, z=np.zeros(1))


def test_dataclasses_are_flattened_in_field_order(replay):
    def fn(s):
        return State(velocity=s.velocity * 2, position=s.position + s.velocity)

    s = State(np.ones(2), np.arange(2.0))
    t = trace(fn, (s,), {})
    assert [leaf.path for leaf in t.result.leaves] == ["result.velocity", "result.position"]
    assert [t.program.feed_names[f] for f in sorted(t.program.feeds)] == ["args[0].velocity", "args[0].position"]
    result = replay(t, (s,))
    assert isinstance(result, State)
    np.testing.assert_array_equal(result.position, [1.0, 2.0])


def test_returned_arguments_are_the_objects_themselves(replay):
    x, n = np.arange(3.0), 5.0
    t = trace(lambda x, n: (x, {"n": n}, x), (x, n), {})
    assert t.result.leaves == (SameLeaf(0), SameLeaf(1), SameLeaf(0))
    a, b, c = replay(t, (x, n))
    assert a is x and c is x and b["n"] is n
    assert not t.program.steps and not t.program.feeds


def test_slices_transposes_and_reshapes_of_arguments_are_views(replay):
    x = np.arange(12.0).reshape(3, 4)
    t = trace(lambda x: (x[1:, ::-2], x[0], x[:, None], x[:], x.T, x[:, 1][::2], x.reshape(4, 3)), (x,), {})
    assert [type(leaf) for leaf in t.result.leaves] == [ViewLeaf] * 7
    results = replay(t, (x,))
    plain = (x[1:, ::-2], x[0], x[:, None], x[:], x.T, x[:, 1][::2], x.reshape(4, 3))
    for leaf, mine, numpys in zip(t.result.leaves, results, plain, strict=True):
        np.testing.assert_array_equal(mine, numpys)
        if isinstance(leaf, ViewLeaf):
            assert mine.strides == numpys.strides and np.shares_memory(mine, x)


def test_one_object_returned_twice_is_one_output():
    def fn(x):
        y = x + 1
        return y, y, y[:], x.copy()

    t = trace(fn, (np.ones(3),), {})
    assert t.result.leaves[0] is t.result.leaves[1]
    assert len(t.program.outputs) == 3


def test_python_scalars_stay_python_scalars(check):
    t = check(lambda x, a, n: (a + 1, n * 2, a > 0, 5, "text", None, np.float32(2), x[0] + a), np.ones(2), 1.5, 3)
    assert [leaf.kind for leaf in t.result.leaves if isinstance(leaf, OutputLeaf)] == ["python"] * 3 + ["scalar"]


def test_other_objects_are_refused():
    for bad in (lambda x: {1, 2}, lambda x: (v for v in x), lambda x: object()):
        with pytest.raises(ArgumentError, match=r"result is a \w+: a fused function returns"):
            trace(bad, (np.ones(2),), {})


def test_state_of_python_is_fed_and_guarded(check, replay):
    def fn(x):
        return x * SCALE + WEIGHTS["w"] * WEIGHTS["lr"]

    t = check(fn, np.ones(3))
    assert {t.program.feed_names[f] for f in t.program.feeds} == {
        "args[0]", "SCALE", "WEIGHTS['w']", "WEIGHTS['lr']"}
    WEIGHTS["lr"] = 2.0
    try:
        np.testing.assert_array_equal(replay(t, (np.ones(3),)), 3.0 + np.arange(3.0) * 2)
    finally:
        WEIGHTS["lr"] = 0.5


def test_structure_of_arguments_is_guarded():
    t = trace(lambda p: p["a"] + p["b"][0], ({"a": np.ones(2), "b": [np.ones(2)]},), {})
    same = ({"a": np.zeros(2), "b": [np.ones(2)]},)
    assert all(g.check(same) for g in t.guards)
    for other in ({"a": np.ones(2), "b": [np.ones(2)] * 2}, {"b": [np.ones(2)], "a": np.ones(2), "c": 0}, [1]):
        assert not all(g.check((other,)) for g in t.guards)


def test_static_arguments_are_compared_and_not_traced():
    def fn(x, axis, mode="a"):
        assert type(axis) is int
        return np.sum(x, axis) if mode == "a" else x

    t = trace(fn, (np.ones((2, 2)), 1), {"mode": "a"}, static_argnames=("axis", "mode"))
    call = (np.ones((2, 2)), 1), {"mode": "a"}
    assert all(g.check(*call) for g in t.guards) and not t.guarded_values
    assert not all(g.check((np.ones((2, 2)), 0), {"mode": "a"}) for g in t.guards)
    with pytest.raises(ArgumentError, match="static argument 'x' is an array"):
        trace(fn, (np.ones((2, 2)), 1), {}, static_argnames=("x",))


def test_traced_values_may_not_outlive_the_trace():
    kept = []
    with pytest.raises(UntraceableError, match="kept"):
        trace(lambda x: kept.append(x * 2), (np.ones(2),), {})
    assert kept == []


def test_an_unused_argument_is_no_feed_of_the_program():
    t = trace(lambda x, y: x + 1, (np.ones(2), np.ones(3)), {})
    assert t.program.feeds == {0} and set(t.feeds) == {0, 1}
    assert (t.feeds[1].kind, t.feeds[1].strides, t.positional, t.keywords) == ("array", (8,), 2, ())
