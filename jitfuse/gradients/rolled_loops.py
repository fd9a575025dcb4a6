"""Re-rolled loops as scans: windows of all iterations are stacked before the loop, and written behind it.

A window that reads what an earlier iteration has written, as `out[i - 1]` does beside `out[i] = ...`, is a part of a
carried value. Owns which loops are scans. Does not own what a scan remembers (`jitfuse.gradients.loops`).
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.gradients.bodies import arranged
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.ir.semantics.rerolled import IterationWindow, accesses
from jitfuse.tracing.program_builder import ProgramBuilder

_FARTHEST: Final = 16
"""The most iterations back that a window reads: each is one more carried value."""


class _Loop(NamedTuple):
    """A re-rolled loop's attributes, its windows decoded."""

    body: FusedProgram
    carries: int
    arrays: int
    length: int
    reads: list[IterationWindow]
    writes: list[IterationWindow]

    @property
    def wholes(self) -> Sequence[int]:
        """The body's feeds of the arrays as wholes: the written ones, then the others."""
        return self.body.ordered_feeds[self.carries + len(self.reads) :]


class _Source(NamedTuple):
    """What a window reads: the elements from `start` on, `step` apart, of the window that was written `far` before.

    far 0: the array as it was before the loop.
    """

    far: int
    start: int = 0
    step: int = 1


_UNCHANGED: Final = _Source(0)


class RolledScan(NamedTuple):
    """The scan that a loop is: `queued` of its carries are what earlier iterations have written."""

    builder: ProgramBuilder
    loop: _Loop
    operands: Sequence[int]
    attrs: Mapping[str, Any]
    queued: int
    written: Sequence[int]

    def results(self, made: Sequence[int]) -> list[int]:
        """Return the loop's results, of those of the scan: carried values, and arrays with all windows written."""
        carries, arrays = self.loop.carries, list(self.written)
        for window, stacked in zip(self.loop.writes, made[carries + self.queued :], strict=False):
            x = self.builder.tensor(arrays[window.operand])
            arrays[window.operand] = _written(x, window, self.builder.tensor(stacked), self.loop.length).id
        return [*made[:carries], *arrays]


def is_scan(step: OpStep) -> bool:
    """Tell whether a step is no re-rolled loop, or one that is a scan."""
    return step.op_name != "rolled_loop" or _sources(_decoded(step)) is not None


def scan_of(builder: ProgramBuilder, inputs: Sequence[int], step: OpStep) -> RolledScan | None:
    """Return a re-rolled loop as a scan, or None where its iterations read their arrays in another way."""
    loop = _decoded(step)
    found = _sources(loop)
    if found is None:
        return None
    operands = inputs[loop.carries :]
    queues: list[int] = []
    parts: list[int] = []
    for window, source in zip(loop.reads, found, strict=True):
        x = builder.tensor(operands[window.operand])
        if source.far:
            queues += [_parts(x, w, 1).reshape(w.shape).id for w in _before(loop, window, source.far)]
        else:
            parts.append(_parts(x, window, loop.length).id)
    attrs = {"body": _queueing(loop, found), "carries": loop.carries + len(queues), "scanned": len(parts),
             "length": loop.length, "reverse": False}
    given = [*inputs[: loop.carries], *queues, *parts, *operands]
    return RolledScan(builder, loop, given, attrs, len(queues), operands[: loop.arrays])


def _decoded(step: OpStep) -> _Loop:
    attrs = step.attr_dict
    return _Loop(attrs["body"], attrs["carries"], attrs["arrays"], attrs["length"], accesses(attrs["reads"]),
                 accesses(attrs["writes"]))


def _writer(loop: _Loop, read: IterationWindow) -> IterationWindow | None:
    return next((window for window in loop.writes if window.operand == read.operand), None)


def _before(loop: _Loop, read: IterationWindow, far: int) -> list[IterationWindow]:
    """Return the windows that would have been written by the iterations before the first one."""
    writer = _writer(loop, read)
    assert writer is not None
    return [writer._replace(offset=writer.offset - k * writer.step) for k in range(far, 0, -1)]


# ---------------------------------------------------------------- what windows read
def _sources(loop: _Loop) -> list[_Source] | None:
    """Return what each window reads; None where some read in another way, or an array is read as a whole."""
    written = {window.operand for window in loop.writes}
    if len(written) < len(loop.writes) or any(map(loop.body.consumers.get, loop.wholes[: loop.arrays])):
        return None
    found: list[_Source] = []
    for window in loop.reads:
        writer = _writer(loop, window)
        source = _UNCHANGED if writer is None else _source(loop, window, writer)
        if source is None or (window.weak and source.far):
            return None
        found.append(source)
    return found


def _source(loop: _Loop, read: IterationWindow, write: IterationWindow) -> _Source | None:
    reads, writes = _elements(read), _elements(write)
    if not len(reads) or not len(writes) or _apart(read, reads, write, writes, loop.length):
        return _UNCHANGED
    if read.step != write.step or not write.step or (np.diff(writes) <= 0).any():
        return None
    ahead, rest = np.divmod(write.offset - read.offset + writes - reads[0], write.step)
    for far in ahead[rest == 0].tolist():
        sought = reads + read.offset - write.offset + far * write.step
        at = np.searchsorted(writes, sought)
        if at.max() < len(writes) and np.array_equal(writes[at], sought):
            break
    else:
        return None
    if not _is_disjoint(write, writes, loop.length + abs(far)):
        return None
    if far <= 0:
        return _UNCHANGED
    moves, first = set(np.diff(at).tolist()), write._replace(offset=write.offset - far * write.step)
    if far > _FARTHEST or len(moves) > 1 or not first.within(loop.body.meta[loop.wholes[read.operand]].size, far):
        return None
    return _Source(far, int(at[0]), moves.pop() if moves else 1)


