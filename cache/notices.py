"""Warnings of the cache, said once per process and cause. Owns the memory of what was said."""
from __future__ import annotations

import warnings

from jitfuse.errors import CacheWarning

_warned: set[str] = set()


def warn_once(cause: str, message: str) -> None:
    """Issue a CacheWarning unless this process already had one for `cause`.

    Call it last, after all clean-up: under ``-W error`` it raises.
    """
    if cause in _warned:
        return
    _warned.add(cause)  # two threads at this very line may both warn, which costs less than a lock at a fork
    warnings.warn(message, CacheWarning, stacklevel=3)


def forget() -> None:
    """Forget what was said, for tests."""
    _warned.clear()
