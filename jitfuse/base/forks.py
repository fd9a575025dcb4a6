"""Fork handlers: what modules lock before a fork, and what they renew in a child.

A child has the parent's memory and one of its threads. So modules name the locks that no other thread may hold when a
process forks (`hold`), and what is renewed in the child (`renew`). The handlers are kept here, not by
`os.register_at_fork`: a module may be imported, in another thread, during a fork; Python then calls its handlers after
the fork without those before.

A fork also waits for other threads' imports of jitfuse's modules. CPython gives a child the locks of the parent's
imports as they are. A module that a thread of the parent was importing stays locked in the child, where that thread
does not exist: an import of it there waits for ever. jitfuse imports much on first use, from any thread.
"""
from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

_OURS: Final = frozenset({
    "highspy", "jitfuse", "llvmlite", "ml_dtypes", "msgpack", "numpy", "opt_einsum", "optree", "platformdirs", "scipy",
})
"""Top-level packages that jitfuse imports late, and its own."""

_PATIENCE: Final = 5.0
"""Seconds after which a fork no longer waits: an import that takes longer may itself be waiting for the fork."""

Handler = Callable[[], Any]

_held: Final[list[tuple[Handler, Handler, Handler]]] = []
"""The handlers before a fork, after it in the parent, and after it in the child."""
_renewed: Final[list[Handler]] = []
_fork = threading.local()
"""How many of `_held` the current fork of this thread has handled."""


def hold(before: Handler, in_parent: Handler, in_child: Handler | None = None) -> None:
    """Register handlers of a fork, called in order of registration; `in_child` defaults to `in_parent`."""
    _held.append((before, in_parent, in_child or in_parent))


def renew(in_child: Handler) -> None:
    """Register a function that renews in a forked child what threads of the parent may have been using."""
    _renewed.append(in_child)


def _before() -> None:
    _fork.come_to = 0
    end = time.monotonic() + _PATIENCE
    while True:
        while _fork.come_to < len(_held):
            _held[_fork.come_to][0]()
            _fork.come_to += 1
        _wait_for_imports(end)
        if _fork.come_to == len(_held):  # else a module imported meanwhile has added a handler
            return


def _in_parent() -> None:
    for _, in_parent, _ in reversed(_held[: _fork.come_to]):
        in_parent()


def _in_child() -> None:
    for _, _, in_child in reversed(_held[: _fork.come_to]):
        in_child()
    for function in list(_renewed):
        function()


def _wait_for_imports(end: float) -> None:
    while _others_import() and time.monotonic() < end:
        time.sleep(0.0005)


def _others_import() -> bool:
    """Return whether another thread is importing from `_OURS`.

    The locks are importlib's own, held from before a module is searched until after it has run; ``sys.modules`` lacks a
    module that is still searched. They live as long as the import.
    """
    bootstrap: Any = sys.modules["_frozen_importlib"]
    me = threading.get_ident()
    for name, reference in list(getattr(bootstrap, "_module_locks", {}).items()):
        if name.partition(".")[0] in _OURS and (lock := reference()) is not None and lock.owner not in (None, me):
            return True
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
