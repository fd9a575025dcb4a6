"""The tracing environment of the current thread, which the probes of rewritten and recompiled code call."""
from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jitfuse.tracing.interception.reader import TracingEnvironment

current: Final[ContextVar[TracingEnvironment | None]] = ContextVar("jitfuse_view", default=None)
