"""PatternOp: a TensorOp whose errors are einops', shown in the user's pattern."""
from __future__ import annotations

from jitfuse.axes.faults import Fault
from jitfuse.axes.operation import TensorOp
from jitfuse.einops.errors import EinopsError


class PatternOp(TensorOp):
    """An operation that a pattern wrote."""

    __slots__ = ()

    def error(self, fault: Fault) -> EinopsError:
        """Return the error for a fault, with the call's text."""
        error = super().error(fault)
        return EinopsError(error.code, error.reason, written=error.written, sizes=error.sizes, help=fault.help)
