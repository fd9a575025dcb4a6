"""Issue the cache's warnings once per process and cause. Owns the record of causes warned about."""
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
    _warned.add(cause)  # two threads on this very line may both warn; a lock would cost more, at forks
    warnings.warn(message, CacheWarning, stacklevel=3)


def forget() -> None:
    """Forget all recorded causes, for tests."""
    _warned.clear()
