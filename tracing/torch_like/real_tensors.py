"""Real torch tensors as traced tensors: the tensor of a feed, and real tensors among the operands of a function.

Owns nothing that wraps a tensor as torch's; how real tensors become feeds is in `jitfuse.tracing.torch_like.modules`.
"""
from __future__ import annotations

from typing import Any

import torch

from jitfuse.errors import UntraceableError
from jitfuse.tracing.record.foreign import tensor_as_array
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.session import Feed
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import from_feed


def run_of_trace() -> Recorder:
    """Return the current trace."""
    run = active()
    assert run is not None, "torch's functions over traced tensors run in a trace alone"
    return run


def tensor_of(run: Recorder, feed: Feed) -> Tensor:
    """Return a feed's traced tensor, the same object each time in a trace."""
    found: Tensor | None = run.feed_tensors.get(feed.id)
    if found is None:
        found = run.feed_tensors[feed.id] = from_feed(run, feed)
    return found


def known(tensor: Any) -> Tensor | None:
    """Return the traced tensor of a real one to which an argument, a name or an attribute leads, or None."""
    run = run_of_trace()
    found = run.session.met.get(id(tensor))
    return None if found is None else tensor_of(run, found[1])


def met(tensor: Any) -> Tensor:
    """Return the traced tensor of a real tensor among a function's operands; one made in the call is a constant."""
    found = known(tensor)
    if found is not None:
        return found
    if isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad:
        raise UntraceableError(
            f"a parameter that no name, attribute or module leads to is used at {user_line()}: its changes would not "
            "be seen. Keep it in an nn.Module or an attribute, or pass it as an argument."
        )
    return lift(run_of_trace(), tensor_as_array(tensor))
