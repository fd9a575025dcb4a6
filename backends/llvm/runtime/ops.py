"""Emits the interpreter of a plan's ops: launches, host steps, observations, ends.

Owns: `jf_ops`. Does not own jumps and moved values (op_moves.py), loops of launches (op_sweeps.py), the call's memory
(driver.py), result objects, or the pool.
"""
from __future__ import annotations

from collections.abc import Callable

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Code, OpCode, PauseField, SpecField
from jitfuse.backends.llvm.runtime.op_basis import emit_handle
from jitfuse.backends.llvm.runtime.op_sweeps import Sweeps
from jitfuse.backends.llvm.runtime.pyobject import (
    ONE,
    ZERO,
    add_to_word,
    address,
    call_object,
    decref,
    decref_range,
    item,
    set_item,
    word,
)
from jitfuse.backends.llvm.text.builder import Module, Value


def emit_ops(module: Module) -> None:
    """Add ``ptr jf_ops(ptr plan, ptr entry, ptr state, ptr frame, ptr values, ptr owners, ptr pause)``.

    Runs a plan's ops on allocated memory, with a block from `start_pauses`. Returns the result as a new
    reference, or null with the exception set, with the GIL held; the caller still owns the memory.
    """
    emit_handle(module)
    _OpsBuilder(module).emit()


