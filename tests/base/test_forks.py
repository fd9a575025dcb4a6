"""Forks and threads: a child goes on after any moment of its parent, and many first calls at once compile once."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE, drawn

import jitfuse as jf

PYTHON = (sys.executable, "-W", "ignore:This process:DeprecationWarning")
"""From 3.12 on Python itself warns of every fork beside threads."""
# threads trace, compile and run while the process forks; every child calls old, busy and new functions
FORKING = """
import os, sys, threading, time
import numpy as np
import jitfuse as jf

x = np.linspace(0, 1, 200_000)
shared = jf.fuse(lambda x, k: np.sin(x) * k + np.sum(x))
want = np.sin(x) * 2 + np.sum(x)
assert np.allclose(shared(x, 2.0), want)
stop = threading.Event()
failures = []

def work(seed):
    n = seed
    while not stop.is_set():
        n += 1
        try:
            f = jf.fuse(eval(f"lambda x: x * {n}.5 + np.arange({n % 7 + 1})[0] - np.tanh(x)"))
            y = np.ones(n % 100 + 2)
            assert np.allclose(f(y), y * (n + .5) - np.tanh(y))
            assert np.allclose(shared(x[: n + 2], 2.0), np.sin(x[: n + 2]) * 2 + np.sum(x[: n + 2]))
            assert np.allclose(shared(x, 2.0), want)
        except BaseException as error:
            failures.append(repr(error))
            raise

threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
for t in threads: t.start()
for round in range(int(sys.argv[1])):
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert np.allclose(shared(x, 2.0), want)
            assert np.allclose(shared(x[:77], 2.0), np.sin(x[:77]) * 2 + np.sum(x[:77]))
            fresh = jf.fuse(lambda x: np.exp(-x) * 3)
            assert np.allclose(fresh(x), np.exp(-x) * 3)
            assert shared.stats()["fallbacks"] == fresh.stats()["fallbacks"] == 0
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 300
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done: break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            print("a child hangs"); os._exit(1)
        time.sleep(0.005)
    assert status == 0, status
stop.set()
for t in threads: t.join()
assert not failures, failures
print("fine")
"""


@pytest.mark.full
def test_forks_beside_threads_that_compile(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PYTHON, "-c", FORKING, str(drawn(10, least=3))], capture_output=True, text=True,
        timeout=PATIENCE,
        check=False, env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


# a thread is in the middle of an import of ours while the process forks
IMPORTING = """
import importlib.machinery, os, signal, sys, threading
import jitfuse
from jitfuse.base import forks

begun = threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "jitfuse.slow" else None
    def create_module(self, spec): return None
    def exec_module(self, module):
        begun.set()
        threading.Event().wait(0.3)
        module.lock = threading.Lock()
        forks.hold(module.lock.acquire, module.lock.release)
        module.ran = True

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=__import__, args=("jitfuse.slow",))
thread.start()
assert begun.wait(300)
child = os.fork()
if child == 0:
    signal.alarm(300)
    import jitfuse.slow
    os._exit(0 if jitfuse.slow.ran and not jitfuse.slow.lock.locked() else 1)
assert os.waitpid(child, 0)[1] == 0
thread.join()
assert not jitfuse.slow.lock.locked()
print("fine")
"""


def test_a_fork_waits_for_imports_of_other_threads() -> None:
    """The module that is being imported has a lock of its own to be held across that very fork."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


FIRST_CALL = """
import os, sys, threading, time
import numpy as np
import jitfuse as jf

x = np.linspace(0, 1, 300_000)
f = jf.fuse(lambda x: np.sin(x) * x + 1.5)
thread = threading.Thread(target=f, args=(x,))
thread.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
g = jf.fuse(lambda x: np.exp(x) * x + 1.5)
assert np.allclose(g(x), np.exp(x) * x + 1.5)
assert np.allclose(f(x), np.sin(x) * x + 1.5)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""


@pytest.mark.full
@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.001, 0.002, 0.005, 0.02, 0.05])
def test_a_fork_in_a_first_call_of_another_thread_is_silent(delay: float, tmp_path: Path) -> None:
    done = subprocess.run(
        [*PYTHON, "-c", FIRST_CALL, str(delay)], capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("same", [True, False])
def test_thirty_two_threads_that_call_first_compile_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_threads: Any, same: bool
) -> None:
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path))
    name = "same" if same else "each"  # another program for each case: an earlier one's object may still be loaded
    functions = [jf.fuse(lambda x: np.exp(x) * 2 + np.sum(x) - len(name) * same) for _ in range(1 if same else 32)]
    x = np.linspace(0, 1, 1001)
    want = np.exp(x) * 2 + np.sum(x) - len(name) * same
    barrier = threading.Barrier(32)

    def call(k: int) -> None:
        barrier.wait()
        np.testing.assert_allclose(functions[k % len(functions)](x), want, rtol=1e-5)

    in_threads(32, call)
    stats = [f.stats() for f in functions]
    assert all(s["traces"] == 1 for s in stats)
    assert len({kernel.key for f in functions for kernel in f.kernels}) == 1
    assert len({id(kernel._object) for f in functions for kernel in f.kernels}) == 1
    assert len([p for p in tmp_path.glob("*.jfc") if b"k0" in p.read_bytes()]) >= 1
