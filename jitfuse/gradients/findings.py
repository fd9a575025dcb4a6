"""What is wrong with a derivative: raised at once, or all collected for a report."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from jitfuse.errors import DerivativeError

Finding = tuple[frozenset[str], str]
"""The names of operators or parameters that it is about, and what is wrong."""


class _Collecting(threading.local):
    found: list[Finding] | None = None


_collecting = _Collecting()


def raise_or_note(error: DerivativeError, *about: str) -> None:
    """Raise an error, or note it where errors are collected; the caller goes on without the derivative then."""
    if _collecting.found is None:
        raise error
    finding = frozenset(about), str(error)
    if finding not in _collecting.found:
        _collecting.found.append(finding)


@contextlib.contextmanager
def collected() -> Iterator[list[Finding]]:
    """Collect errors instead of raising the first."""
    before = _collecting.found
    found: list[Finding] = []
    _collecting.found = found
    try:
        yield found
    finally:
        _collecting.found = before
