"""Finish a kernel: drop dead nodes, merge axes, choose the lane axis, number values, fill in the words.

The form holds only classes; what belongs to one shape (strides, extents, parameters) goes into the launch.
Owns that split. Does not own bodies (`jitfuse.plans.body`).
"""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import (
    CHUNK,
    MAX_STATIC_EXTENT,
    Axis,
    Instr,
    KernelForm,
    Operand,
    Reduction,
    Stage,
    sum_lanes,
)
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.nodes import INNER, Node
from jitfuse.plans.nodes import Operand as Draft
from jitfuse.plans.stages import StageDraft

STREAM_BYTES: Final = 1 << 24
"""A launch that moves at least this much stores past the caches."""

TINY_ROWS: Final = range(2, MAX_STATIC_EXTENT + 1)
"""Rows this short leave vector lanes idle: lanes run along the grid instead."""

_COMBINE: Final = {"sum": "sum", "min": "min", "max": "max", "any": "any", "all": "all"}


class Launch(NamedTuple):
    """One kernel over one shape: the form, the buffers with byte offsets, and the words after the addresses."""

    form: KernelForm
    buffers: tuple[tuple[Any, int], ...]
    words: tuple[int, ...]
    sizes: tuple[int, ...]
    bytes_moved: int
    steps: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is no grid point: nothing is computed, and no kernel is needed."""
        return 0 in self.sizes[: len(self.form.grid)]


def bits(dtype: str, value: Any) -> int:
    """Return a scalar as the signed 64-bit word that holds its bits in the low bytes."""
    if dtype == "float64":
        raw = struct.pack("<d", value)
    elif dtype == "float32":
        raw = _float32(value)
    else:
        word = int(value) & 0xFFFFFFFFFFFFFFFF
        return word - (1 << 64) if word >= 1 << 63 else word
    return int.from_bytes(raw, "little", signed=True)


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def finish(body: BodyBuilder) -> list[Launch]:
    """Return the launch of a kernel, or two where its reductions are split into partial and final ones."""
    return [_Finisher(body).launch()]


def finish_split(body: BodyBuilder, partials: Sequence[Any]) -> list[Launch]:
    """Return partial and final launches; `partials` are the buffers of the partial rows, one per reduction.

    Where the inner axes do not merge into one, the reduction stays whole.
    """
    finisher = _Finisher(body)
    if len(finisher.inner) != 1:
        return [finisher.launch()]
    return finisher.split_launches(partials)


class _Finisher:
    def __init__(self, body: BodyBuilder) -> None:
        self.body = body
        self.live = _live_nodes(body.stages)
        self.stages = [part for stage in body.stages for part in _parted(stage, self.live)]
        self.operands: list[Draft] = []
        for stage in body.stages:
            for node in stage.nodes:
                if id(node) in self.live and node.op in ("load", "store") and node.imm[0] not in self.operands:
                    self.operands.append(node.imm[0])
        blocks = self._blocks()
        self.grid = [b for b in blocks if b[-1] < body.n_grid]
        self.inner = [b for b in blocks if b[-1] >= body.n_grid]
        self.lane_axis = self._choose_lanes()
        self.params: list[tuple[str, Any]] = []

    # ------------------------------------------------------------------ axes
    def _blocks(self) -> list[list[int]]:
        """Merge neighbouring axes that every operand walks as one and whose position nobody asks for."""
        indexed = {
            n.imm for s in self.body.stages for n in s.nodes if n.op == "index" and id(n) in self.live
        }
        blocks: list[list[int]] = []
        for a in range(len(self.body.extents)):
            joinable = (
                bool(blocks) and a != self.body.n_grid and a not in indexed and a - 1 not in indexed
                and all(o.access.merges[a - 1] for o in self.operands)
            )
            if joinable:
                blocks[-1].append(a)
            else:
                blocks.append([a])
        return blocks

    def _extent(self, block: list[int]) -> int:
        return int(math.prod(self.body.extents[a] for a in block))

    def _unit_score(self, block: list[int]) -> int:
        return sum((3 if o.out else 1) for o in self.operands if o.access.classes[block[-1]] == "1")

    def _choose_lanes(self) -> int:
        """Put the best grid axis last and return the lane axis among the merged axes.

        Lanes along an axis of extent 1 would be idle: such shapes are a size class of their own.
        """
        if self.grid:
            def merit(k: int) -> tuple[bool, int, int]:
                return self._extent(self.grid[k]) != 1, self._unit_score(self.grid[k]), k

            self.grid.append(self.grid.pop(max(range(len(self.grid)), key=merit)))
        last_grid = max(len(self.grid) - 1, 0)
        if not self.inner:
            return last_grid
        if self.grid:
            if math.prod(map(self._extent, self.inner)) in TINY_ROWS:
                return last_grid
            if self._unit_score(self.inner[-1]) == 0 and self._unit_score(self.grid[-1]) > 0:
                return last_grid
        return len(self.grid) + len(self.inner) - 1

    # ------------------------------------------------------------------ the whole kernel
    def launch(self) -> Launch:
        """Return the kernel as one launch."""
        blocks = self.grid + self.inner
        grid = (Axis(),) * len(self.grid) if blocks else (Axis(1),)
        inner = (Axis(),) * len(self.inner)
        sizes = tuple(self._extent(b) for b in blocks) or (1,)
        operands = tuple(self._operand(o, blocks) for o in self.operands)
        stages = self._number(self.stages, blocks)
        return self._assemble(grid, inner, self.lane_axis, operands, stages, sizes, blocks)

    def _operand(self, o: Draft, blocks: list[list[int]]) -> Operand:
        return Operand(o.dtype, tuple(o.access.classes[b[-1]] for b in blocks) or ("0",), o.out)

    def _assemble(
        self, grid: tuple[Axis, ...], inner: tuple[Axis, ...], lane: int, operands: tuple[Operand, ...],
        stages: tuple[Stage, ...], sizes: tuple[int, ...], blocks: list[list[int]],
    ) -> Launch:
        keeps = tuple(n.dtype for n in self.body.keeps)
        form = KernelForm(grid, inner, lane, operands, tuple(d for d, _ in self.params), stages, keeps)
        strides = [self.operands[o].access.strides[blocks[a][-1]] for o, a in form.stride_words]
        return self._with_words(form, strides, sizes, [(o.buffer, o.access.offset) for o in self.operands])

    def _with_words(
        self, form: KernelForm, strides: list[int], sizes: tuple[int, ...], buffers: list[tuple[Any, int]]
    ) -> Launch:
        moved = bytes_moved(form, sizes)
        words = [*strides, *(sizes[a] for a in form.size_words)]
        words += [bits(d, v) for d, v in self.params]
        words.append(int(moved >= STREAM_BYTES))
        return Launch(form, tuple(buffers), tuple(words), sizes, moved)

    # ------------------------------------------------------------------ numbering
    def _number(self, drafts: Sequence[StageDraft], blocks: list[list[int]]) -> tuple[Stage, ...]:
        axis_of = {a: k for k, b in enumerate(blocks) for a in b}
        number, stages = 0, []
        for draft in drafts:
            instructions = []
            for node in draft.nodes:
                if id(node) not in self.live:
                    continue
                node.number = number
                number += 1
                instructions.append(self._instruction(node, axis_of))
            reductions = []
            for step, operand, result in draft.reductions:
                reductions.append(Reduction(_COMBINE[step.op_name], operand.dtype, (operand.number,)))
                result.number = number
                number += 1
            looping = _loops(draft, self.live)
            kind = "reduce" if reductions else "map" if looping and self.inner else "point"
            if instructions or reductions:
                stages.append(Stage(kind, tuple(instructions), tuple(reductions)))
        return tuple(stages)

    def _instruction(self, node: Node, axis_of: dict[int, int]) -> Instr:
        imm = node.imm
        if node.op in ("load", "store"):
            imm = (self.operands.index(imm[0]), imm[1], imm[2])
        elif node.op == "index":
            imm = axis_of[imm]
        elif node.op == "param":
            self.params.append(self.body.params[imm])
            imm = len(self.params) - 1
        return Instr(node.op, node.dtype, tuple(a.number for a in node.args), imm)

    # ------------------------------------------------------------------ split reductions
    def split_launches(self, partials: Sequence[Any]) -> list[Launch]:
        """Return the partial launch (chunks of the inner axis) and the final one (rows, then the epilogue)."""
        (first,) = (stage for stage in self.stages if stage.reductions)
        return [self._partial(first, partials), self._final(first, partials)]

    def _partial(self, first: StageDraft, partials: Sequence[Any]) -> Launch:
        (inner,) = self.inner
        stage, needed = StageDraft(), _needed([operand for _, operand, _ in first.reductions])
        stage.nodes = [n for s in self.stages for n in s.nodes if id(n) in needed]
        stage.reductions = first.reductions
        n, chunks = self._extent(inner), _chunks(self._extent(inner))
        blocks = self.grid + self.inner
        used = [o for o in self.operands if not o.out and _reads(stage, o, self.live)]
        kept, self.operands = self.operands, used
        operands = []
        for o in used:
            classes = [o.access.classes[b[-1]] for b in blocks]
            operands.append(Operand(o.dtype, (*classes[:-1], "0", classes[-1])))
        body = self._number([stage], blocks)[0]
        rank, points = len(self.grid), [self._extent(b) for b in self.grid]
        buffers: list[tuple[Any, int]] = [(o.buffer, o.access.offset) for o in used]
        reductions, strides_of = [], {}
        for k, r in enumerate(body.reductions):
            row = sum_lanes(itemsize(r.dtype)) * itemsize(r.dtype)
            strides_of[len(operands)] = [chunks * math.prod(points[a + 1 :]) * row for a in range(rank)] + [row]
            reductions.append(r._replace(phase="partial", store_to=len(operands)))
            operands.append(Operand(r.dtype, ("n",) * (rank + 1) + ("0",), True))
            buffers.append((partials[k], 0))
        grid = (*[Axis()] * (rank + 1),)
        shifted = tuple(
            i._replace(imm=i.imm + 1) if i.op == "index" and i.imm >= rank else i for i in body.body
        )
        stages = (Stage("reduce", shifted, tuple(reductions)),)
        form = KernelForm(grid, (Axis(),), rank + 1, tuple(operands), tuple(d for d, _ in self.params), stages)
        strides = [
            strides_of[o][a] if o in strides_of else used[o].access.strides[(blocks[a] if a < rank else inner)[-1]]
            for o, a in form.stride_words
        ]
        launch = self._with_words(form, strides, (*points, chunks, n), buffers)
        self.operands, self.params = kept, []
        return launch

    def _final(self, first: StageDraft, partials: Sequence[Any]) -> Launch:
        chunks = _chunks(self._extent(self.inner[0]))
        blocks = [*self.grid, self.inner[0]]
        rank, points = len(self.grid), [self._extent(b) for b in self.grid]
        epilogue = StageDraft()
        # what the partial launch knows about grid points is made again: it costs nothing here
        epilogue.nodes = [n for s in self.stages for n in s.nodes if n.level < INNER]
        self.live = _live_nodes([epilogue])
        self.operands = [o for o in self.operands if _reads(epilogue, o, self.live)]
        operands = [self._operand(o, blocks) for o in self.operands]
        operands = [o._replace(strides=(*o.strides[:-1], "0")) for o in operands]
        buffers: list[tuple[Any, int]] = [(o.buffer, o.access.offset) for o in self.operands]
        reductions, strides_of = [], {}
        for k, (step, operand, result) in enumerate(first.reductions):
            row = sum_lanes(itemsize(operand.dtype)) * itemsize(operand.dtype)
            strides_of[len(operands)] = [chunks * math.prod(points[a + 1 :]) * row for a in range(rank)] + [row]
            reductions.append(
                Reduction(_COMBINE[step.op_name], operand.dtype, (), "final", load_from=len(operands))
            )
            operands.append(Operand(operand.dtype, ("n",) * (rank + 1)))
            buffers.append((partials[k], 0))
            result.number = k
        stages: list[Stage] = [Stage("reduce", (), tuple(reductions))]
        number, instructions = len(reductions), []
        axis_of = {a: k for k, b in enumerate(blocks) for a in b}
        for node in epilogue.nodes:
            if id(node) in self.live:
                node.number = number
                number += 1
                instructions.append(self._instruction(node, axis_of))
        stages.append(Stage("point", tuple(instructions)))
        grid = (Axis(),) * rank
        form = KernelForm(grid, (Axis(),), rank, tuple(operands), tuple(d for d, _ in self.params), tuple(stages))
        strides = [
            strides_of[o][a] if o in strides_of else self.operands[o].access.strides[blocks[a][-1]]
            for o, a in form.stride_words
        ]
        return self._with_words(form, strides, (*points, chunks), buffers)


def _chunks(n: int) -> int:
    return -(-n // CHUNK)


def _reads(stage: StageDraft, operand: Draft, live: set[int]) -> bool:
    return any(n.op in ("load", "store") and n.imm[0] is operand and id(n) in live for n in stage.nodes)


def _live_nodes(stages: Sequence[StageDraft]) -> set[int]:
    ends: list[Node] = []
    for stage in stages:
        ends += [n for n in stage.nodes if n.op in ("store", "keep")]
        ends += [operand for _, operand, _ in stage.reductions]
    return _needed(ends)


def _loops(stage: StageDraft, live: set[int]) -> bool:
    return bool(stage.reductions) or any(n.level == INNER for n in stage.nodes if id(n) in live)


def _parted(stage: StageDraft, live: set[int]) -> list[StageDraft]:
    """Take stores of one value per grid point out of a stage that loops: a loop of no rounds must not skip them."""
    if not _loops(stage, live) or not any(n.op == "store" and n.level < INNER for n in stage.nodes):
        return [stage]
    before, loop = StageDraft(), StageDraft()
    before.nodes = [n for n in stage.nodes if n.level < INNER]
    loop.nodes = [n for n in stage.nodes if n.level == INNER]
    loop.reductions = stage.reductions
    return [before, loop]


def _needed(ends: Sequence[Node]) -> set[int]:
    """Return the identities of these nodes and of all that they are computed from."""
    live: set[int] = set()
    stack = list(ends)
    while stack:
        node = stack.pop()
        if id(node) not in live:
            live.add(id(node))
            stack.extend(node.args)
    return live


def bytes_moved(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the bytes that a launch over these extents reads and writes, each once."""
    total = 0
    for o in form.operands:
        total += itemsize(o.dtype) * math.prod(n for n, c in zip(sizes, o.strides) if c != "0")
    return total
