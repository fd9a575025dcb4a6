"""The way of a call that native code declines: it returns the result, and what it has made answers the next."""
from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.compile import interface as compiler
from jitfuse.function import pipeline
from jitfuse.function.call import PLAIN

X = np.linspace(0.5, 2.0, 7)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows by each call that comes to Python."""
    calls: list[Any] = []
    real = pipeline.answer

    def answer(parts: Any, args: Any, kwargs: Any) -> Any:
        calls.append(args)
        return real(parts, args, kwargs)

    monkeypatch.setattr(pipeline, "answer", answer)
    compiler.native_runtime()
    return calls


@pytest.mark.skipif(not jf.FusedFunction.native, reason="native code cannot take calls here")
def test_a_new_call_comes_to_python_once(answered: list[Any]) -> None:
    f = jf.fuse(lambda x, training=False: np.exp(x) * 0.71875)
    for k in range(3):
        np.testing.assert_allclose(f(X), np.exp(X) * 0.71875)
        assert len(answered) == 1, k
    f(X, training=True)
    f(X, training=True)
    assert len(answered) == 2
    f(X[:3])
    f(X[:3])
    assert len(answered) == 3


@pytest.mark.skipif(not jf.FusedFunction.native, reason="native code cannot take calls here")
def test_the_first_call_of_a_signature_runs_natively_where_native_code_is_there(
    answered: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(*_: Any) -> Any:
        raise AssertionError("Python has launched the kernels")

    monkeypatch.setattr("jitfuse.compile.run.direct.call_directly", launched)
    f = jf.fuse(lambda x: np.exp(x) * 0.53125)
    np.testing.assert_allclose(f(X), np.exp(X) * 0.53125)
    np.testing.assert_allclose(f(X[:2]), np.exp(X[:2]) * 0.53125)


@pytest.mark.skipif(not jf.FusedFunction.native, reason="native code cannot take calls here")
def test_what_native_code_always_declines_is_launched_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.native_runtime()
    monkeypatch.setattr("jitfuse.compile.native_entries.NativeEntries.attempt", lambda *_: None)
    f = jf.fuse(lambda x: np.exp(x) * 0.34375)
    np.testing.assert_allclose(f(X), np.exp(X) * 0.34375)
    assert f.stats()["fallbacks"] == 0 and f.stats()["launches"] == 1


def test_arguments_of_other_kinds_are_another_key_of_one_function() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    f = jf.fuse(lambda x: x * 2 + 1)
    x = np.arange(3.0)
    for given in (x, torch.arange(3.0), jf.asarray(x), x, torch.arange(3.0)):
        assert type(f(given)) is type(given)
    assert f.stats()["traces"] == 2 and len(f.parts.specs) == 2
    assert [table.key.tensors for table in f.parts.tables] == [(), (0,)]
    assert len(f.kernels) == 2


def test_calls_that_draw_from_the_global_rng_bring_its_state_from_the_first_on() -> None:
    f = jf.fuse(lambda x: x + np.random.rand(3))
    for seed in range(4):
        np.random.seed(seed)
        found = f(np.zeros(3)), np.random.rand()
        np.random.seed(seed)
        np.testing.assert_array_equal(found[0], np.random.rand(3))
        assert found[1] == np.random.rand()
    assert [table.key for table in f.parts.tables if table.specs] == [PLAIN._replace(
        rng_use=PLAIN.rng_use._replace(global_rng=True))]
    assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0


def test_an_error_that_plain_python_raises_has_no_context_of_ours() -> None:
    def f(x: Any) -> Any:
        if x.sum().item() < 0:  # looked at
            raise LookupError("the user's")
        return np.interp(x, x, x, left=object())

    with pytest.raises(Exception) as caught:
        jf.fuse(f)(X)
    assert caught.value.__context__ is None
    with pytest.raises(LookupError) as found:
        jf.fuse(f)(-X)
    assert found.value.__context__ is None


@pytest.mark.full
def test_a_cold_first_call_enters_few_files_and_functions(tmp_path: Path) -> None:
    """What a reader of the way of a call has to know; `benchmarks/call_path.py --list` names what is new."""
    script = Path(__file__).parents[2] / "benchmarks" / "call_path.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=PATIENCE)
    files, functions = map(int, done.stdout.splitlines()[-1].split()[1:3])
    assert files <= 120 and functions <= 500, done.stdout


def test_a_warning_names_the_line_that_calls() -> None:
    f = jf.fuse(lambda x: x + len(str(random.random())) * 0)
    with pytest.warns(jf.FallbackWarning, match="plain Python") as caught:
        f(X)
    assert [w.filename for w in caught] == [__file__]
