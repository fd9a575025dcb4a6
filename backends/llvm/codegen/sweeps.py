"""Kernels whose first grid axis counts the iterations of a loop: each iteration loads what the previous one stored.

Owns: numbers carried in registers between iterations, and leaving the loop where an iteration reports a status.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.frame import multiply
from jitfuse.backends.llvm.text.builder import Loop, Value
from jitfuse.ir.kernels.values import access


class IterationLoop:
    """The loop over iterations of a kernel from `begin` on, with its carried values."""

    def __init__(self, body: KernelBody, begin: Value) -> None:
        """Load the results of the iteration before `begin`; for iteration 0, the values from before the loop."""
        self.body = body
        f, launch, sweep = body.f, body.launch, body.analysis.form.sweep
        assert sweep is not None
        self.pairs = sweep.carried
        self._counts = {o: f.load("i64", launch.addresses[o]) for o in sweep.counted}
        self._stored = {
            access(i).operand: i.args[0] for _, i in
            (numbered for _, instructions, _ in body.analysis.form.numbered for numbered in instructions)
            if i.op == "store"
        }
        self._initial = []
        for read, written in self.pairs:
            back = multiply(f, f.sub(begin, i64(1)), launch.stride(written, 0))
            before = f.offset(launch.addresses[written], back)
            address = f.select(f.icmp("eq", begin, i64(0)), launch.addresses[read], before)
            dtype = launch.form.operands[read].dtype
            self._initial.append(body.memory.load_one(dtype, address, None, address).values[0])

    def begin(self, loop: Loop, iteration: Value) -> None:
        """Begin an iteration: declare the carried values."""
        for operand, first in self._counts.items():
            self.body.carried[operand] = self.body.f.add(first, iteration)
        for (read, _), initial in zip(self.pairs, self._initial, strict=True):
            self.body.carried[read] = loop.carry(initial)

    def advance(self, loop: Loop, first: int) -> None:
        """End an iteration; `first` is the number of its first value among those that the loop carries."""
        f = self.body.f
        if self.body.analysis.reports:
            status = self.body.status()
            with f.if_(f.icmp("ne", status, i64(0)), likely=False):
                f.ret(status)
        for k, (_, written) in enumerate(self.pairs, first):
            loop.update(k, self.body.values[self._stored[written]].values[0])
