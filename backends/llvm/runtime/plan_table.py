"""The tables of a plan: what the driver allocates, runs and returns once an entry's guards have passed.

Owns: ops, outputs and the frame's layout. Does not own guards (entry_builder.py), results (result_tree.py), nor which
kernels and buffers a program needs.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Code, OpCode
from jitfuse.backends.llvm.runtime.layout import PlanField as PlanWord
from jitfuse.backends.llvm.runtime.result_tree import Output, ResultTable, ResultTree
from jitfuse.backends.llvm.runtime.words import DTypeLike, Keeper, Words
from jitfuse.base.records import NamedTuple, Record

ARENA: Final = 0
"""The value with the address of the plan's arena."""


class Label(Record, frozen=True):
    """A target of jumps in a plan's ops, placed by `PlanBuilder.place` before or after the jump."""

    position: int


class SweptLaunch(NamedTuple):
    """A launch of each iteration of a loop; see `PlanBuilder.launch`, and `KernelForm.sweep`.

    `units` are those of one iteration; `operands` are the addresses of iteration 0. `turns` are the second addresses
    of operands, by number, for operands whose address alternates between iterations.
    """

    kernel: int
    units: int
    site: int
    operands: Sequence[tuple[int, int]]
    turns: Mapping[int, tuple[int, int]]
    words: Sequence[int]


class BatchedLaunch(NamedTuple):
    """A launch of a batch: its units, its operands as (value, byte offset), the kernel arguments after them."""

    units: int
    operands: Sequence[tuple[int, int]]
    words: Sequence[int]


class HostStepArray(Record, frozen=True):
    """An array argument of a host step: `strides` None for C order, `slot` where the value came from a guard.

    The array keeps its memory's owner alive, however long the host step holds it: the object in the slot,
    the output, or the arena.
    """

    value: int
    dtype: DTypeLike
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0
    slot: int | None = None
    writeable: bool = False


class Plan:
    """The finished tables of one mode."""

    def __init__(self, words: Words) -> None:
        self.words = words

    @property
    def address(self) -> int:
        """The address of the plan's words."""
        return self.words.address

    @property
    def cost(self) -> int:
        """The estimate of its run time in nanoseconds."""
        return self.words[PlanWord.COST]


