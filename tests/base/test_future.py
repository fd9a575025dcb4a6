"""Work beside: its results, its errors, and what becomes of it where no thread can be had."""
from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from amount import PATIENCE

from jitfuse.base import future as module
from jitfuse.base.future import Future


def test_results_come_from_another_thread() -> None:
    beside = Future(threading.get_ident)
    assert beside.result() != threading.get_ident() and beside.result() == beside.result()


def test_errors_are_raised_where_the_result_is_asked_for() -> None:
    beside = Future(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            beside.result()


def test_without_threads_it_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module._thread, "start_new_thread", refuse)
    assert Future(threading.get_ident).result() == threading.get_ident()


AT_EXIT = """
import os, sys, time
from jitfuse.base.future import Future
Future(lambda: (time.sleep(0.2), print("done", flush=True)))
"""


def test_a_process_does_not_end_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_waits_for_nothing_of_its_parents() -> None:
    code = AT_EXIT + """
child = os.fork()
if child == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
