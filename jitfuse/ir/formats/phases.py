"""What part of a derivative a step belongs to, behind the user's line that it carries: ``file:line (backward)``.

Steps of derivatives carry the lines of the steps that they are derivatives of. Passes keep the lines of steps, and so
reports can tell the phases of kernels. Owns how a phase is written.
"""
from __future__ import annotations

from typing import Final

BACKWARD: Final = "backward"
TANGENT: Final = "tangent"
UPDATE: Final = "update"
_PHASES: Final = (BACKWARD, TANGENT, UPDATE)


def in_phase(source: str, phase: str) -> str:
    """Return the line of a step of this phase; a step of a derivative of a derivative stays in the first's."""
    return source if phase_of(source) else f"{source} ({phase})"


def phase_of(source: str | None) -> str:
    """Return the phase of a step by its line; empty for steps of the function itself."""
    return next((phase for phase in _PHASES if source and source.endswith(f"({phase})")), "")
