"""Calls from signal handlers and finalisers in the middle of a first call: each is answered, rightly and in time."""
from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.tracing.interception import known

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")



@pytest.fixture(autouse=True)
def _interrupts_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let traced functions raise signals in themselves: they stand for those that come from outside."""
    monkeypatch.setitem(known._PARTS, "_signal", "raise_signal")


# a first call with an empty cache, in which a handler calls the same and another function, once or again and again
INTERRUPTED = """
import faulthandler, signal, sys, time
import numpy as np
import jitfuse as jf

faulthandler.dump_traceback_later(600, exit=True)
start, again = float(sys.argv[1]), float(sys.argv[2])
x, scale = np.linspace(0, 1, 100), np.full(100, 3.0)

@jf.fuse
def f(x, b):
    return np.sin(x) * x * scale + np.zeros(100) + b

@jf.fuse
def g(x):
    return np.exp(x).sum() + np.cos(x) * np.ones(100)

wanted = np.sin(x) * x * scale + 1, np.exp(x).sum() + np.cos(x)
answers = []

rung = 0

def handler(*_):
    global rung
    rung += 1
    if rung < 200:  # on a slow machine it rings again before a handler is done
        answers.append((f(x, 1.0), g(x)))

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, start, again)
first = f(x, 1.0)
while not answers:
    time.sleep(0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
for a, b in [(first, wanted[1]), *answers, (f(x, 1.0), g(x))]:
    np.testing.assert_allclose(np.asarray(a), wanted[0], rtol=1e-14)
    np.testing.assert_allclose(np.asarray(b), wanted[1], rtol=1e-14)
assert f.stats()["traces"] == 1, f.stats()
assert not any(isinstance(value, jf.AbstractTensor) for answer in answers for value in answer)
"""


@pytest.mark.full
@pytest.mark.parametrize("again", [0.0, 0.003])
@pytest.mark.parametrize("start", [0.0005, 0.002, 0.005, 0.01, 0.02, 0.03, 0.045, 0.06])
def test_handlers_that_call_in_a_first_call(start: float, again: float, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, str(start), str(again)], capture_output=True, text=True,
        timeout=PATIENCE, check=False, env=_environment(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder)}


@pytest.fixture
def handled() -> Any:
    """Set a handler of SIGUSR1 for the length of a test."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


class _Handler:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *_: Any) -> None:
        self.function()

    def method(self, *_: Any) -> None:
        self.function()


def _handler(kind: str, function: Any) -> Any:
    if kind == "partial":
        return functools.partial(lambda *_: function())
    return {"function": lambda *_: function(), "object": _Handler(function), "method": _Handler(function).method}[kind]


@pytest.mark.parametrize("kind", ["function", "partial", "object", "method"])
def test_a_handler_in_a_trace_gets_arrays(handled: Any, kind: str) -> None:
    kept = np.arange(3.0)
    answers: list[Any] = []

    def called(x: Any) -> Any:
        return jf.ones(3) * kept + x

    def interrupted(x: Any) -> Any:
        y = called(x) * 2
        signal.raise_signal(signal.SIGUSR1)
        return y + inner(x)

    inner, outer = jf.fuse(called), jf.fuse(interrupted)
    handled(_handler(kind, lambda: answers.append((inner(np.ones(3)), outer is not None and called(np.ones(3))))))
    result = outer(np.ones(3))
    np.testing.assert_array_equal(result, (kept + 1) * 3)
    assert answers
    for fused, _ in answers:
        assert not isinstance(fused, jf.AbstractTensor)
        np.testing.assert_array_equal(np.asarray(fused), kept + 1)


def test_a_finaliser_that_calls_in_the_middle_of_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    from jitfuse.compile import interface as compiler

    other = jf.fuse(lambda x: np.tanh(x) - 7.25)
    answers = []
    real = compiler.compile_mode

    def compile_mode(*args: Any, **kwargs: Any) -> Any:
        answers.append(other(np.ones(5)))  # as a finaliser would, at any line
        return real(*args, **kwargs)

    monkeypatch.setattr(compiler, "compile_mode", compile_mode)
    np.testing.assert_allclose(jf.fuse(lambda x: np.exp(x) * 3.125)(np.ones(5)), np.exp(np.ones(5)) * 3.125)
    np.testing.assert_array_equal(answers, np.tanh(np.ones((1, 5))) - 7.25)
    assert other.stats()["traces"] == 0
    np.testing.assert_allclose(other(np.ones(5)), answers[0])
    assert other.stats()["traces"] == 1


def test_plain_python_that_calls_fused_functions_compiles_them() -> None:
    inner = jf.fuse(lambda x: np.sqrt(x) + 0.375)

    def drawn(x: Any) -> Any:
        return inner(x) * (random.random() >= 0)

    fused = jf.fuse(drawn)
    with pytest.warns(jf.errors.FallbackWarning, match="plain Python"):
        np.testing.assert_array_equal(fused(np.full(4, 9.0)), np.full(4, 3.375))
    np.testing.assert_array_equal(fused(np.full(4, 9.0)), np.full(4, 3.375))
    assert fused.stats()["fallbacks"] == 2
    assert inner.stats()["traces"] == 1


def test_a_handler_of_a_library_that_raises_ends_the_call(handled: Any) -> None:
    """As the handlers of time limits do: the error is not that of code of the user's."""
    scope: dict[str, Any] = {"done": []}
    file = os.path.join(os.path.dirname(np.__file__), "limits.py")
    once = "def stop(*_):\n    if not done:\n        done.append(1)\n        raise TimeoutError"
    exec(compile(once, file, "exec"), scope)
    handled(scope["stop"])

    def interrupted(x: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return x + 1

    with pytest.raises(TimeoutError):
        jf.fuse(interrupted)(np.ones(3))
