"""Why a call that could not be traced runs as plain Python, from the error that its trace raised. Decides nothing."""
from __future__ import annotations

from jitfuse import reasons
from jitfuse.errors import JitfuseError
from jitfuse.reasons import Why
from jitfuse.tracing.record.source import line_of


def why_plain(error: Exception) -> Why:
    """Return the reason in the user's words: of errors that are not jitfuse's, the line that does not take tracers."""
    if not isinstance(error, JitfuseError):
        return Why(reasons.FOREIGN_ERROR, (
            f"{line_of(error) or 'the function'} raises {type(error).__name__} with traced arrays, and not with real "
            "ones. Do this outside the function, or with arrays and numbers alone. strict=True shows the error."))
    given = error.args[0] if error.args else ""
    return given if isinstance(given, Why) else Why(error.stands_for, str(error).partition("\n")[0])
