"""Collection is put off within the pause alone, and is afterwards what it was before."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from jitfuse.base.gc_pause import MANY, PAUSED, PUT_OFF

USUAL = gc.get_threshold()


def is_paused() -> bool:
    return gc.get_threshold()[0] == PUT_OFF


def test_collection_is_back_after_the_last_pause() -> None:
    with PAUSED:
        assert is_paused() and gc.isenabled()
        with PAUSED:
            assert is_paused()
        assert is_paused()
    assert gc.get_threshold() == USUAL


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ValueError, match="here"), PAUSED:
        raise ValueError("here")
    assert gc.get_threshold() == USUAL


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with PAUSED:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_set_meanwhile_stays() -> None:
    try:
        with PAUSED:
            gc.set_threshold(900, 9, 9)
        assert gc.get_threshold()[0] == 900
        gc.set_threshold(0)
        with PAUSED:
            assert not is_paused()
    finally:
        gc.set_threshold(*USUAL)


def test_pauses_of_several_threads_overlap() -> None:
    first, second = threading.Event(), threading.Event()

    def other() -> None:
        with PAUSED:
            first.set()
            second.wait()

    thread = threading.Thread(target=other)
    with PAUSED:
        thread.start()
        first.wait()
    assert is_paused()
    second.set()
    thread.join()
    assert gc.get_threshold() == USUAL


@pytest.fixture(autouse=True, scope="module")
def nothing_frozen() -> Iterator[None]:
    """Have no objects frozen, as the session has them."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def searched() -> Iterator[list[int]]:
    """The generations that are searched."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


class Node:
    """What refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_a_long_pause_made_is_searched_with_old_objects(searched: list[int]) -> None:
    with PAUSED:
        kept = [[k] for k in range(2 * MANY)]
        node = weakref.ref(Node())
    made = [[k] for k in range(100)]
    assert searched == [] and node() is not None
    gc.collect(1)
    assert node() is not None  # it is no young object any more
    gc.collect()
    assert node() is None and len(kept) + len(made) == 2 * MANY + 100


def test_what_a_short_pause_made_is_searched_as_young(searched: list[int]) -> None:
    with PAUSED:
        kept = [[k] for k in range(MANY // 2)]
        node = weakref.ref(Node())
    kept += [[k] for k in range(10)]
    assert searched == [0] and node() is None and kept


def test_what_is_frozen_stays_frozen(searched: list[int]) -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with PAUSED:
            kept = [[k] for k in range(2 * MANY)]
        assert gc.get_freeze_count() > frozen // 2 and kept
    finally:
        gc.unfreeze()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_collects() -> None:
    with PAUSED:
        child = os.fork()
        if not child:
            os._exit(gc.get_threshold() != USUAL)
    assert os.waitpid(child, 0)[1] == 0


AFTER_IMPORT = """
import gc, sys, threading
import numpy
gc.collect()  # what was made before is not counted
{before}
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]) if phase == "start" else None)
import jitfuse
print(seen, gc.get_count()[1], gc.get_threshold() == usual)
"""


@pytest.mark.parametrize(("before", "searched"), [
    ("", "[1] 0 True"), ("gc.disable()", "[] "), ("gc.set_threshold(0)", "[] "),
])
def test_an_import_is_searched_once_at_its_end(before: str, searched: str) -> None:
    code = AFTER_IMPORT.format(before=f"{before}\nusual = gc.get_threshold()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(searched) and done.stdout.endswith("True\n")
