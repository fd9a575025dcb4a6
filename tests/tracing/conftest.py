"""Runs a traced program step by step in plain NumPy and compares it with the function itself."""
from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import EXACT, same

from jitfuse.compile.run.delivery import window
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.operators import ops
from jitfuse.ir.program import RANDOM_STATE, FusedProgram
from jitfuse.tracing.control.replicated_iteration import ReplicatedIteration
from jitfuse.tracing.control.vectorise import vectorised_loop
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.results.returned import ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf
from jitfuse.tracing.trace import Trace
from jitfuse.tracing.tracer import trace

STATE = np.array([7, 0], "int64")


def evaluate(program: FusedProgram, feeds: dict[int, Any], training: bool = False) -> dict[int, Any]:
    """Return the value of every id."""
    values = dict(feeds)
    for step in program.steps:
        op = ops.get(step.op_name)
        assert op is not None
        attrs = step.attr_dict | ({"training": training} if step.mode_sensitive else {})
        with np.errstate(all="ignore"):
            value = op.numpy(*[values[i] for i in step.input_ids], **attrs)
        meta = program.meta[step.result_id]
        assert np.shape(value) == meta.shape, (step, np.shape(value), meta)
        assert np.asarray(value).dtype == meta.dtype, (step, np.asarray(value).dtype, meta)
        values[step.result_id] = np.asarray(value).item() if meta.weak else value
    return values


def replay(t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, training: bool = False) -> Any:
    """Do what the compiled function does: read feeds, run, write back, build the result."""
    verify(t.program)
    kwargs = kwargs or {}
    bound = {
        f: STATE if s.source == RANDOM_STATE else s.source.resolve(args, kwargs) for f, s in t.feeds.items()
    }
    values = evaluate(t.program, {f: copy.copy(bound[f]) for f in t.program.feeds}, training)
    for feed, new in t.program.writes.items():
        bound[feed][...] = values[new]
    leaves = []
    for leaf in t.result.leaves:
        if isinstance(leaf, OutputLeaf):
            value = values[t.program.outputs[leaf.path]]
            kinds = {"array": np.array, "scalar": lambda v: np.asarray(v)[()], "python": lambda v: np.asarray(v).item()}
            leaves.append(kinds[leaf.kind](value))
        elif isinstance(leaf, SameLeaf):
            leaves.append(bound[leaf.feed])
        elif isinstance(leaf, ViewLeaf):
            base = bound[leaf.feed]
            leaves.append(window(base, leaf))
        else:
            assert isinstance(leaf, ConstantLeaf)
            leaves.append(leaf.value)
    return t.result.rebuild(leaves)


def assert_same(actual: Any, expected: Any, path: str = "result") -> None:
    """Compare values to the bit, and their types; a fused function returns scalars for arrays of rank 0."""
    same(actual, as_scalars(expected, actual), EXACT, path)


def as_scalars(expected: Any, actual: Any) -> Any:
    """Return what is expected, with scalars for arrays of rank 0 where there are scalars."""
    if isinstance(expected, np.ndarray) and not expected.ndim and not isinstance(actual, np.ndarray):
        return expected[()]
    if type(expected) in (list, tuple) and type(actual) is type(expected):
        return type(expected)(as_scalars(e, a) for e, a in itertools.zip_longest(expected, actual))
    if type(expected) is dict and type(actual) is dict:
        return {key: as_scalars(e, actual.get(key)) for key, e in expected.items()}
    return expected


def check(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Trace:
    """Trace a function and compare the replayed program with a plain call: results and written arguments."""
    plain_args, plain_kwargs = copy.deepcopy((args, kwargs))
    traced_args, traced_kwargs = copy.deepcopy((args, kwargs))
    with np.errstate(all="ignore"):
        expected = fn(*plain_args, **plain_kwargs)
    t = trace(fn, traced_args, traced_kwargs)
    for guard in t.guards:
        assert guard.check(traced_args, traced_kwargs), guard
    actual = replay(t, traced_args, traced_kwargs)
    assert_same(actual, expected)
    assert_same(traced_args, plain_args, "args")
    assert_same(traced_kwargs, plain_kwargs, "kwargs")
    return t


def op_names(t: Trace) -> list[str]:
    """Return the operators of a traced program in order."""
    return [s.op_name for s in t.program.steps]


@pytest.fixture(scope="session", name="check")
def _check() -> Callable[..., Trace]:
    return check


@pytest.fixture(scope="session", name="replay")
def _replay() -> Callable[..., Any]:
    return replay


@pytest.fixture(scope="session", name="assert_same")
def _assert_same() -> Callable[..., None]:
    return assert_same


@pytest.fixture(scope="session", name="op_names")
def _op_names() -> Callable[[Trace], list[str]]:
    return op_names


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, in_order: None) -> Iterator[list[int]]:
    """How many rounds have been copied, loop by loop; none is spread that otherwise would be."""
    found: list[int] = []
    copy = ReplicatedIteration.copy

    def counted(self: ReplicatedIteration, run: Recorder, count: int, *rest: Any) -> bool:
        done = copy(self, run, count, *rest)
        found.append(count if done else 0)
        return done

    monkeypatch.setattr(ReplicatedIteration, "copy", counted)
    yield found


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether loops have been spread that were tried, in order."""
    found: list[bool] = []
    original = vectorised_loop.vectorise

    def noted(*args: Any) -> Any:
        made = original(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr("jitfuse.tracing.control.loop_capture.vectorised_loop.vectorise", noted)
    yield found
