"""What NumPy does about floating-point errors, as far as plain Python shows it and kernels do not.

Kernels look at no floating-point flags: a function that has them raised, logged, printed or given to a callback can be
plain Python only. Warnings, NumPy's default, are another matter: they are not raised (docs/differences.md).
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy._core import umath

from jitfuse.errors import UntraceableError
from jitfuse.tracing.record.source import user_line

SHOWN: Final = frozenset({"raise", "call", "print", "log"})
"""What `np.errstate` may ask for that is seen outside of it."""
_VARIABLE: Any = umath._extobj_contextvar
current: Final = _VARIABLE.get
"""Return the state: a new object wherever `np.errstate` is entered or `np.seterr` called."""


def asked_for() -> str:
    """Return what is asked for beyond warnings, as the arguments of `np.errstate`; an empty text for nothing."""
    return ", ".join(f"{kind}={what!r}" for kind, what in sorted(np.geterr().items()) if what in SHOWN)


def refuse_shown() -> None:
    """Raise UntraceableError where the function that is traced has set a state under which errors are seen."""
    options = asked_for()
    if options:
        raise UntraceableError(
            f"the function computes under np.errstate({options}), at {user_line()}, but fused kernels do not look at "
            "floating-point flags. Look at the results instead (np.isfinite)."
        )