class PlanBuilder:
    """Collects a plan's outputs and ops in the order in which they run; `finish` ends each path through it.

    Steps that write arguments or state must come after every step that can end the call: a launch with a
    status, a host step, an observation, a check.
    """

    def __init__(self, slots: int, cells: int, values: int) -> None:
        """Start a plan for an entry of this many slots, scalar cells and values: see `NativeEntry.plan_builder`."""
        self._keep = Keeper()
        self._slots, self._cells, self._values = slots, cells, values
        self._outputs: list[Output] = []
        self._specs: list[int] = []
        self._moving: set[int] = set()
        self._arena = 0
        self._ops: list[int] = []
        self._labels: list[int | None] = []
        self._jumps: list[tuple[int, Label]] = []
        self._work = 0
        self._open = True

    # ------------------------------------------------------------------ memory
    def output(
        self, dtype: DTypeLike, shape: Sequence[int], strides: Sequence[int] | None = None, *, late: bool = False
    ) -> Output:
        """Add a result buffer, 64-byte aligned, not initialised: its elements without gaps, in C order without strides.

        `late`: allocated only by `allocate`.
        """
        d = np.dtype(dtype)
        out = Output(len(self._outputs), self._values, d, tuple(shape))
        self._values += 1
        self._outputs.append(out)
        self._specs.append(self._keep.spec(d, shape, strides, value=out.value, late=late, owned=True))
        return out

    def value(self) -> int:
        """Add a value that has no address until `move` sets one.

        Host step arrays at such values count as memory of the arena.
        """
        self._moving.add(self._values)
        self._values += 1
        return self._values - 1

    def arena(self, nbytes: int) -> int:
        """Reserve at least so many bytes of scratch that all steps share; returns its value (`ARENA`)."""
        assert nbytes >= 0
        self._arena = max(self._arena, nbytes)
        return ARENA

    def hold(self, target: object) -> None:
        """Keep an object that words point to alive as long as the plan."""
        self._keep.objects.append(target)

    # ------------------------------------------------------------------ steps
    def launch(
        self, kernel: int, units: int, *, operands: Sequence[tuple[int, int]], words: Sequence[int] = (),
        threads: int = 1, scratch: int = 0, gil: bool = False, site: int = 0,
    ) -> None:
        """Run a kernel (its address) over `units`; its arguments are the operands' addresses, then `words`.

        `operands` are (value, byte offset); `threads` 1 runs in the calling thread, 0 leaves it to the pool;
        `scratch` is in bytes per thread; `gil` releases the GIL around the launch; a status of the kernel
        other than 0 ends the call through the handler with `site`.
        """
        assert kernel and units >= 0 and threads >= 0 and scratch >= 0
        template = self._keep.words([*[0] * len(operands), *words])
        total = len(operands) + len(words)
        self._work = max(self._work, total)
        stride = -(-scratch // 64) * 64
        self._op(
            OpCode.LAUNCH, kernel, units, threads, stride, int(gil), site, total, len(operands), template,
            *(w for value, offset in operands for w in (self._known(value), offset)),
        )

    def batch(
        self, batch_kernel: int, kernel: int, launches: Sequence[BatchedLaunch], anchor: tuple[int, int], *,
        threads: int = 1, scratch: int = 0, gil: bool = False, site: int = 0,
    ) -> None:
        """Run launches of one kernel as one; `batch_kernel` is the address of `jf_batch`, the rest as in `launch`.

        `anchor` is a value with the address that it has in every call. No launch may report a status.
        """
        operands, words = (len(part) for part in launches[0][1:])
        table, units = [kernel, len(launches), operands, words], 0
        for one in launches:
            assert one.units > 0 and (len(one.operands), len(one.words)) == (operands, words)
            table += [units, *one.words]
            units += one.units
        at = self._keep.words([*table, units]) - anchor[1]
        self.launch(
            batch_kernel, units, operands=[(anchor[0], at), *(o for one in launches for o in one.operands)],
            threads=threads, scratch=scratch, gil=gil, site=site)

    def sweep(
        self, begin: int, low: tuple[int, int], high: tuple[int, int], piece: int, launches: Sequence[SweptLaunch]
    ) -> None:
        """Run the iterations of a loop in this thread: `piece` at once, or the launches of each in order.

        Between them the loop pauses for signals and other threads. Iterations count from `begin` up to `high` - `low`,
        two int64 at (value, byte offset), if that is above 0.
        """
        assert piece == 1 or (len(launches) == 1 and not launches[0].turns), "iterations that are launched together"
        bounds = [w for value, offset in (low, high) for w in (self._known(value), offset)]
        words: list[int] = [begin, piece, len(launches), *bounds]
        work = 0
        for one in launches:
            total = len(one.operands) + len(one.words)
            work += total + len(one.turns)
            template = self._keep.words([*[0] * len(one.operands), *one.words])
            words += [one.kernel, one.units, one.site, total, len(one.operands), len(one.turns), template]
            words += [w for value, offset in one.operands for w in (self._known(value), offset)]
            words += [w for k, (value, offset) in one.turns.items() for w in (k, self._known(value), offset)]
        self._work = max(self._work, work)
        self._op(OpCode.SWEEP, *words)

    def host(self, function: Callable[..., object], arrays: Sequence[HostStepArray], *, site: int = 0) -> None:
        """Call a Python callable with ndarrays over the frame's memory; an exception ends the call."""
        words = [self._keep.ref(function), len(arrays), site]
        for a in arrays:
            flags = layout.FLAGS_CARRAY if a.strides is None else layout.FLAGS_BEHAVED
            flags &= ~0 if a.writeable else ~layout.FLAG_WRITEABLE
            spec = self._keep.spec(a.dtype, a.shape, a.strides, flags=flags)
            words += [self._known(a.value), a.offset, spec, self._owner(a)]
        self._work = max(self._work, len(arrays))
        self._op(OpCode.HOST, *words)

    def observe(self, value: int, dtype: DTypeLike, cases: Sequence[tuple[Any, Label]], *, offset: int = 0) -> None:
        """Read a scalar and jump to the label of its case; any other value continues with the next step.

        Cases are compared bit by bit: list 0.0 and -0.0, and each NaN, on their own.
        """
        code, encode = _CODES[np.dtype(dtype).name]
        words = [self._known(value), offset, code, len(cases)]
        for bits, label in ((encode(v), label) for v, label in cases):
            words += [bits, self._jump(len(words) + 3, label)]
        self._op(OpCode.OBSERVE, *words)

    def match(self, value: int, content: bytes, label: Label, *, offset: int = 0) -> None:
        """Jump to a label where memory has this content; else continue with the next step."""
        held = np.frombuffer(content, np.uint8)
        self.hold(held)
        self._op(OpCode.MATCH, self._known(value), offset, held.ctypes.data, len(content), self._jump(6, label))

    def check(self, value: int, offset: int = 0, *, site: int) -> None:
        """End the call through the handler where the int64 status at an address is not 0."""
        self._op(OpCode.CHECK, self._known(value), offset, site)

    def label(self) -> Label:
        """Return a new label, to be placed by `place`."""
        self._labels.append(None)
        return Label(len(self._labels) - 1)

    def place(self, label: Label) -> None:
        """Place a label: its jumps continue at the next op.

        Jumps backwards pause for signals and other threads, so that loops may be endless.
        """
        assert self._labels[label.position] is None, "a label stands for one place"
        self._labels[label.position] = len(self._ops)
        self._open = True

    def jump(self, label: Label) -> None:
        """Continue at a label."""
        self._op(OpCode.JUMP, self._jump(2, label))
        self._open = False

    def branch(self, value: int, label: Label, *, offset: int = 0, wanted: bool = True) -> None:
        """Continue at a label where the truth of a bool is the `wanted` one."""
        self._op(OpCode.BRANCH, self._known(value), offset, int(wanted), self._jump(5, label))

    def branch_less(self, a: tuple[int, int], b: tuple[int, int], label: Label) -> None:
        """Continue at a label where one int64 is less than another; both are (value, byte offset)."""
        self._op(OpCode.LESS, self._known(a[0]), a[1], self._known(b[0]), b[1], self._jump(6, label))

    # ------------------------------------------------------------------ values that move
    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Set the addresses of values, one after the other: (value, value with the address, bytes past it)."""
        for target, source, _ in moves:
            assert target in self._moving, "only values made by `value` move"
            self._known(source)
        if moves:
            self._op(OpCode.MOVE, len(moves), *(w for move in moves for w in move))

    def swap(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Swap the addresses of values, pair by pair."""
        assert all(v in self._moving for pair in pairs for v in pair), "only values made by `value` move"
        if pairs:
            self._op(OpCode.SWAP, len(pairs), *(w for pair in pairs for w in pair))

    def copy(self, target: tuple[int, int], source: tuple[int, int], nbytes: int) -> None:
        """Copy bytes from one (value, byte offset) to another, unless their addresses are equal."""
        if nbytes and target != source:
            self._op(OpCode.COPY, self._known(target[0]), target[1], self._known(source[0]), source[1], nbytes)

    def copy_strided(
        self, target: tuple[int, int], source: tuple[int, int], run: int, axes: Sequence[tuple[int, int, int]],
    ) -> None:
        """Copy runs of so many bytes along at most two axes (extent, bytes between runs in target and source)."""
        assert run > 0 and len(axes) <= 2, (run, axes)
        outer, inner = [(1, 0, 0)] * (2 - len(axes)) + list(axes)
        ends = self._known(target[0]), target[1], self._known(source[0]), source[1]
        self._op(OpCode.STRIDED, *ends, run, *outer, *inner)

    def count(self, value: int, by: int, *, offset: int = 0) -> None:
        """Add a number to the int64 at an address."""
        self._op(OpCode.COUNT, self._known(value), offset, by)

    def allocate(self, output: Output) -> None:
        """Allocate a `late` output, unless it is already allocated."""
        self._op(OpCode.ALLOC, output.position)

    # ------------------------------------------------------------------ ends
    def finish(self, result: ResultTree) -> None:
        """End the call here with this result."""
        table = ResultTable(self._slots, self._values, self._outputs, self._keep)
        self._work = max(self._work, table.add(result))
        self._op(OpCode.RETURN, self._keep.words(table.words), len(table.words) // layout.RESULT_WORDS)
        self._open = False

    def build(self, *, cost: int = 0) -> Plan:
        """Return the plan; `cost` is an estimate of its run time in nanoseconds."""
        assert not self._open, "the last step must be finish or jump"
        for position, label in self._jumps:
            target = self._labels[label.position]
            assert target is not None, "a label that was never put down"
            assert target < len(self._ops), "a label at the very end"
            self._ops[position] = target
        owners = self._slots + self._cells + self._values
        work = owners + 1 + len(self._outputs)
        words = {
            PlanWord.OPS: self._keep.words(self._ops),
            PlanWord.ARENA: self._arena,
            PlanWord.OUTPUTS: len(self._outputs),
            PlanWord.OUTPUT_SPECS: self._keep.words(self._specs),
            PlanWord.FRAME_WORDS: work + self._work,
            PlanWord.OWNERS: owners,
            PlanWord.WORK: work,
            PlanWord.COST: cost,
        }
        return Plan(Words([words[i] for i in range(len(words))], self._keep.objects))

    # ------------------------------------------------------------------ parts
    def _op(self, op: int, *words: int) -> None:
        assert self._open, "nothing comes here: the step before ends or leaves"
        self._ops += [op, len(words) + 2, *words]

    def _jump(self, ahead: int, label: Label) -> int:
        """Record that the word `ahead` words from the start of the next op is a jump; returns a placeholder."""
        self._jumps.append((len(self._ops) + ahead, label))
        return 0

    def _known(self, value: int) -> int:
        assert 0 <= value < self._values, value
        return value

    def _owner(self, array: HostStepArray) -> int:
        """Return who owns a host array's memory: a slot, -1 for the arena, -2 - k for output k."""
        if array.value == ARENA or array.value in self._moving:
            assert self._arena > 0, "ask for the arena before showing it"
            return -1
        for out in self._outputs:
            if out.value == array.value:
                return -2 - out.position
        assert array.slot is not None and 0 <= array.slot < self._slots, "name the slot of a guarded value"
        return array.slot


def _float_bits(code: str, integer: str) -> Callable[[Any], int]:
    return lambda v: int(struct.unpack(integer, struct.pack(code, float(v)))[0])


_CODES: Final[dict[str, tuple[int, Callable[[Any], int]]]] = {
    "bool": (Code.BOOL, lambda v: int(bool(v))),
    "int32": (Code.INT32, int),
    "int64": (Code.INT64, int),
    "float32": (Code.FLOAT32, _float_bits("<f", "<I")),
    "float64": (Code.FLOAT64, _float_bits("<d", "<q")),
}