def _elements(window: IterationWindow) -> Any:
    """Return the elements of a window relative to its beginning, in C order."""
    found = np.zeros((), dtype=np.int64)
    for n, stride in zip(window.shape, window.strides, strict=True):
        found = found[..., None] + np.arange(n) * stride
    return found.ravel()


def _apart(read: IterationWindow, reads: Any, write: IterationWindow, writes: Any, length: int) -> bool:
    """Return whether all that is read lies on one side of all that is written."""
    def ends(window: IterationWindow, elements: Any) -> tuple[int, int]:
        far = (length - 1) * window.step
        return (window.offset + min(far, 0) + int(elements.min()), window.offset + max(far, 0) + int(elements.max()))

    (a, b), (c, d) = ends(read, reads), ends(write, writes)
    return b < c or d < a


def _is_disjoint(window: IterationWindow, elements: Any, count: int) -> bool:
    """Return whether a window has no element in common with itself of fewer than `count` iterations later."""
    if abs(window.step) > elements.max() - elements.min():
        return True
    apart = math.gcd(*[s for n, s in zip(window.shape, window.strides, strict=True) if n > 1])
    return abs(window.step) * count <= apart  # as columns are, which do not reach the next row


def _queueing(loop: _Loop, sources: Sequence[_Source]) -> FusedProgram:
    """Return the body with parts of carried windows in place of what reads those that earlier iterations wrote."""
    body, builder = loop.body, ProgramBuilder(FusedProgram(frozenset(), (), {}, {}))
    feeds = {feed: builder.placeholder(body.meta[feed]) for feed in body.ordered_feeds}
    queues: list[list[int]] = []
    order, parts = [feeds[feed] for feed in body.ordered_feeds[: loop.carries]], []
    for window, source, feed in zip(loop.reads, sources, body.ordered_feeds[loop.carries :], strict=False):
        if not source.far:
            parts.append(builder.placeholder(body.meta[feed]._replace(weak=False)))
            feeds[feed] = builder.tensor(parts[-1]).call("python_number").id if window.weak else parts[-1]
            continue
        written = next(k for k, w in enumerate(loop.writes) if w.operand == window.operand)
        meta = body.meta[list(body.outputs.values())[loop.carries + written]]._replace(weak=False)
        queues.append([builder.placeholder(meta) for _ in range(source.far)])
        flat = builder.tensor(queues[-1][0]).reshape((meta.size,))
        count = math.prod(window.shape)
        read = flat.call("slice", starts=(source.start,), steps=(source.step,), counts=(count,))
        feeds[feed] = read.reshape(window.shape).id
    made = [x.id for x in builder.inlined(body, [builder.tensor(feeds[feed]) for feed in body.ordered_feeds])]
    new = dict(zip([w.operand for w in loop.writes], made[loop.carries :], strict=True))
    queued = [w.operand for w, source in zip(loop.reads, sources, strict=True) if source.far]
    following = [i for queue, operand in zip(queues, queued, strict=True) for i in (*queue[1:], new[operand])]
    order += [*[i for queue in queues for i in queue], *parts, *[feeds[feed] for feed in loop.wholes]]
    outputs = {str(k): i for k, i in enumerate([*made[: loop.carries], *following, *made[loop.carries :]])}
    return arranged(builder.finish({}, outputs=outputs, feeds=frozenset(order)), order, outputs)


# ---------------------------------------------------------------- windows of all iterations
def _parts(x: Any, window: IterationWindow, length: int) -> Any:
    """Return the windows of all iterations, stacked along a first axis."""
    flat = x.reshape((x.size,))
    if _is_range(window):
        whole = flat.call("slice", starts=(window.offset,), steps=(1,), counts=(length * window.step,))
        return whole.reshape((length, *window.shape))
    return flat.call("gather", _places(x, window, length), axes=(0,), place=0)


def _written(x: Any, window: IterationWindow, stacked: Any, length: int) -> Any:
    """Return an array with the windows of all iterations replaced."""
    flat = x.reshape((x.size,))
    if _is_range(window):
        values = stacked.reshape((stacked.size,))
        made = flat.call("update_slice", values, starts=(window.offset,), steps=(1,), counts=(stacked.size,))
    else:
        made = flat.call("scatter", stacked, _places(x, window, length), axes=(0,), place=0, combine="set")
    return made.reshape(x.shape)


def _is_range(window: IterationWindow) -> bool:
    """Tell whether the windows of iterations lie one behind the other."""
    return window.contiguous and window.step == math.prod(window.shape)


def _places(x: Any, window: IterationWindow, length: int) -> Any:
    """Return the indices of the windows of all iterations in the flat array."""
    rank, index = len(window.shape), None
    for k, (count, stride) in enumerate(zip((length, *window.shape), (window.step, *window.strides), strict=True)):
        along = x.create("arange", start=0, step=stride, count=count, dtype="int64") if stride else x.create(
            "zeros", shape=(count,), dtype="int64")
        along = along.reshape(tuple(count if a == k else 1 for a in range(rank + 1)))
        index = along.add(window.offset) if index is None else index.add(along)
    return index
