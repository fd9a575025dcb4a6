"""The training flag: two runs merge into one program; operators that look at the mode need no second run."""
from __future__ import annotations

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import nn, random
from jitfuse.errors import ArgumentError, VolatileError
from jitfuse.ir.semantics import reference
from jitfuse.tracing.record.mode import EagerMode, is_training
from jitfuse.tracing.tracer import trace

X = np.arange(1.0, 5.0)


def both(fn, replay, assert_same, *args):
    """Trace once and compare the program with the plain function in both modes."""
    t = trace(fn, args, {}, declares_training=True)
    for training in (False, True):
        plain = [a.copy() for a in args]
        mine = tuple(a.copy() for a in args)
        expected = fn(*plain, training=training)
        assert_same(replay(t, mine, training=training), expected)
        assert_same(list(mine), plain)
    return t


def test_a_branch_on_training_merges(replay, assert_same, op_names):
    def fn(x, training):
        h = np.exp(x)
        if training:
            h = h * 2
        return np.log(h + 1), x

    t = both(fn, replay, assert_same, X)
    assert op_names(t).count("exp") == 1 and op_names(t).count("mode_select") == 1
    assert t.mode_sensitive


def test_a_flag_that_nobody_reads_costs_nothing(op_names):
    t = trace(lambda x, training: x * 2, (X,), {}, declares_training=True)
    assert not t.mode_sensitive and op_names(t) == ["full", "multiply"]


def test_equal_steps_are_shared_one_for_one(replay, assert_same, op_names):
    def fn(x, training):
        a, b = np.sin(x), np.sin(x)
        return a + b if training else a * b

    t = both(fn, replay, assert_same, X)
    assert op_names(t).count("sin") == 2


def test_zeros_of_both_signs_are_not_shared(replay, assert_same):
    def fn(x, training):
        y = np.full(4, 0.0) if training else np.full(4, -0.0)
        return 1.0 / (x * 0 + y)

    with np.errstate(divide="ignore"):
        both(fn, replay, assert_same, X)


def test_writes_merge(replay, assert_same):
    def fn(x, y, training):
        if training:
            x[1:] += 1
        else:
            y *= 2
        return x[0]

    t = both(fn, replay, assert_same, X, X + 1)
    assert set(t.program.writes) == {0, 1}


def test_arguments_and_views_of_them_merge(replay, assert_same):
    both(lambda x, y, training: (x, x[1:], x[:2] if training else y[:2]), replay, assert_same, X, X + 1)
    both(lambda x, training: {"n": 1.5 if training else 2.0, "m": 3}, replay, assert_same, X)


@pytest.mark.parametrize("fn", [
    lambda x, training: x + 1 if training else None, lambda x, training: x + 1 if training else (x + 1,),
    lambda x, training: x + 1 if training else x[1:] + 1, lambda x, training: x + 1 if training else x > 1,
    lambda x, training: "a" if training else "b", lambda x, training: np.sum(x) if training else 0.0,
])
def test_results_must_be_one_tree(fn):
    with pytest.raises(ArgumentError, match=r"training returns .* evaluation returns "):
        trace(fn, (X,), {}, declares_training=True)


def test_an_error_says_in_which_mode_it_arose():
    def fn(x, training):
        return x + np.ones(3) if training else x

    with pytest.raises(ValueError) as caught:
        trace(fn, (X,), {}, declares_training=True)
    assert any("training=True" in note for note in caught.value.__notes__)


def test_is_training_inside_and_outside(op_names):
    def helper(x):
        return x * 2 if is_training() else x * 3

    t = trace(helper, (X,), {})
    assert t.mode_sensitive and "mode_select" in op_names(t)
    assert is_training() is False
    with EagerMode(True):
        assert is_training() is True


def test_the_flag_passes_for_a_bool(op_names):
    def fn(x, training):
        return x * (2 if isinstance(training, bool) and training == True else int(training))  # noqa: E712

    assert "mode_select" in op_names(trace(fn, (X,), {}, declares_training=True))


