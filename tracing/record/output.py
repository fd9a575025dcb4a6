"""The texts that a call prints, held until it has been answered: a call that plain Python takes over prints anew.

Owns the texts of the calls going on in a thread. Does not own what makes them (`jitfuse.tracing.observe.printing`).
"""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple


class PrintedText(NamedTuple):
    """What one `print` shows, and where: in a stream of `sys` by its name, or in a file."""

    text: str
    stream: Any
    flush: bool


class _HeldOutput(threading.local):
    texts: list[PrintedText] | None = None


_held = _HeldOutput()


@contextlib.contextmanager
def held() -> Iterator[list[PrintedText]]:
    """Hold what a call prints; `show` the list, or clear it where it must not be seen."""
    before, texts = _held.texts, []  # type: ignore[var-annotated]
    _held.texts = texts
    try:
        yield texts
    finally:
        _held.texts = before


def is_held() -> bool:
    """Return whether a call holds what it prints."""
    return _held.texts is not None


def hold(text: str, stream: Any, flush: bool) -> None:
    """Keep one text for the end of the call."""
    assert _held.texts is not None
    _held.texts.append(PrintedText(text, stream, flush))


def forget() -> None:
    """Drop what the call has printed so far: it begins again."""
    if _held.texts is not None:
        _held.texts.clear()


def show(texts: list[PrintedText]) -> None:
    """Print what has been held."""
    for text, stream, flush in texts:
        file = getattr(sys, stream) if isinstance(stream, str) else stream
        print(text, end="", file=file, flush=flush)
    texts.clear()
