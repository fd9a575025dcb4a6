"""The training flag inside a trace.

Owns `ModeFlag`, which a traced function gets for `training` and from `jf.is_training()`. If Python reads it as a bool,
the function is traced once per mode. Operators that depend on the mode take the flag without reading it.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from jitfuse.errors import LeakedTracerError
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line


class ModeFlag:
    """The training flag of one run: behaves like a bool, and knows whether Python has read it."""

    __slots__ = ("_run",)

    def __init__(self, run: Recorder) -> None:
        self._run = run

    def __bool__(self) -> bool:
        if not self._run.alive:
            raise LeakedTracerError(f"the training flag is used at {user_line()} after its trace has ended")
        self._run.mode_read = True
        return self._run.mode

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Answer isinstance(training, bool) as in a call as plain Python."""
        return bool

    def __int__(self) -> int:
        return int(bool(self))

    def __index__(self) -> int:
        return int(bool(self))

    def __float__(self) -> float:
        return float(bool(self))

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __repr__(self) -> str:
        return f"<training flag, {self._run.mode} in this run>"

    __rand__ = __and__
    __ror__ = __or__


class _Eager(threading.local):
    training: bool = False
    plain: bool = False
    inlined: bool | None = None


_eager = _Eager()


def is_training() -> Any:
    """Return the mode of the call of a fused function that is running.

    Returns:
        A bool; in a trace a flag that behaves like one. False outside of fused functions.

    Example:
        >>> f = jf.fuse(lambda x: x * 2 if jf.is_training() else x)
        >>> f(np.ones(2)), f(np.ones(2), training=True)
        (array([1., 1.]), array([2., 2.]))
    """
    run = active()
    if run is None:
        return _eager.training
    return ModeFlag(run) if _eager.inlined is None else _eager.inlined


@contextlib.contextmanager
def inlined_mode(training: bool) -> Iterator[None]:
    """Make `is_training()` return `training` in a trace: for a fused function that is called with a mode of its own."""
    before, _eager.inlined = _eager.inlined, training
    try:
        yield
    finally:
        _eager.inlined = before


class EagerMode:
    """Makes `is_training()` return `training` while a fused function runs as plain Python; `arrays`: on NumPy arrays.

    A class: a generator's context takes a microsecond more.
    """

    __slots__ = ("_arrays", "_before", "_training")

    def __init__(self, training: bool, arrays: bool = True) -> None:
        self._training, self._arrays = training, arrays

    def __enter__(self) -> None:
        self._before = _eager.training, _eager.plain
        _eager.training, _eager.plain = self._training, self._arrays

    def __exit__(self, *_: object) -> None:
        _eager.training, _eager.plain = self._before


def runs_plain() -> bool:
    """Return whether a fused function is running as plain Python on NumPy arrays in this thread."""
    return _eager.plain
