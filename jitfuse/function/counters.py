"""Counts and warnings of a fused function, over all its signatures.

Owns `FusedFunction.stats`, the warnings of fallbacks, and why the last new call was new. Decides nothing.
"""
from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from jitfuse.compile import interface as compiler
from jitfuse.errors import FallbackWarning
from jitfuse.reasons import Why
from jitfuse.tracing.record.fallback_reason import why_plain
from jitfuse.tracing.record.source import is_user_code


class Counters:
    """The counts of one fused function; a fallback is an error where the function is `strict`."""

    def __init__(self, name: str, *, strict: bool) -> None:
        self._name, self._strict = name, strict
        self.counts = {"traces": 0, "compiles": 0, "cache_hits": 0, "cache_misses": 0, "fallbacks": 0, "splits": 0}
        self.launches = 0
        """Kernels launched from Python, on the GPU, and by discarded native code."""
        self.missed: tuple[Any, ...] = ()
        """The objects and GPU kernels that were compiled for the last new call."""
        self.why_new: tuple[str, ...] | None = None
        """Why the last new call matched no known signature; None before there was one."""
        self.draws_global_rng = False
        """Whether calls use NumPy's global RNG, so that they have to pass its state."""
        self.warned: set[Why] = set()
        """The reasons of fallbacks that warnings have given."""

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Add what this thread compiles and loads inside the context."""
        totals = compiler.thread_totals()
        before = dict(vars(totals))
        try:
            yield
        finally:
            for key, value in vars(totals).items():
                self.counts[key] += value - before[key]

    def note_new(self, why: tuple[str, ...]) -> None:
        """Record a new signature, and what differs from the nearest one."""
        self.why_new, self.missed = why, ()

    # ------------------------------------------------------------------ fallbacks
    def count_fallback(self) -> None:
        """Count a call that runs as plain Python after a warning."""
        self.counts["fallbacks"] += 1

    def has_warned(self, reason: Why | None) -> bool:
        """Return whether a warning has given this reason."""
        return reason in self.warned

    def note_fallback(self, where: str, error: Exception) -> None:
        """Count a fallback and warn once per reason; raise the error if the function is `strict`."""
        if self._strict:
            raise error
        self.counts["fallbacks"] += 1
        reason = why_plain(error)
        if reason not in self.warned:
            self.warned.add(reason)
            self._warn(f"{self._name} runs in {where}: {reason}")

    @staticmethod
    def _warn(text: str) -> None:
        """Warn at the user's line that makes the call."""
        level, frame = 1, _frame_above()
        while frame is not None and not is_user_code(frame.f_code.co_filename):
            level, frame = level + 1, frame.f_back
        warnings.warn(text, FallbackWarning, stacklevel=level + 1 if frame is not None else 1)


def _frame_above() -> types.FrameType | None:
    return sys._getframe(1).f_back
