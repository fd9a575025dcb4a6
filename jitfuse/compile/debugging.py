"""What JITFUSE_DEBUG asks for: checks after every pass, and whole tracebacks."""
from __future__ import annotations

import os

from jitfuse.ir.program import FusedProgram


def debugging() -> bool:
    """Return whether JITFUSE_DEBUG asks for checks after every pass."""
    return bool(os.environ.get("JITFUSE_DEBUG"))


def verified(name: str, program: FusedProgram) -> None:
    """Check a program after a pass; only debugging pays for the verifier's import."""
    from jitfuse.ir.verify import verify

    verify(program)