class _OpsBuilder(Sweeps):
    """Builds `jf_ops`: the interpreter of a plan's ops; each method appends the blocks of one op."""

    def emit(self) -> None:
        f = self.f
        f.label("next")
        f.emit(f"%record = phi ptr [ {self.base.ref}, %entry ], [ %following, %advance ], [ %target, %jumped ]")
        kinds: dict[int, Callable[[], None]] = {
            OpCode.LAUNCH: self.launch, OpCode.HOST: self.host, OpCode.OBSERVE: self.observe, OpCode.CHECK: self.check,
            OpCode.JUMP: self.jump, OpCode.RETURN: self.return_, OpCode.MOVE: self.move, OpCode.SWAP: self.swap,
            OpCode.COPY: self.copy,
            OpCode.COUNT: self.count, OpCode.BRANCH: self.branch, OpCode.LESS: self.less, OpCode.ALLOC: self.alloc,
            OpCode.STRIDED: self.strided, OpCode.SWEEP: self.sweep, OpCode.MATCH: self.match,
        }
        self.dispatch(kinds, "invalid")
        f.label("advance")
        f.emit(f"%following = getelementptr i64, ptr %record, i64 {self.word(1).ref}")
        f.br("next")
        f.label("jump")
        index = f.phi("i64", self.jumps)
        target = f.offset(self.base, index, "i64")
        with f.if_(f.icmp("ule", target, self.record)):
            self.count_down()
        f.emit(f"%target = getelementptr i64, ptr {target.ref}, i64 0")
        f.label("jumped")
        f.br("next")
        f.label("invalid")
        f.unreachable()

    # ------------------------------------------------------------------ launch
    def launch(self) -> None:
        f = self.f
        self.launch_arguments()
        add_to_word(f, self.pause, PauseField.LAUNCHES, 1)
        kernel, units, threads, stride = self.address(2), self.word(3), self.word(4), self.word(5)
        plain = f.and_(f.icmp("eq", threads, ONE), f.icmp("eq", f.or_(stride, self.word(6)), ZERO))
        f.cond_br(plain, "plain_launch", "full_launch")
        f.label("plain_launch")
        plain_status = f.call_pointer(kernel, "i64", [self.work, ZERO, units, f.null])
        f.br("launched")
        f.label("full_launch")
        scratch, nbytes = self.scratch(threads, stride)
        status = self.released(kernel, units, threads, scratch, stride)
        f.call("jf_free", "void", [scratch, nbytes])
        last = f.block
        f.label("launched")
        self.end_where_status(f.phi("i64", [(plain_status, "plain_launch"), (status, last)]), self.word(7))
        f.br("advance")

    def launch_arguments(self) -> None:
        """Write the kernel arguments: patched addresses, then the rest of the template."""
        f = self.f
        total, patches, template = self.word(8), self.word(9), self.address(10)
        table = self.rest(11)
        with f.loop(ZERO, patches) as loop:
            set_item(f, self.data(table, f.shl(loop.index, ONE)), self.work, loop.index)
        with f.loop(patches, total) as loop:
            set_item(f, item(f, template, loop.index), self.work, loop.index)

    def scratch(self, threads: Value, stride: Value) -> tuple[Value, Value]:
        """Return memory of `stride` bytes for each thread (null for none) and its size."""
        f = self.f
        available = f.call("jf_pool_threads", "i64", [])
        nbytes = f.mul(f.select(f.icmp("eq", threads, ZERO), available, threads), stride)
        before = f.block
        want, have = f.fresh("want"), f.fresh("have")
        f.cond_br(f.icmp("eq", nbytes, ZERO), have, want)
        f.label(want)
        memory = f.call("jf_alloc", "ptr", [nbytes])
        self.end_where_no_memory(memory)
        wanted = f.block
        f.label(have)
        return f.phi("ptr", [(f.null, before), (memory, wanted)]), nbytes

    def released(self, kernel: Value, units: Value, threads: Value, scratch: Value, stride: Value) -> Value:
        """Run the pool, releasing the GIL where the op says so; returns the status."""
        f = self.f
        held = f.icmp("eq", address(f, self.pause, PauseField.THREAD), f.null)
        release = f.and_(f.icmp("ne", self.word(6), ZERO), held)
        before, save, run, restore, end = f.block, *(f.fresh(n) for n in ("save", "run", "restore", "end"))
        f.cond_br(release, save, run)
        f.label(save)
        thread = f.call("PyEval_SaveThread", "ptr", [])
        f.label(run)
        saved = f.phi("ptr", [(f.null, before), (thread, save)])
        status = f.call("jf_parallel", "i64", [kernel, self.work, units, threads, scratch, stride])
        f.cond_br(release, restore, end)
        f.label(restore)
        f.call("PyEval_RestoreThread", "void", [saved])
        f.label(end)
        return status

    # ------------------------------------------------------------------ host steps
    def host(self) -> None:
        f = self.f
        self.with_gil()
        count = self.word(3)
        table = self.rest(5)
        with f.loop(ZERO, count) as loop:
            array = self.host_array(f.offset(table, f.shl(loop.index, Value("2", "i64")), "i64"))
            with f.if_(f.icmp("eq", array, f.null), likely=False):
                decref_range(f, self.work, ZERO, loop.index)
                f.ret(f.null)
            set_item(f, array, self.work, loop.index)
        answer = call_object(f, self.address(2), self.work, count)
        decref_range(f, self.work, ZERO, count)
        with f.if_(f.icmp("eq", answer, f.null), likely=False):
            f.ret(f.null)
        decref(f, answer)
        f.br("advance")

    def host_array(self, record: Value) -> Value:
        """Make the array of a record (value, offset, spec, owner); its base is the owner of the memory."""
        f = self.f
        owner = word(f, record, 3)
        slot, buffer, known = f.fresh("slot"), f.fresh("buffer"), f.fresh("known")
        f.cond_br(f.icmp("sge", owner, ZERO), slot, buffer)
        f.label(slot)
        target = item(f, self.frame, owner)
        f.br(known)
        f.label(buffer)
        made = f.call("jf_owner", "ptr", [self.plan, self.values, self.owners, f.not_(owner)])
        last = f.block
        f.label(known)
        base = f.phi("ptr", [(target, slot), (made, last)])
        spec = address(f, record, 2)
        return f.call("jf_view", "ptr", [spec, self.data(record), word(f, spec, SpecField.FLAGS), base])

    # ------------------------------------------------------------------ control
    def observe(self) -> None:
        f = self.f
        data = self.data(self.rest(2))
        reads: dict[int, Callable[[], Value]] = {
            Code.BOOL: lambda: f.cast("zext", f.load("i8", data), "i64"),
            Code.INT32: lambda: f.cast("sext", f.load("i32", data), "i64"),
            Code.INT64: lambda: f.load("i64", data),
            Code.FLOAT32: lambda: f.cast("zext", f.load("i32", data), "i64"),
            Code.FLOAT64: lambda: f.load("i64", data),
        }
        f.switch(self.word(4), "invalid", [(code, f"read{code}") for code in reads])
        seen = []
        for code, read in reads.items():
            f.label(f"read{code}")
            seen.append((read(), f"read{code}"))
            f.br("observed")
        f.label("observed")
        bits = f.phi("i64", seen)
        cases = self.rest(6)
        with f.loop(ZERO, self.word(5)) as loop:
            case = f.offset(cases, f.shl(loop.index, ONE), "i64")
            target = f.field("i64", case, layout.WORD)
            other = f.fresh("other")
            self.jumps.append((target, f.block))
            f.cond_br(f.icmp("eq", f.load("i64", case), bits), "jump", other)
            f.label(other)
        f.br("advance")

    def check(self) -> None:
        status = self.f.load("i64", self.data(self.rest(2)))
        self.end_where_status(status, self.word(4))
        self.f.br("advance")

    def return_(self) -> None:
        f = self.f
        self.with_gil()
        f.ret(f.call("jf_result", "ptr", [
            self.plan, self.frame, self.values, self.owners, self.work, self.address(2), self.word(3),
        ]))
