"""What `why` says of calls so far: plain Python, library calls with their time, reads of values, refused merges."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import jitfuse as jf


def test_nothing_to_say() -> None:
    fused = jf.fuse(lambda x: x + 1, name="add")
    assert fused.why() == "add: all calls so far are compiled and fused as a whole"
    fused(np.ones(3))
    assert fused.why() == "add: all calls so far are compiled and fused as a whole"


def test_library_calls_and_reads_are_named_with_their_lines() -> None:
    def blurred(x: Any) -> Any:
        y = scipy.ndimage.gaussian_filter(x * x, 2.0)
        return y / 2 if y[0, 0] > 0.5 else y

    fused = jf.fuse(blurred)
    for scale in (1.0, 0.1, 1.0, 1.0, 0.1):
        fused(np.full((60, 60), scale))
    text = fused.why()
    calls, reads = text.split("\n\n")[1:]
    assert calls.startswith("called by Python in each call") and reads.startswith("read by Python")
    assert "scipy.ndimage.gaussian_filter() at" in calls and "test_why.py:" in calls and ", 5 calls" in calls
    assert float(calls.split(": ")[1].split(" us")[0].replace(",", "")) > 1.0
    assert "bool() at" in reads and reads.endswith("2 answers")


def test_reasons_for_plain_python() -> None:
    stop = threading.Event()
    fused = jf.fuse(lambda x: x if stop.is_set() else -x)
    with pytest.warns(jf.FallbackWarning):
        fused(np.ones(3))
    fused(np.ones(3))
    assert "plain Python, 2 calls so far\n  stop is a threading.Event" in fused.why()


def test_refused_merges() -> None:
    fused = jf.fuse(lambda x: x.sum(axis=0) / x.sum())
    fused(np.ones((3, 4)))
    assert "not fused\n  divide at" in fused.why() and "their index spaces differ" in fused.why()
