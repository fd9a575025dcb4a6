"""The library calls of a plan as callables over ndarrays: operands first, the result's memory last.

Owns how an operator's NumPy reference becomes a step of the native driver. What it raises ends the call and reaches
the user as it is, with a note that names the step and the line; results, arguments and state are written later.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.ir import ops

if TYPE_CHECKING:
    from jitfuse.compile.call_plan import LibraryCall
    from jitfuse.plans import HostCall


def host_function(call: HostCall | LibraryCall) -> Callable[..., None]:
    """Return what carries out a library call."""
    op = ops.get(call.name)
    assert op is not None and op.kind in ops.ON_HOST, call.name
    attrs = dict(call.attrs)
    if call.name == "matmul":
        return _matmul
    reference = op.numpy
    where = f"in {call.name}" + (f", written at {call.source}" if call.source else "")

    def run(*arrays: Any) -> None:
        *operands, out = arrays
        try:
            with np.errstate(all="ignore"):
                out[...] = reference(*operands, **attrs)
        except Exception as error:
            error.add_note(where)
            raise

    return run


def _matmul(a: Any, b: Any, out: Any) -> None:
    np.matmul(a, b, out=out)
