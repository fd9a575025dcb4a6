"""Dtype rules derived from NumPy's ufuncs: the loop that `ufunc.resolve_dtypes` finds.

Does not own the rules of operators that are no ufuncs (`jitfuse.ir.rules.dtype_rules`).
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jitfuse.dtypes import SUPPORTED, kind, numpy_dtype, ufunc_type
from jitfuse.errors import DTypeError, UnsupportedDTypeError
from jitfuse.ir.rules.dtype_rules import DtypeRule, LoopRule
from jitfuse.ir.schema import Meta

_PYTHON: dict[str, Any] = {"bool": np.dtype(bool), "int64": int, "uint64": int, "float64": float, "complex128": complex}
"""What represents a weak operand of each dtype."""


def loop_of(ufunc: Any, result: int = 0) -> LoopRule:
    """Return the rule of a ufunc, for its k-th result if it has several.

    The rule raises DTypeError if the ufunc has no loop, or one in an unsupported dtype.
    """

    def rule(name: str, metas: Sequence[Meta]) -> DtypeRule:
        found = _resolved(ufunc, tuple((m.dtype, m.weak) for m in metas))
        if found is None:
            raise DTypeError(f"{name} does not take {', '.join(m.dtype for m in metas)}. Cast first with astype.")
        odd = [d for d in (*found[: ufunc.nin], found[ufunc.nin + result]) if d not in SUPPORTED]
        if odd:
            raise UnsupportedDTypeError(
                f"{name} of {', '.join(m.dtype for m in metas)} has the dtype {odd[0]} in NumPy, which is not "
                "supported. Cast first with astype."
            )
        return DtypeRule(found[: ufunc.nin], found[ufunc.nin + result])

    return rule


@lru_cache(maxsize=4096)
def _resolved(ufunc: Any, operands: tuple[tuple[str, bool], ...]) -> tuple[str, ...] | None:
    given = [_PYTHON[d] if weak else numpy_dtype(d) for d, weak in operands]
    if ("bfloat16", False) in operands:
        return _resolved_by_trial(ufunc, operands)
    try:
        return tuple(d.name for d in ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout)))
    except TypeError:
        return None


def _resolved_by_trial(ufunc: Any, operands: tuple[tuple[str, bool], ...]) -> tuple[str, ...] | None:
    """Return the loop that a ufunc finds for ml_dtypes, which `resolve_dtypes` does not search as a call does.

    None if operands have separate dtypes, so that there is no common one to compute in. ldexp's exponent, an integer in
    every loop, does not count as separate.
    """
    loops = [types for types in ufunc.types if not {*types} & {*"mM"}]  # times have dtypes of their own
    whole = [all(types[k] in "ilq" for types in loops) for k in range(ufunc.nin)]
    if any(len({d for d, w in zip(types, whole, strict=False) if not w}) > 1 for types in loops):
        return None
    one = {"bool": True, "int64": 1, "uint64": 1, "float64": 1.0, "complex128": 1j}
    empty = [one[d] if weak else np.zeros(0, numpy_dtype(d)) for d, weak in operands]
    try:
        results = ufunc(*empty)
    except TypeError:
        return None
    results = results if isinstance(results, tuple) else (results,)
    dtype = str(results[0].dtype.name)
    if kind(dtype) not in ("float", "complex"):
        dtype = ufunc_type(operands)[0]
    exponent = "int32" if dtype == "bfloat16" else "int64"
    return (*(exponent if w else dtype for w in whole), *(r.dtype.name for r in results))
