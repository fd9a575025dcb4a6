"""The host steps of a plan as callables over ndarrays: operands first, the results' memory last.

Owns how an operator's NumPy reference becomes a step of the native driver; for a loop or branch it runs their bodies.
An error of a step ends the call and reaches the user unchanged, with a note that names the step and the line; an index
out of bounds as the error that kernels raise for it. Results, arguments and state are written later.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.base.later import Later
from jitfuse.errors import BoundsError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram

semiring_step = Later("jitfuse.compile.bind.semiring_step")

if TYPE_CHECKING:
    from jitfuse.compile.call_plans.call_plan import LibraryCall
    from jitfuse.plans import HostCall


def host_function(
    call: HostCall | LibraryCall, bodies: Callable[[], dict[str, Any]] | None = None
) -> Callable[..., None]:
    """Return the function that runs a host step.

    `bodies` returns, by attribute, runners of the programs that the step holds, for one run of it. Without it the
    interpreter runs them.
    """
    op = ops.get(call.name)
    assert op is not None and op.kind in ops.ON_HOST, call.name
    if call.name == "matmul":
        return np.matmul  # its third parameter is `out`
    if call.name == "semiring_sums":
        return semiring_step.semiring_step(call)
    attrs, count = dict(call.attrs), len(call.inputs)
    reference, is_of_many, into = op.numpy, op.is_of_many, op.into
    where = f"in {call.name}" + (f", written at {call.source}" if call.source else "")
    make = bodies if bodies is not None else lambda: _interpreted(attrs)

    def run(*arrays: Any) -> None:
        operands, results = arrays[:count], arrays[count:]
        try:
            if into is not None:
                into(results[0], *operands, **attrs)
                return
            with np.errstate(all="ignore"):
                if not is_of_many:
                    results[0][...] = reference(*operands, **attrs)
                    return
                for result, value in zip(results, reference(*operands, **{**attrs, **make()}), strict=True):
                    result[...] = value
        except Exception as error:
            if type(error) is IndexError:
                raise BoundsError(f"{error}, {where}") from None
            error.add_note(where)
            raise

    return run


def _interpreted(attrs: dict[str, Any]) -> dict[str, Any]:
    from jitfuse.backends.interpreter.runner import NestedProgram

    return {name: NestedProgram(value, False) for name, value in attrs.items() if isinstance(value, FusedProgram)}
