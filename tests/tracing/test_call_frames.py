"""Which frames Python code has called directly: what the interpreter's frames show, and what they do not."""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jitfuse.tracing.observe import call_frames
from jitfuse.tracing.observe.call_frames import called_directly


def direct(*_: Any, **__: Any) -> bool:
    return called_directly(sys._getframe())


def generated() -> Iterator[bool]:
    yield direct()


class Made:
    def __init__(self) -> None:
        self.direct = called_directly(sys._getframe())

    def __call__(self, *_: Any) -> bool:
        return called_directly(sys._getframe())

    def method(self, *_: Any) -> bool:
        return called_directly(sys._getframe())


iter_of_c = iter(Made().method, None)


def test_this_interpreters_frames_are_known() -> None:
    assert call_frames._is_known(), "see tracing/observe/call_frames.py: are its offsets those of this Python?"


@pytest.mark.parametrize("call", [
    lambda: direct(), lambda: direct(1, 2), lambda: Made().method(1), lambda: (lambda: direct())(),
    lambda: direct(*[direct(k) for k in range(1)], k=1) or sys.version_info < (3, 12), lambda: next(generated()),
])
def test_calls_of_python(call: Callable[[], bool]) -> None:
    for _ in range(300):  # until the interpreter has specialised the call
        assert call()


@pytest.mark.parametrize("call", [
    lambda: next(map(direct, [1])), lambda: functools.partial(direct, 1)(), lambda: Made().direct, lambda: Made()(1),
    lambda: next(map(Made().method, [1])), lambda: next(iter_of_c),
])
def test_calls_through_c(call: Callable[[], bool]) -> None:
    for _ in range(300):
        assert not call()


def test_unknown_interpreters_call_nothing_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_frames, "_is_known", lambda: False)
    assert not direct()
