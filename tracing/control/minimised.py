"""The gradient of a value that a trace has computed: the steps behind it are cut out of the trace and differentiated.

`jf.grad` records a function; here the loss is there already, made from parameters that the function has read. Owns the
cut. Does not own the transform (`jitfuse.gradients`), nor what is done with gradients (`jitfuse.optim`).
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jitfuse.errors import DerivativeError
from jitfuse.gradients.programs import reverse
from jitfuse.tracing.control.combinators import strong
from jitfuse.tracing.control.derivatives import spliced
from jitfuse.tracing.control.reroll.programs import rerolled
from jitfuse.tracing.record.foreign import bare
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import body_of, program_of
from jitfuse.tracing.record.session import TracedRegion
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id


def gradients_of(run: Recorder, what: str, loss: Any, parameters: Sequence[int]) -> list[TracedTensor | None]:
    """Return the gradients of a loss by feeds of the trace; None by one that the loss does not depend on.

    Raises DerivativeError for a loss that is no real number of a float dtype, or has been computed elsewhere.
    """
    value = _scalar(run, what, loss)
    if run.session.region is not None:
        raise DerivativeError(f"{what} at {user_line()} is called in {run.session.region.name}: call it in the fused "
                              "function itself, behind the loop or branch.")
    body = body_of(run.session, TracedRegion("the loss", 0, None), (value,))
    wanted = [p for p in parameters if p in body.captured]
    captured = sorted(body.captured)
    program = rerolled(program_of(run.session, body, [], captured))
    feeds = dict(zip(captured, program.ordered_feeds, strict=True))
    made = reverse(program, [feeds[p] for p in wanted]).last()
    one = run.scalar(1.0, run.graph.metas[value].dtype)
    ids = spliced(run, made.program, made.program.steps, {
        **dict(zip(program.ordered_feeds, captured, strict=True)), **dict.fromkeys(made.changes, one)})
    found = {p: fresh(run, ids[made.program.outputs[f"d{k}"]]) for k, p in enumerate(wanted)}
    return [found.get(p) for p in parameters]


def _scalar(run: Recorder, what: str, loss: Any) -> int:
    tensor = lift(run, bare(loss)) if isinstance(bare(loss), TracedTensor) else None
    if tensor is None:
        raise DerivativeError(f"{what} at {user_line()}: the loss is a {type(loss).__name__}, which depends on no "
                              "parameter. Compute it in the fused function, of parameters.")
    tensor = strong(tensor)
    if tensor.shape or str(tensor.dtype) not in ("float16", "float32", "float64", "bfloat16"):
        raise DerivativeError(f"{what} at {user_line()}: the loss is {tensor._meta}, and must be one real number of a "
                              "float dtype. Take its mean or sum.")
    return tensor_id(tensor)


@contextlib.contextmanager
def standing_for(arrays: Sequence[TracedTensor], values: Sequence[TracedTensor]) -> Iterator[None]:
    """Make what the function reads of arrays be other values: a loss is computed where they might be moved to."""
    storages = [array._storage for array in arrays]
    before = [(storage.value, storage.cache) for storage in storages]
    for storage, value in zip(storages, values, strict=True):
        storage.value, storage.cache = tensor_id(value), {}
    try:
        yield
    finally:
        for storage, (held, cache) in zip(storages, before, strict=True):
            storage.value, storage.cache = held, cache
