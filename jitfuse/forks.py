"""Forks beside imports: no child is born while another thread imports a module of jitfuse's.

CPython gives a child the locks of the parent's imports as they are. A module that a thread of the parent was
importing stays locked in the child, where that thread does not exist: whoever imports it there waits for ever.
jitfuse imports much on first use, from any thread. So a fork waits until those imports have ended.

Imported before everything else of ours: handlers run last that are registered first, and nothing that they do
may let another thread begin an import.
"""
from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Final

_OURS: Final = frozenset({
    "highspy", "jitfuse", "llvmlite", "ml_dtypes", "msgpack", "numpy", "opt_einsum", "optree", "platformdirs", "scipy",
})
"""Top-level packages that jitfuse imports late, and its own."""

_PATIENCE: Final = 5.0
"""Seconds after which a fork no longer waits: an import that takes longer may itself be waiting for the fork."""


def _wait_for_imports() -> None:
    end = time.monotonic() + _PATIENCE
    while _others_import() and time.monotonic() < end:
        time.sleep(0.0005)


def _others_import() -> bool:
    """Return whether another thread is importing from `_OURS`.

    The locks are importlib's own, from before a module is searched until after it is run; ``sys.modules`` does not
    know a module that is still searched. They live as long as the import.
    """
    bootstrap: Any = sys.modules["_frozen_importlib"]
    me = threading.get_ident()
    for name, reference in list(getattr(bootstrap, "_module_locks", {}).items()):
        if name.partition(".")[0] in _OURS and (lock := reference()) is not None and lock.owner not in (None, me):
            return True
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports)