def test_identity_with_true_and_false(op_names):
    for fn in (lambda x, training: x * 2 if training is True else x * 3,
               lambda x, training: x * 2 if training is not False else x * 3):
        assert "mode_select" in op_names(trace(fn, (X,), {}, declares_training=True))


def test_a_trace_leaves_nothing_in_python_and_a_call_what_its_own_mode_does():
    last = None

    def fn(x, training):
        nonlocal last
        last = bool(training)
        return x

    trace(fn, (X,), {}, declares_training=True, training=False)
    assert last is None
    fused = jf.fuse(fn)
    for training in (False, True, False):
        fused(X, training=training)
        assert last is training


def test_state_that_the_function_reads_and_changes_is_left_alone():
    seen, names = [], {"a", "b"}

    def appends(x):
        seen.append(len(seen))
        return x

    def removes(x):
        names.discard("a")
        return x * len(names)

    for fn in (appends, removes):
        with pytest.raises(VolatileError, match="no call can do without Python"):
            trace(fn, (X,), {})
    assert seen == [] and names == {"a", "b"}


def test_the_program_does_not_depend_on_the_calls_mode():
    def fn(x, training):
        return np.sin(x) if training else np.cos(x)

    programs = [trace(fn, (X,), {}, declares_training=True, training=m).program for m in (False, True)]
    assert programs[0] == programs[1]


def test_dropout_needs_no_second_run(replay, op_names):
    t = trace(lambda x: nn.dropout(x, 0.5) + nn.dropout(x, 0.25), (X,), {})
    assert op_names(t).count("dropout") == 2 and "mode_select" not in op_names(t)
    assert t.mode_sensitive
    np.testing.assert_array_equal(replay(t, (X,)), X + X)
    state = np.array([7, 0])
    first = reference.dropout(X, state, 0, p=0.5, training=True)
    second = reference.dropout(X, state, 1, p=0.25, training=True)
    np.testing.assert_array_equal(replay(t, (X,), training=True), first + second)
    (feed,) = t.program.state_in
    assert t.program.is_random_state(feed) and set(t.program.state_out) == {feed}


def test_call_indices_count_in_trace_order_in_each_run(replay):
    def fn(x, training):
        u = random.uniform(4)
        v = random.uniform(4, 1.0, 3.0, "float32") if training else random.uniform(4, 2.0, 4.0, "float32")
        return u, v

    t = trace(fn, (X,), {}, declares_training=True)
    state = np.array([7, 0])
    u, v = replay(t, (X,), training=True)
    np.testing.assert_array_equal(u, reference.random_uniform(state, 0, shape=(4,), dtype="float64"))
    drawn = reference.random_uniform(state, 1, shape=(4,), dtype="float32")
    np.testing.assert_array_equal(v, drawn * np.float32(2) + np.float32(1))
    indices = [s.attr("value") for s in t.program.steps if s.op_name == "full" and s.attr("dtype") == "int64"]
    assert sorted(indices) == [0, 1]


def test_an_explicit_flag_of_dropout_wins(op_names):
    assert "dropout" not in op_names(trace(lambda x: nn.dropout(x, 0.5, training=False) + 1, (X,), {}))
    assert "random_uniform" in op_names(trace(lambda x: nn.dropout(x, 0.5, training=True), (X,), {}))


def test_random_numbers_outside_a_trace():
    random.seed(3)
    a, b = random.uniform(5), random.uniform(5)
    random.seed(3)
    np.testing.assert_array_equal(random.uniform(5), a)
    assert (a != b).any() and random.state()[1] == 1
    random.seed(2**64 - 1)
    assert random.state()[0] == -1
    assert nn.dropout(X, 0.5) is X
    with EagerMode(True):
        assert set(nn.dropout(np.ones(100), 0.5)) == {0.0, 2.0}
    with pytest.raises(ArgumentError, match=r"\[0, 1\)"):
        nn.dropout(X, 1.0)
