"""What is wrong with a derivative: raised at once, or all collected for a report."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from jitfuse.errors import DerivativeError


class _Collecting(threading.local):
    found: list[str] | None = None


_collecting = _Collecting()


def raise_or_note(error: DerivativeError) -> None:
    """Raise an error, or note it where errors are collected; the caller goes on without the derivative then."""
    if _collecting.found is None:
        raise error
    if str(error) not in _collecting.found:
        _collecting.found.append(str(error))


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Collect errors instead of raising the first."""
    before = _collecting.found
    found: list[str] = []
    _collecting.found = found
    try:
        yield found
    finally:
        _collecting.found = before
