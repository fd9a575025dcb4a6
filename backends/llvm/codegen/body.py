"""Writes the instructions of stage bodies: each for all vectors of a frame before the next.

Owns: values by number, kept rows, indices, the status word. Values that all lanes share are scalars, computed once
per kernel or once per unit where they depend on no loop. Does not own loads and stores
(`jitfuse.backends.llvm.codegen.accesses`) or loops.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from jitfuse.backends.llvm.codegen.accesses import Accesses
from jitfuse.backends.llvm.codegen.analysis import BODY, POINT, Analysis
from jitfuse.backends.llvm.codegen.bounds import ORDERS
from jitfuse.backends.llvm.codegen.elements import elementwise, integers, philox
from jitfuse.backends.llvm.codegen.elements.casts import astype
from jitfuse.backends.llvm.codegen.elements.masks import any_lane
from jitfuse.backends.llvm.codegen.elements.types import KIND, MEMORY, REGISTER, i64
from jitfuse.backends.llvm.codegen.frame import LoadedLaunch, VectorGroup
from jitfuse.backends.llvm.codegen.scans import Scans
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Function, Value, lanes
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access
from jitfuse.ir.statuses import NEGATIVE_POWER, OUT_OF_BOUNDS


class KernelBody(Accesses):
    """The values of a kernel under construction, and the methods that write more of them."""

    def __init__(self, f: Function, analysis: Analysis, launch: LoadedLaunch, has_fma: bool) -> None:
        super().__init__(f, analysis, launch, has_fma)
        self._kept: dict[tuple[int, str], Batch] = {}
        self.scans = Scans(self.context, launch.lanes, along=not analysis.lanes_on_grid)
        self.carried: dict[int, Value] = {}
        """By operand, the values carried from the previous iteration, which replace loads."""
        self._status: Value | None = None
        if analysis.reports:
            self._status = f.alloca("i64")
            f.store(i64(0), self._status)

    def status(self) -> Value:
        """Return the kernel's status code so far."""
        return i64(0) if self._status is None else self.f.load("i64", self._status)

    # ------------------------------------------------------------------ values
    def hoist(self, body: Sequence[tuple[int, Instr]], scope: int, frame: VectorGroup) -> None:
        """Write those instructions of a body that belong to a scope outside its loops."""
        for number, instr in body:
            if self.analysis.info[number].scope == scope:
                self._write(number, instr, frame)

    def run(self, body: Sequence[tuple[int, Instr]], frame: VectorGroup) -> None:
        """Write the instructions of a body that belong in its loops, for a frame's vectors."""
        self.hoist(body, BODY, frame)

    def run_point(self, body: Sequence[tuple[int, Instr]], frame: VectorGroup) -> None:
        """Write a body that no loop over inner axes surrounds, for a frame's vectors."""
        for number, instr in body:
            if self.analysis.info[number].scope >= POINT:
                self._write(number, instr, frame)

    def split_at_bounds(
        self, body: Sequence[tuple[int, Instr]], write: Callable[[VectorGroup], None], frame: VectorGroup,
        results: Sequence[int] = (),
    ) -> None:
        """Write a body for a frame: once, or for whole vectors where there are bounds, with scalars and with masks.

        `results` are the values of the body that are read behind it.
        """
        f, compared = self.f, [n for n, _ in body if n in self.bounds.comparisons]
        if not compared or frame.masks is not None:
            write(frame)
            return
        inside, across, end = f.fresh("inside"), f.fresh("across"), f.fresh("both")
        last_lane = f.add(frame.first, i64(frame.count * self.lanes - 1))
        first, last = (self._compared(compared, position) for position in (frame.first, last_lane))
        crossed = functools.reduce(f.or_, [f.xor(first[n], last[n]) for n in compared])
        f.cond_br(crossed, across, inside, likely=False)
        read = [n for n in results if not self.analysis.info[n].uniform]
        made = []
        for label, scalars in ((inside, first), (across, dict[int, Value]())):
            f.label(label)
            group = frame.group(frame.count, frame.first).replace(scalars=scalars, keeps=frame.keeps)
            write(group)
            made.append(([self.vectors(n, group) for n in read], f.block))
            f.br(end)
        f.label(end)
        (some, one), (others, other) = made
        for number, a, b in zip(read, some, others, strict=True):
            self.values[number] = self.context.batch([
                f.phi(v.type, [(v, one), (w, other)]) for v, w in zip(a.values, b.values, strict=True)])

    def _compared(self, comparisons: Sequence[int], position: Value) -> dict[int, Value]:
        """Return comparisons of a position along the lanes, as scalars."""
        orders = {n: self.bounds.comparisons[n] for n in comparisons}
        return {n: self.f.icmp(ORDERS[op], position, self.values[b].values[0]) for n, (op, b) in orders.items()}

    def _write(self, number: int, instr: Instr, frame: VectorGroup) -> None:
        if frame.scalars and number in self.bounds.conditions:
            self._decide(number, instr, frame)
            return
        uniform = self.analysis.info[number].uniform
        if instr.op == "store":
            self.store(instr, frame, uniform)
        elif instr.op == "keep":
            self._keep(instr, frame)
        elif uniform:
            args = [self.values[a] for a in instr.args]
            if instr.op == "load" and access(instr).operand in self.carried:
                self.define(number, self.carried[access(instr).operand])
                return
            self.define(number, self._make(number, instr, frame, args, True).values[0])
        else:
            args = [] if instr.op == "load" else [self.vectors(a, frame) for a in instr.args]
            self.values[number] = self._make(number, instr, frame, args, False)

    def _decide(self, number: int, instr: Instr, frame: VectorGroup) -> None:
        """Write a condition that has one value for all lanes; comparisons are there."""
        if number in frame.scalars:
            return
        args = [x for n in instr.args if (x := self.shared(n, frame)) is not None]
        if instr.op == "logical_not":
            frame.scalars[number] = self.f.xor(args[0], self.f.const("i1", True))
        else:
            frame.scalars[number] = (self.f.and_ if instr.op == "logical_and" else self.f.or_)(*args)

    def _make(self, number: int, instr: Instr, frame: VectorGroup, args: list[Batch], uniform: bool) -> Batch:
        op = instr.op
        if op == "param":
            return self._param(int(instr.imm), instr.dtype)
        if op == "const":
            return self.context.batch([self.f.const(REGISTER[instr.dtype], instr.imm)])
        if op == "index":
            axis = int(instr.imm)
            positions = [frame.inner.get(axis, frame.indices.get(axis))] if uniform else frame.positions(axis)
            return self.context.batch([p for p in positions if p is not None])
        if op == "load":
            return self.load(instr, frame, uniform)
        if op == "kept":
            return self._take(instr, frame)
        if op == "scan":
            return self.scans.step(number, instr, args[0])
        if op == "random":
            return philox.uniform(args[0], args[1], args[2], args[3], instr.dtype)
        if op == "bounded":
            return self._bounded(instr, frame, args, uniform)
        if op == "where" and instr.args[0] in frame.scalars:
            chosen, (_, a, b) = frame.scalars[instr.args[0]], args
            return self.context.batch([self.f.select(chosen, v, w) for v, w in zip(a.values, b.values, strict=True)])
        sources = [self.dtype(a) for a in instr.args]
        if op == "astype":
            return astype(args[0], sources[0], instr.dtype)
        if op == "power":
            return self._power(instr, frame, args, uniform)
        if op == "require":
            self._report_where(args[1] ^ 1, int(instr.imm), frame, uniform)
            return args[0]
        return elementwise.apply(op, sources[0], args)

    def dtype(self, number: int) -> str:
        """Return the dtype of a value."""
        made = self.launch.form.instructions[number]
        return made.dtype if isinstance(made, Instr) else made.result_dtype

    def _param(self, k: int, dtype: str) -> Batch:
        word = 8 * self.launch.form.words.param(k)
        x = self.f.field(MEMORY[dtype], self.launch.words, word)
        return self.context.batch([self.memory.from_memory(x, dtype)])

    # ------------------------------------------------------------------ powers
    def _power(self, instr: Instr, frame: VectorGroup, args: list[Batch], uniform: bool) -> Batch:
        x, exponent = args
        producer = self.producers.get(instr.args[1])
        known = producer.imm if producer is not None and producer.op == "const" else None
        if KIND[instr.dtype] == "float":
            simple = None if known is None else elementwise.float_power_by_constant(x, float(known))
            return elementwise.apply("power", instr.dtype, args) if simple is None else simple
        if known is not None and known >= 0:
            return integers.power_by_constant(x, int(known))
        if KIND[instr.dtype] == "uint":
            return integers.power(x, exponent)
        below_zero = exponent.compare("slt", 0)
        self._report_where(below_zero, NEGATIVE_POWER, frame, uniform)
        return integers.power(x, exponent.replace(below_zero, 0))

    def _report_where(self, wrong: Batch, status: int, frame: VectorGroup, uniform: bool) -> None:
        """Set the kernel's status where a condition holds in some active lane, unless it is already set.

        The first failure counts: later checks may read values of the failed one.
        """
        if frame.masks is not None and not uniform:
            wrong = wrong & self.context.batch(frame.masks)
        assert self._status is not None
        with self.f.if_(any_lane(wrong), likely=False):
            known = self.f.load("i64", self._status)
            self.f.store(self.f.select(self.f.icmp("eq", known, i64(0)), i64(status), known), self._status)

    # ------------------------------------------------------------------ indices that are data
    def _bounded(self, instr: Instr, frame: VectorGroup, args: list[Batch], uniform: bool) -> Batch:
        """Return an index with negative ones wrapped, and 0 where it is out of bounds; the status then tells which.

        The failure of the first axis is reported, because NumPy checks one axis after the other.
        """
        f, (given, extent, *mask) = self.f, args
        index = (given + extent).where(given.compare("slt", 0), given)
        outside = index.compare("uge", extent)
        active = outside & mask[0] if mask else outside
        if frame.masks is not None and not uniform:
            active = active & self.context.batch(frame.masks)
        assert self._status is not None
        with f.if_(any_lane(active), likely=False):
            worst: Value | None = None
            for v in given.where(active, -(2**63)).values:
                one = v if lanes(v.type) == 1 else f.intrinsic("vector.reduce.smax", "i64", v, overload=[v.type])
                worst = one if worst is None else f.intrinsic("smax", "i64", worst, one)
            assert worst is not None
            code = min(int(instr.imm), 255) << 8 | OUT_OF_BOUNDS
            known = f.load("i64", self._status)
            later = f.icmp("ugt", f.sub(f.and_(known, i64(0xFFFF)), i64(1)), i64(code - 1))  # also where none is set
            new = f.or_(f.shl(worst, i64(16)), i64(code))
            f.store(f.select(later, new, known), self._status)
        return index.replace(outside, 0)

    # ------------------------------------------------------------------ kept rows
    def _keep(self, instr: Instr, frame: VectorGroup) -> None:
        k, value = int(instr.imm), self.vectors(instr.args[0], frame)
        if frame.keeps:
            self.memory.store_lanes(value, self.launch.form.keeps[k], frame.keeps[k])
        else:
            self._kept[k, self._point(frame)] = value

    def _take(self, instr: Instr, frame: VectorGroup) -> Batch:
        k = int(instr.imm)
        if frame.keeps:
            return self.memory.load_lanes(self.launch.form.keeps[k], frame.keeps[k], frame.count)
        return self._kept[k, self._point(frame)]

    def _point(self, frame: VectorGroup) -> str:
        return " ".join(index.ref for _, index in sorted(frame.inner.items()))
