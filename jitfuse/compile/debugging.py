"""The effects of JITFUSE_DEBUG: checks after every pass, and whole tracebacks."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitfuse.ir.program import FusedProgram

if TYPE_CHECKING:
    from jitfuse.ir.kernels.form import KernelForm


def debugging() -> bool:
    """Return whether JITFUSE_DEBUG asks for checks after every pass and for whole tracebacks."""
    return bool(os.environ.get("JITFUSE_DEBUG"))


def verified(name: str, program: FusedProgram) -> None:
    """Check a program after a pass; only debugging pays for the verifier's import."""
    from jitfuse.ir.analysis.verify import verify

    verify(program)


def verified_forms(forms: Sequence[KernelForm]) -> None:
    """Check the kernel forms of a plan."""
    from jitfuse.ir.kernels.verify_form import verify_form

    for form in forms:
        verify_form(form)
