"""Collection is put off within the pause alone, and is afterwards what it was before."""
from __future__ import annotations

import gc
import os
import threading

import pytest

from jitfuse.collecting import PAUSED


def test_collection_is_back_after_the_last_pause() -> None:
    assert gc.isenabled()
    with PAUSED:
        assert not gc.isenabled()
        with PAUSED:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ValueError, match="here"), PAUSED:
        raise ValueError("here")
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with PAUSED:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


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
    assert not gc.isenabled()
    second.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_collects() -> None:
    with PAUSED:
        child = os.fork()
        if not child:
            os._exit(not gc.isenabled())
    assert os.waitpid(child, 0)[1] == 0
