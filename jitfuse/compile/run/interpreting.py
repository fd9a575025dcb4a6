"""Runs a trace in the interpreter: the fallback of calls whose kernels cannot be built.

Owns the order: results, then writes and state, after everything that can raise. Results agree with native ones within
the operators' tolerance.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.compile.run.delivery import Delivery, State, bind_feeds, returned_tensors
from jitfuse.tracing.trace import Trace


def interpret(
    trace: Trace, training: bool, args: Sequence[Any], kwargs: Mapping[str, Any], state: State
) -> Delivery:
    """Return the delivery of the traced function for arguments that match the trace's signature."""
    bound = bind_feeds(trace, args, kwargs, state)
    ran = ProgramRunner(trace.program)({feed: bound[feed] for feed in trace.program.feeds}, training=training)
    given = {id(value) for value in bound.values()}
    # a feed among a program's outputs is a copy; results that are arguments themselves come from `bound`
    outputs = {
        path: value.copy() if type(value) is np.ndarray and id(value) in given else value
        for path, value in ran.outputs.items()
    }
    for feed, value in {**ran.writes, **ran.state}.items():
        np.copyto(bound[feed], value)
    if trace.torch:
        bound |= returned_tensors(trace, args, kwargs)
    return Delivery.of(trace.result, outputs, bound)
