"""Work behind the answer: its order, its errors, where there is no thread for it, and that nothing of it is lost."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jitfuse.base import background


def test_jobs_are_done_in_order_in_another_thread() -> None:
    done: list[int] = []
    seen: list[int] = []
    gate = threading.Event()
    background.do(lambda: (gate.wait(60), seen.append(threading.get_ident()))[-1])
    for k in range(5):
        background.do(lambda k=k: done.append(k))  # type: ignore[misc]
    assert not done
    gate.set()
    background.wait()
    assert done == [0, 1, 2, 3, 4] and seen != [threading.get_ident()]
    background.wait()  # nothing is left


def test_jobs_may_ask_for_jobs() -> None:
    done: list[str] = []
    background.do(lambda: (background.do(lambda: done.append("inner")), background.wait(), done.append("outer"))[-1])
    background.wait()
    assert done == ["outer", "inner"]


def test_an_error_is_shown_and_the_others_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    done: list[int] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: shown.append(found.exc_type))
    background.do(lambda: done.append(1 // 0))
    background.do(lambda: done.append(2))
    background.wait()
    assert shown == [ZeroDivisionError] and done == [2]
    background.do(lambda: done.append(3))
    background.wait()
    assert done == [2, 3]


def test_without_threads_jobs_are_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    background.wait()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    background.do(lambda: done.append(threading.get_ident()))
    assert done == [threading.get_ident()]


FIRST = """
import json, os, sys, threading
from types import SimpleNamespace
import numpy as np, jitfuse as jf
from jitfuse.base import background as behind
from jitfuse.cache.sources import sources_known
looked = threading.Event()
behind.time = SimpleNamespace(sleep=lambda seconds: looked.wait())  # however long a busy machine takes to look
f = jf.fuse(lambda x: np.exp(x) + 1)
x = np.arange(5.0)
y = f(x)
found = {"known": sources_known(), "stored": len(os.listdir(sys.argv[1])) if os.path.isdir(sys.argv[1]) else 0}
np.testing.assert_allclose(y, np.exp(x) + 1)
END
looked.set()
found["stats"] = f.stats()
print(json.dumps(found))
"""


def first_call(folder: Path, end: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", FIRST.replace("END", end), str(folder)], capture_output=True, text=True, check=False,
        env={**os.environ, "JITFUSE_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.full
@pytest.mark.parametrize("end", [
    "", "behind.wait()", "found['key'] = f.kernels[0].key",
    "g = jf.fuse(lambda x: np.exp(x) + 2 * x)\nnp.testing.assert_allclose(g(x), np.exp(x) + 2 * x)",
    "f.warm(x)\nfound['warm'] = len(os.listdir(sys.argv[1]))",
])
def test_what_an_empty_cache_has_compiled_is_there_for_the_next_process(tmp_path: Path, end: str) -> None:
    folder = tmp_path / "kernels"
    found = first_call(folder, f"looked.set()\n{end}")
    assert found["known"] is False and found["stored"] == 0, "the answer came first"
    names = {path.stem for path in folder.glob("*.jfc")}
    assert found.get("key", next(iter(names))) in names
    assert found.get("warm", len(names)) == len(names) == 4 + ("g = " in end) * 2
    again = first_call(folder, "")
    assert again["stats"] == {
        "traces": 1, "compiles": 0, "cache_hits": 1, "cache_misses": 0, "launches": 1, "fallbacks": 0, "splits": 0,
    }


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_the_jobs_to_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    fork = (
        "import warnings\nwarnings.simplefilter('ignore')\nchild = os.fork()\n"
        "if child == 0:\n    behind.wait()\n    assert np.allclose(f(x), np.exp(x) + 1)\n    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    first_call(folder, fork)
    assert first_call(folder, "")["stats"]["compiles"] == 0  # type: ignore[index]
