"""Kernels launched from Python, as on a machine whose native runtime is still being compiled."""
from __future__ import annotations

import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.base import background
from jitfuse.compile import interface as compiler
from jitfuse.compile.objects import runtime_object
from jitfuse.compile.run import direct as direct_calls

X = np.random.default_rng(1).standard_normal((5, 7))

FUNCTIONS = [
    lambda x: np.sin(x) * x + 1,
    lambda x: (x, x[1:, ::2], x + 1, x.sum(), 3, None),
    lambda x: {"rows": x.sum(axis=1), "t": (x * 2).T, "flat": np.exp(x).reshape(-1)},
    lambda x: np.maximum(x @ x.T + 1, 0).sum(axis=0),
    lambda x: np.concatenate([x[:2], np.array([[1.0, 2, 3, 4, 5, 6, 7]])]) * 2,
    lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True),
    lambda x: (lambda y: (y, y))(x + 1),
]


@pytest.fixture
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "runtime_is_ready", lambda *_: False)
    monkeypatch.setattr(compiler, "build_runtime", lambda: None)


def flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list | dict):
        return [leaf for v in (result.values() if isinstance(result, dict) else result) for leaf in flat(v)]
    return [result]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_bits_and_kinds_are_those_of_native_calls(fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    want = jf.fuse(fn)(X)
    monkeypatch.setattr(compiler, "runtime_is_ready", lambda *_: False)
    direct = jf.fuse(fn)
    got = direct(X)
    assert not direct.attached and direct.stats()["fallbacks"] == 0 and direct.stats()["launches"] > 0
    for a, b in zip(flat(got), flat(want), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
        assert (a is X) == (b is X)
    assert len({id(leaf) for leaf in flat(got)}) == len({id(leaf) for leaf in flat(want)})


@pytest.mark.usefixtures("no_runtime")
def test_writes_state_and_errors() -> None:
    @jf.fuse
    def f(x: Any, y: Any) -> Any:
        x[1:] = x[:-1] * 2
        y += 1
        return jf.nn.dropout(x, 0.5), y**2

    jf.random.seed(4)
    x, y = X.copy(), np.arange(4)
    first, squares = f(x, y, training=True)
    second, _ = f(x, y, training=True)
    np.testing.assert_array_equal(y, np.arange(4) + 2)
    np.testing.assert_array_equal(squares, (np.arange(4) + 1) ** 2)
    want = X.copy()
    for _ in range(2):
        want[1:] = want[:-1] * 2
    np.testing.assert_array_equal(x, want)
    assert not np.array_equal(first != 0, second != 0) and jf.random.state()[1] == 2
    with pytest.raises(jf.NumericError, match="negative integer powers"):
        jf.fuse(lambda n, k: n**k)(np.arange(3), np.array([1, -1, 2]))


def test_without_a_runtime_kernels_still_run(monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse() -> Any:
        raise jf.CompileError("no runtime here")

    monkeypatch.setattr(runtime_object.native, "loaded", lambda: False)
    monkeypatch.setattr(runtime_object, "native_runtime", refuse)
    monkeypatch.setattr(runtime_object, "_asked", False)
    monkeypatch.setattr(runtime_object, "_failure", None)
    monkeypatch.setattr(runtime_object, "_stored", lambda *_: None)
    f = jf.fuse(FUNCTIONS[0])
    with pytest.warns(jf.FallbackWarning, match=r"no runtime here \[JF303\]"):
        f(X)
        background.wait()
        assert runtime_object._asked and not runtime_object._building
    for _ in range(2):
        np.testing.assert_allclose(f(X), FUNCTIONS[0](X))
    assert not f.attached and f.stats()["fallbacks"] == 0 and f.stats()["launches"] == 3


BUILT_LATER = """
import threading
from types import SimpleNamespace
from jitfuse.base import background
from jitfuse.compile.objects import runtime_object
answered = threading.Event()
background.time = SimpleNamespace(sleep=lambda seconds: answered.wait())  # however long the first call takes
"""


@pytest.mark.full
def test_a_new_machine_goes_native_after_its_first_calls(tmp_path: Any) -> None:
    code = BUILT_LATER + """
import numpy as np, jitfuse as jf
f = jf.fuse(lambda x: np.exp(x) + 1)
x = np.arange(5.0)
assert np.allclose(f(x), np.exp(x) + 1) and not f.attached
answered.set()
background.wait()
for _ in range(2):
    assert np.allclose(f(x), np.exp(x) + 1)
assert f.attached and np.allclose(f(x), np.exp(x) + 1)
stats = f.stats()
assert stats["traces"] == 1 and stats["compiles"] == 1 and stats["fallbacks"] == 0, stats
"""
    environment = {**os.environ, "JITFUSE_CACHE_DIR": str(tmp_path / "kernels")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=PATIENCE)


def test_calls_wait_for_a_runtime_that_takes_longer_than_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels launched from Python take is counted; past about a runtime's compilation a call waits, once."""
    waited: list[float] = []

    class Built:
        def wait(self, seconds: float) -> None:
            waited.append(seconds)

    monkeypatch.setattr(runtime_object.native, "loaded", lambda: False)
    seconds = itertools.count(0.0, 0.001)  # each run of kernels takes a millisecond
    monkeypatch.setattr(direct_calls, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    state = {"_building": True, "_asked": True, "_failure": None, "_built": Built(), "_direct": 0.0}
    for name, value in state.items():
        monkeypatch.setattr(runtime_object, name, value)
    direct = jf.fuse(lambda x: np.sin(x) * x)
    direct(X)
    assert runtime_object._direct == pytest.approx(0.001) and not waited
    runtime_object.note_direct(runtime_object._MOST_DIRECT)
    np.testing.assert_array_equal(direct(X), direct(X))
    assert waited == [runtime_object._LONGEST_WAIT] and not direct.attached


@pytest.mark.full
def test_the_wait_ends_when_the_runtime_is_there(tmp_path: Any) -> None:
    """A new process with an empty cache: its loop is launched from Python at most a few times."""
    script = tmp_path / "loop.py"
    script.write_text("""
import numpy as np, jitfuse as jf
from jitfuse.backends.llvm.runtime import native
from jitfuse.compile.objects import runtime_object
runtime_object._LONGEST_WAIT = 900.0  # as long as building takes on a slow machine

@jf.fuse
def f(x):
    y = np.zeros(len(x))
    for k in range(1, len(x)):
        y[k] = y[k - 1] * 0.5 + np.sin(x[k:k + 3]).sum()
    return y

x = np.random.default_rng(0).random(4000)
want = f(x)
for calls in range(1, 100):
    np.testing.assert_array_equal(f(x), want)
    if native.loaded():
        break
print(calls)
""")
    env = {**os.environ, "JITFUSE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert int(done.stdout) <= 5


@pytest.mark.full
@pytest.mark.parametrize("iterations, waits", [(20, False), (40_000, True)])
def test_a_long_loop_waits_for_the_runtime_in_its_first_call(tmp_path: Any, iterations: int, waits: bool) -> None:
    """A new process with an empty cache: what Python would launch for longer than the runtime takes waits for it."""
    script = tmp_path / "loop.py"
    script.write_text(BUILT_LATER + """
import sys
import numpy as np, jitfuse as jf
from jitfuse.backends.llvm.runtime import native
if sys.argv[2] == "True":
    answered.set()
    runtime_object._LONGEST_WAIT = 900.0  # as long as building takes on a slow machine

@jf.fuse
def f(x):
    return jf.scan(lambda c, row: (np.sin(c) + row[0], c + row.sum()), x[0, 0], x)

x = np.random.default_rng(0).random((int(sys.argv[1]), 3))
last, sums = f(x)
print(native.loaded())
answered.set()
np.testing.assert_allclose(sums[1], np.sin(x[0, 0]) + x[0, 0] + x[1].sum(), rtol=1e-12)
""")
    env = {**os.environ, "JITFUSE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, script, str(iterations), str(waits)], env=env, capture_output=True, text=True,
        timeout=PATIENCE, check=True)
    assert done.stdout.split() == [str(waits)]
