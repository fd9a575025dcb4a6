"""Chain contractions: merge two launches if the second reads, row by row, the value that the first one makes.

The value between them is then never stored in memory: only a block of its rows lies in scratch. Examples are
softmax(q k^T) v without its scores, and any product of a product. Owns which launches are chained, and the launch of a
chain.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.blocking import block_counts, link_bytes, link_row_bytes, row_axis
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.plans.launch import Launch

MAX_BETWEEN = 1 << 14
"""The most elements that a row of the intermediate value may have."""


class Link(NamedTuple):
    """What joins two launches: their numbers, and in each the operand that is the intermediate value."""

    first: int
    second: int
    operands: tuple[int, int]


def chain(steps: Sequence[Any], touched: Sequence[Collection[Any]], delivered: Collection[Any]) -> list[Any]:
    """Return the steps with launches chained where possible; a launch is in at most one chain.

    `touched[k]` are the buffers of step k, then those used after all steps. `delivered` are the buffers of results.
    """
    made = list(steps)
    buffers = [set(t) for t in touched]
    k = 0
    while k < len(made):
        link = _link(made, buffers, k, delivered)
        if link is not None:
            made[link.second] = _chained(made[link.first], made[link.second], link.operands)
            buffers[link.second] |= buffers[link.first]
            del made[link.first], buffers[link.first]
        else:
            k += 1
    return made


def _link(steps: list[Any], buffers: list[set[Any]], second: int, delivered: Collection[Any]) -> Link | None:
    """Return the link that chains a step to an earlier one, or None."""
    reader = steps[second]
    if not isinstance(reader, Launch) or not _walks_rows(reader.form):
        return None
    for o, (buffer, offset) in enumerate(reader.buffers):
        if buffer[0] != "value" or buffer in delivered or offset:
            continue
        users = [k for k, used in enumerate(buffers) if buffer in used]
        if len(users) != 2 or users[1] != second or not isinstance(steps[users[0]], Launch):
            continue
        writer = steps[users[0]]
        stores = [k for k, (b, at) in enumerate(writer.buffers) if b == buffer and at == 0]
        between = set().union(*buffers[users[0] + 1 : second])
        changed = set().union(*map(written, steps[users[0] + 1 : second]))
        if between & written(writer) or changed & buffers[users[0]]:
            continue
        if len(stores) == 1 and _fit(writer, reader, (stores[0], o)) and _independent(writer, reader, o):
            return Link(users[0], second, (stores[0], o))
    return None


def _walks_rows(form: KernelForm) -> bool:
    return bool(form.contracted) and form.then is None and form.lane_axis >= len(form.grid)


def written(step: Any) -> set[Any]:
    """Return the buffers that a step writes."""
    if not isinstance(step, Launch):
        return {o.buffer for o in step.outputs}
    form = step.form
    operands = list(form.operands)
    if form.then is not None:
        first, second = form.link
        operands = [o for k, o in enumerate(operands) if k != first]
        operands += [o for k, o in enumerate(form.then.operands) if k != second]
    return {b for (b, _), o in zip(step.buffers, operands, strict=True) if o.out}


def _independent(writer: Launch, reader: Launch, operand: int) -> bool:
    """Return whether two launches share only the operand, and otherwise at most values that are one number per row."""
    if written(reader) & {b for b, _ in writer.buffers}:
        return False
    made, grid = written(writer), len(reader.form.grid)
    for o, location in enumerate(reader.buffers):
        if o == operand or location[0] not in made:
            continue
        if location[0] == reader.buffers[operand][0]:
            return False  # the intermediate value lies only in scratch
        stored = writer.buffers.index(location) if location in writer.buffers else -1
        steps = _steps(reader, o)
        if stored < 0 or steps[:grid] != _steps(writer, stored)[:grid] or any(steps[grid:]):
            return False
    return True


def _fit(writer: Launch, reader: Launch, operands: tuple[int, int]) -> bool:
    """Return whether a block of the reader's rows needs only what the writer makes for the same rows."""
    first, second = writer.form, reader.form
    if not _walks_rows(first) or writer.sizes[: len(first.grid)] != reader.sizes[: len(second.grid)]:
        return False
    if writer.sizes[first.lane_axis] > MAX_BETWEEN:
        return False
    stored, loaded = first.operands[operands[0]], second.operands[operands[1]]
    grid = len(first.grid)
    if (stored.strides[grid:], loaded.strides[grid:]) != (("1", "0"), ("0", "1")) or not stored.out or loaded.out:
        return False
    if stored.strides[:grid] != loaded.strides[:grid] or stored.strides[grid - 1] != "n":
        return False
    if any(c == "1" for c in stored.strides[:grid]) or writer.sizes[first.lane_axis] != reader.sizes[-1]:
        return False
    plain = all(i.imm[1:] == (False, False) for i in _accesses(first, operands[0]) + _accesses(second, operands[1]))
    in_sides = len(_accesses(second, operands[1], contract=True)) == len(_accesses(second, operands[1]))
    return plain and in_sides and _steps(writer, operands[0])[:grid] == _steps(reader, operands[1])[:grid]


def _accesses(form: KernelForm, operand: int, *, contract: bool = False) -> list[Any]:
    return [
        i for s in form.stages if not contract or s.contraction is not None
        for i in s.body if i.op in ("load", "store") and i.imm[0] == operand
    ]


def _steps(launch: Launch, operand: int) -> list[int]:
    """Return an operand's strides in bytes along the axes of the launch; 0 along those of one element."""
    form, own = launch.form, launch.form.operands[operand]
    words = {a: w for (o, a), w in zip(form.words.strides, launch.words, strict=False) if o == operand}
    known = [words.get(a, itemsize(own.dtype) * int(c) if c != "n" else 0) for a, c in enumerate(own.strides)]
    return [step if launch.sizes[a] != 1 else 0 for a, step in enumerate(known)]


def _chained(writer: Launch, reader: Launch, link: tuple[int, int]) -> Launch:
    """Return the launch of a chain."""
    form = writer.form.replace(then=reader.form, link=link)
    row_bytes = link_row_bytes(form, writer.sizes)
    row_blocks, _ = block_counts(form, writer.sizes)
    words: list[int] = []
    for launch, operand in zip((writer, reader), link, strict=True):
        own = list(launch.words)
        for k, (o, axis) in enumerate(launch.form.words.strides):
            if o == operand:
                own[k] = row_bytes if axis == row_axis(launch.form) else 0
        own[-3:-1] = [row_blocks, 1]
        words += own
    words.append(link_bytes(form, writer.sizes))
    pairs = zip((writer, reader), link, strict=True)
    buffers = [b for launch, o in pairs for k, b in enumerate(launch.buffers) if k != o]
    between = itemsize(form.operands[link[0]].dtype) * math.prod(writer.sizes[: form.lane_axis + 1])
    moved = writer.bytes_moved + reader.bytes_moved - 2 * between
    return Launch(form, tuple(buffers), tuple(words), writer.sizes + reader.sizes, moved)
