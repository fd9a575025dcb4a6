"""Work beside: its results, its errors, and what becomes of it where no thread can be had."""
from __future__ import annotations

import threading

import pytest

from jitfuse.beside import Beside


def test_results_come_from_another_thread() -> None:
    beside = Beside(threading.get_ident)
    assert beside.result() != threading.get_ident() and beside.result() == beside.result()


def test_errors_are_raised_where_the_result_is_asked_for() -> None:
    beside = Beside(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            beside.result()


def test_without_threads_it_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Beside(threading.get_ident).result() == threading.get_ident()
