"""Calls whose kernels cannot be built run in the interpreter: same results, counted, said once."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.compile import pipeline


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Break the making of kernels; in an empty cache, which has none of another test's."""
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "kernels"))

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise jf.CompileError("no code today")

    monkeypatch.setattr(pipeline, "kernels_for", refuse)


@pytest.mark.usefixtures("broken")
def test_results_counts_and_one_warning() -> None:
    @jf.fuse
    def f(x: Any, y: Any, s: float) -> Any:
        y[1:] = x[:-1] * s
        return {"sum": np.sum(x), "rows": [x + y, x, y[2:5]], "none": None}

    x, y = np.arange(8.0), np.ones(8)
    want_y = np.ones(8)
    want_y[1:] = x[:-1] * 2.0
    with pytest.warns(jf.FallbackWarning, match=r"no code today \[JF301\]"):
        got = f(x, y, 2.0)
    np.testing.assert_array_equal(y, want_y)
    assert got["sum"] == np.sum(x) and type(got["sum"]) is np.float64 and got["none"] is None
    np.testing.assert_array_equal(got["rows"][0], x + want_y)
    assert got["rows"][1] is x
    assert np.shares_memory(got["rows"][2], y)
    np.testing.assert_array_equal(got["rows"][2], want_y[2:5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, y, 3.0)
    assert f.stats()["fallbacks"] == 2


@pytest.mark.usefixtures("broken")
def test_views_of_reversed_and_transposed_arguments() -> None:
    f = jf.fuse(lambda x: (x[1:, ::2], x + 1))
    whole = np.arange(40.0).reshape(4, 10)
    for x in (whole[::-1], whole.T, whole[:, ::-2]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            view, fresh = f(x)
        np.testing.assert_array_equal(view, x[1:, ::2])
        assert np.shares_memory(view, x)
        np.testing.assert_array_equal(fresh, x + 1)


@pytest.mark.usefixtures("broken")
def test_strict_raises() -> None:
    with pytest.raises(jf.CompileError, match="no code today"):
        jf.fuse(lambda x: x + 1, strict=True)(np.ones(3))


@pytest.mark.usefixtures("broken")
def test_random_state_moves_on() -> None:
    f = jf.fuse(lambda x: jf.nn.dropout(x, 0.5))
    jf.random.seed(3)
    before = jf.random.state().copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = f(np.ones(64), training=True), f(np.ones(64), training=True)
    assert (jf.random.state() - before).tolist() == [0, 2]
    assert not np.array_equal(first, second)


@pytest.mark.usefixtures("broken")
def test_a_copy_of_an_argument_has_memory_of_its_own() -> None:
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    with pytest.warns(jf.FallbackWarning):
        _, *copies = jf.fuse(lambda x: (x * 2, x.copy(), np.copy(x), x[:].copy("F")), cache=False)(x)
    for made, want in zip(copies, (x.copy(), np.copy(x), x.copy("F")), strict=True):
        np.testing.assert_array_equal(made, want)
        assert made.strides == want.strides and not np.shares_memory(made, x)


def test_numbers_that_are_returned_are_interpreted() -> None:
    """A Python number among the arguments that is a result is no array to be copied."""
    from jitfuse.compile.run.interpreting import interpret
    from jitfuse.tracing.tracer import trace_call

    trace = trace_call(lambda x, n: (x + n, n), (np.ones(3), 2), {}, None)
    made = interpret(trace, False, (np.ones(3), 2), {}, {}).to((np.ones(3), 2), {})
    np.testing.assert_array_equal(made[0], np.full(3, 3.0))
    assert made[1] == 2
