"""Dtype rules that NumPy's ufuncs state themselves: the loop that `ufunc.resolve_dtypes` finds.

Does not own rules of operators that are no ufuncs, see `jitfuse.ir.rules`.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jitfuse.dtypes import SUPPORTED, numpy_dtype
from jitfuse.errors import DTypeError
from jitfuse.ir.program import Meta
from jitfuse.ir.rules import Loop, LoopRule

_PYTHON: dict[str, Any] = {"bool": np.dtype(bool), "int64": int, "float64": float, "complex128": complex}
"""What stands for a weak operand of each dtype."""


def loop_of(ufunc: Any, result: int = 0) -> LoopRule:
    """Return the rule of a ufunc, for its k-th result where it has several.

    It raises DTypeError where the ufunc has no loop, or one in a dtype that programs do not hold.
    """

    def rule(name: str, metas: Sequence[Meta]) -> Loop:
        found = _resolved(ufunc, tuple((m.dtype, m.weak) for m in metas))
        if found is None:
            raise DTypeError(f"{name} does not take {', '.join(m.dtype for m in metas)}. Cast first with astype.")
        found = _in_supported(found, ufunc.nin, found[ufunc.nin + result])
        odd = [d for d in (*found[: ufunc.nin], found[ufunc.nin + result]) if d not in SUPPORTED]
        if odd:
            raise DTypeError(f"{name} of {', '.join(m.dtype for m in metas)} has the dtype {odd[0]} in NumPy, which "
                             "is not supported. Cast first with astype.")
        return Loop(found[: ufunc.nin], found[ufunc.nin + result])

    return rule


def _in_supported(found: tuple[str, ...], operands: int, result: str) -> tuple[str, ...]:
    """Return the loop with float32 for a float16 that only operands have: bools, which are the same in it."""
    if "float16" in SUPPORTED or result == "float16":
        return found
    return (*("float32" if d == "float16" else d for d in found[:operands]), *found[operands:])


@lru_cache(maxsize=4096)
def _resolved(ufunc: Any, operands: tuple[tuple[str, bool], ...]) -> tuple[str, ...] | None:
    given = [_PYTHON[d] if weak else numpy_dtype(d) for d, weak in operands]
    try:
        return tuple(d.name for d in ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout)))
    except TypeError:
        return None
