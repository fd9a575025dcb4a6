"""NumPy's handling of floating-point errors, as far as kernels do not support it.

Kernels do not check floating-point flags. A function that has errors raised, logged, printed or passed to a callback
runs as plain Python. Warnings, NumPy's default, are left out (docs/differences.md).
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy._core import umath

from jitfuse.errors import UntraceableError
from jitfuse.tracing.record.source import user_line

SHOWN: Final = frozenset({"raise", "call", "print", "log"})
"""The options of `np.errstate` that have a visible effect other than warnings."""
_VARIABLE: Any = umath._extobj_contextvar
current: Final = _VARIABLE.get
"""Return the state: a new object wherever `np.errstate` is entered or `np.seterr` called."""


def asked_for() -> str:
    """Return the options that are set beyond warnings, as arguments of `np.errstate`; "" for none."""
    return ", ".join(f"{kind}={what!r}" for kind, what in sorted(np.geterr().items()) if what in SHOWN)


def reject_shown() -> None:
    """Raise UntraceableError where the traced function has set such an option."""
    options = asked_for()
    if options:
        raise UntraceableError(
            f"the function computes under np.errstate({options}), at {user_line()}, but fused kernels do not check "
            "floating-point flags. Check the results instead (np.isfinite)."
        )
