"""torch's in-place methods that change a tensor's axes or memory.

Owns their entries in `jitfuse.tracing.torch_like.table`. Changes of axes raise for tensors from outside of the
function, because the caller's tensor would change too.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like import shapes
from jitfuse.tracing.torch_like.promotion import numbers
from jitfuse.tracing.torch_like.table import method


def _changed(name: str, change: Callable[..., Any]) -> None:
    """Register an in-place method that makes the tensor another view of its memory."""
    @method(name)
    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        x = self.tensor
        if x is x._run.feed_tensors.get(x._storage.feed.id if x._storage.feed is not None else None):
            raise UnsupportedError(
                f"Tensor.{name} of a tensor from outside of the fused function, at {user_line()}: its axes would "
                f"change for the caller too. Use x.{name[:-1]}(...), and return the result.")
        self.become(change(self, *args, **kwargs).tensor)
        return self


for _name, _change in {
    "unsqueeze_": shapes.unsqueeze, "squeeze_": shapes.squeeze, "transpose_": shapes.transpose, "t_": shapes.t,
    "swapaxes_": shapes.transpose, "swapdims_": shapes.transpose,
}.items():
    _changed(_name, _change)


@method("fill_diagonal_")
def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Write a number on the diagonal."""
    if wrap:
        raise UnsupportedError(f"fill_diagonal_(wrap=True) is not available, at {user_line()}")
    x = self.tensor
    n = min(x.shape)
    line = x.create("arange", count=n, dtype="int64")
    x[(line,) * x.ndim] = numbers(fill_value)
    return self
