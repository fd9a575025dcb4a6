"""The texts that a call prints, held until the call is done: a call that falls back to plain Python prints them anew.

Owns the texts of a thread's running calls. Does not own how they are made (`jitfuse.tracing.observe.printing`).
"""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple


class PrintedText(NamedTuple):
    """The text of one `print`, and its destination: the name of a stream of `sys`, or a file."""

    text: str
    stream: Any
    flush: bool


class _HeldOutput(threading.local):
    texts: list[PrintedText] | None = None


_held = _HeldOutput()


@contextlib.contextmanager
def held() -> Iterator[list[PrintedText]]:
    """Hold the texts that a call prints; then `show` the list, or clear it to drop them."""
    before, texts = _held.texts, []  # type: ignore[var-annotated]
    _held.texts = texts
    try:
        yield texts
    finally:
        _held.texts = before


def is_held() -> bool:
    """Return whether a call holds its texts."""
    return _held.texts is not None


def hold(text: str, stream: Any, flush: bool) -> None:
    """Hold one text until the end of the call."""
    assert _held.texts is not None
    _held.texts.append(PrintedText(text, stream, flush))


def forget() -> None:
    """Drop the texts of the call so far, because it starts over."""
    if _held.texts is not None:
        _held.texts.clear()


def hand_on(texts: list[PrintedText]) -> None:
    """Print the held texts, or hold them in the call around this one."""
    if _held.texts is None:
        show(texts)
    else:
        _held.texts.extend(texts)


def show(texts: list[PrintedText]) -> None:
    """Print the held texts."""
    for text, stream, flush in texts:
        file = getattr(sys, stream) if isinstance(stream, str) else stream
        print(text, end="", file=file, flush=flush)
    texts.clear()
