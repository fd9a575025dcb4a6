"""Why calls were new: which argument, guard or part of a key differs from the nearest that is known."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf

X = np.ones((3, 4))
SUMS = np.zeros(1)


def test_no_call_and_the_first_call() -> None:
    f = jf.fuse(lambda x: x + 1, name="plus")
    assert f.explain_miss() == "plus: no call was new so far"
    f(X)
    text = f.explain_miss()
    assert text.startswith("plus: the last call that was new became signature 1\nthere was no signature before it")


STATE = {"rate": 0.5, "mode": "fast"}


def _with_state(x: Any) -> Any:
    return x * STATE["rate"] if STATE["mode"] == "fast" else x - STATE["rate"]


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], str]] = [
    (lambda x: x + 1, (X,), (np.ones((3, 5)),), "args[0]: was float64[3, 4], is float64[3, 5]"),
    (lambda x: x + 1, (X,), (X.astype(np.float32),), "args[0]: was float64[3, 4], is float32[3, 4]"),
    (lambda x: x + 1, (X,), (np.ones((4, 3)).T,), "args[0]: strides were (32, 8), are (8, 24) bytes"),
    (lambda x, s: x * s, (X, 2.0), (X, 2), "args[1]: was a Python float, is a Python int"),
    (lambda x, s: x * s, (X, 2.0), (X, np.float32(2)), "args[1]: was a Python float, is a NumPy float32"),
    (lambda x, n: x[:n], (X, 2), (X, 1), "args[1]: was 2, is 1, and Python read it"),
    (lambda x, s=1.0: x * s, (X,), (X, 2.0), "positional arguments: were 1, are 2"),
    (lambda x, y: x + y, (X, X), (X, X + 1), "was the same array as"),
    (lambda d: d["a"] + 1, ({"a": X},), ({"a": X, "b": X},), "args[0]"),
]


@pytest.mark.parametrize(("fn", "first", "second", "words"), CASES)
def test_the_argument_that_differs_is_named(
    fn: Any, first: tuple[Any, ...], second: tuple[Any, ...], words: str
) -> None:
    f = jf.fuse(fn)
    f(*first)
    f(*second)
    text = f.explain_miss()
    assert words in text and "became signature 2" in text
    told = text.partition("differs in\n")[2].splitlines()
    assert len([line for line in told if line.startswith("  ") and not line.startswith("    ")]) >= 1


def test_the_guard_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jf.fuse(_with_state)
    f(X)
    monkeypatch.setitem(STATE, "mode", "slow")
    f(X)
    assert "STATE['mode']: was 'fast', is 'slow'" in f.explain_miss()


def test_the_nearest_signature_is_the_one_with_fewest_differences() -> None:
    f = jf.fuse(lambda x, y: x + y)
    f(X, X + 1)
    f(np.ones(3, np.float32), np.ones(3))
    f(X, np.ones((3, 4), np.float32))
    text = f.explain_miss()
    assert "args[1]: was float64[3, 4], is float32[3, 4]" in text and "args[0]" not in text


def test_keywords() -> None:
    f = jf.fuse(lambda x, *, a=1.0, b=2.0: x * a - b)
    f(X, a=1.0)
    f(X, b=1.0)
    assert "keyword arguments: were a, are b" in f.explain_miss()


def test_fewer_arguments_than_a_signature_that_writes() -> None:
    def counted(x: Any, more: Any = None) -> Any:
        SUMS[0] = x.sum()
        return x if more is None else x + more

    f = jf.fuse(counted)
    f(X)
    f(X, X)
    assert "program (as written)" in f.explain(X, more=X)


SCRIPT = """
import json, sys
import numpy as np, jitfuse as jf
def make(factor):
    return jf.fuse({"two": lambda x: np.sin(x) * x, "three": lambda x: np.sin(x) * x + x}[factor], name="model.f")
f = make(sys.argv[1])
f(np.ones(5))
(kernel,) = f.kernels
print(json.dumps({
    "why": f.explain_miss(), "stats": f.stats(), "key": kernel.key, "function": kernel.function,
    "where": kernel.where, "program": kernel.program, "target": kernel.target, "source": kernel.source,
    "asm": kernel.asm, "form": str(kernel.form), "from_cache": kernel.from_cache, "ms": kernel.compile_ms,
    "backend": kernel.backend, "size": kernel.cached.size, "hits": kernel.cached.hits,
}))
"""


def run(folder: Path, word: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, word], capture_output=True, text=True, timeout=PATIENCE,
        check=False,
        env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.mark.full
def test_kernels_are_compared_with_the_cache_of_earlier_processes(tmp_path: Path) -> None:
    cold = run(tmp_path, "two")
    assert "was compiled: it was not in the cache" in cold["why"] and "holds nothing else" in cold["why"]
    warm = run(tmp_path, "two")
    assert "nothing was compiled" in warm["why"] and warm["from_cache"] and warm["hits"] >= 1
    changed = run(tmp_path, "three")
    assert f"the nearest entry is {cold['key'][:12]} of model.f" in changed["why"]
    assert "the kernel forms" in changed["why"] and "+    v3: float64 = add(v2, v0)" in changed["why"]


@pytest.mark.full
def test_kernels_tell_what_the_command_shows(tmp_path: Path) -> None:
    told = run(tmp_path, "two")
    assert told["function"] == "model.f" and told["where"] == "<string>:5" and told["backend"] == "llvm"
    assert "= sin(" in told["program"] and "kernel over" in told["form"] and "define i64 @k0" in told["source"]
    assert told["size"] > 0 and told["ms"] > 0 and "ret" in told["asm"] and told["target"]


def test_another_jitfuse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path))
    from jitfuse.compile.objects import keys, objects

    f = jf.fuse(lambda x: np.sqrt(x) * 7 - x, name="g")
    f(X)
    before = keys.environment
    monkeypatch.setattr(keys, "environment", lambda **kwargs: {**before(**kwargs), "sources": "0" * 64})
    objects._objects.clear()
    objects._homes.clear()
    g = jf.fuse(lambda x: np.sqrt(x) * 7 - x, name="g")
    g(X)
    text = g.explain_miss()
    assert "sources (jitfuse's own code-generating sources): was" in text and "the kernel forms" not in text


def test_without_a_cache() -> None:
    f = jf.fuse(lambda x: x * 2 - 8, cache=False)
    f(X)
    assert "cache=False skips the cache" in f.explain_miss() or "nothing was compiled" in f.explain_miss()
