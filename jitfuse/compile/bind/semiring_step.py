"""A step that runs a table of records: the native function over the arrays of a call."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.compile.objects.semiring_object import empty, run_records
from jitfuse.ir.semirings.tables import sums

if TYPE_CHECKING:
    from jitfuse.compile.call_plans.call_plan import LibraryCall
    from jitfuse.plans import HostCall


def semiring_step(call: HostCall | LibraryCall) -> Callable[..., None]:
    """Return the function that runs the table of a `semiring_sums` step over its operands, into its result."""
    attrs = dict(call.attrs)
    records, sizes = attrs["records"], (attrs["workspace"], attrs["size"])
    carrier, one = attrs["carrier"], 0.0 if attrs["carrier"] == "log" else 1.0
    known: dict[tuple[int, ...], tuple[np.ndarray, int, bool]] = {}

    def run(*arrays: Any) -> None:
        *stacks, result = map(np.ascontiguousarray, arrays)
        operands = tuple([stack.size for stack in stacks])
        if operands not in known:  # native code runs no table that is not proved harmless
            checked = sums(records, operands, *sizes)
            code = np.frombuffer(records, "<i8").astype(np.int64)
            known[operands] = code, len(checked), any(each.parallel for each in checked)
        code, count, threads = known[operands]
        run_records(carrier, code, count, empty(sizes[0], result.dtype), result, stacks, one=one, threads=threads)
        if result is not arrays[-1]:
            arrays[-1][...] = result

    return run
