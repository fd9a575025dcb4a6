"""Random valid register programs: few factors and slots, so that much is loaded and computed twice."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jitfuse.base.records import Record
from jitfuse.factors.ir.schema import (
    Axis,
    Instruction,
    OpCode,
    Program,
    SlotKey,
    TensorSpec,
    belief,
    message,
    mode,
    scale,
    variable,
)


class Drawn(Record, eq=False):
    """A program with what it reads: the factors, two selectors, and the slots that others have written."""

    program: Program
    factors: dict[int, np.ndarray]
    slots: dict[SlotKey, np.ndarray]
    before: dict[SlotKey, TensorSpec]
    tables: list[TensorSpec]

    @property
    def given(self) -> dict[str, Any]:
        """What `verify` is told."""
        return {"factors": self.tables, "selectors": 2, "before": self.before}


def drawn_programs() -> st.SearchStrategy[Drawn]:
    """Return the strategy; a smaller random number makes no smaller program."""
    return st.integers(0, 1 << 32).map(draw_program)


def draw_program(seed: int) -> Drawn:
    return _Writer(random.Random(seed)).drawn()


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        sizes = [rng.choice((1, 2, 2, 3)) for _ in range(3)]
        self.variables = [variable(k, size) for k, size in enumerate(sizes)]
        self.modes = [mode(k, sizes[k]) for k in range(2)]
        self.out: list[Instruction] = []
        self.live: dict[int, TensorSpec] = {}
        self.next = rng.randrange(5)
        self.stored: dict[SlotKey, TensorSpec] = {
            message(9, k): self.spec(self.variables + self.modes, 2) for k in range(2)
        }
        self.tables = [self.spec(self.variables, 3) for _ in range(3)]

    def drawn(self) -> Drawn:
        rng, before = self.rng, dict(self.stored)
        values = np.random.default_rng(rng.randrange(1 << 32))
        factors = {k: values.random(spec.shape) + 0.1 for k, spec in enumerate(self.tables)}
        slots: dict[SlotKey, np.ndarray] = {key: values.random(spec.shape) + 0.1 for key, spec in before.items()}
        steps = [self.load, self.load, self.product, self.product, self.message, self.sum, self.keep, self.free]
        self.load()
        for _ in range(rng.randrange(25)):
            rng.choice(steps)()
        if self.live and rng.random() < 0.9:
            self.keep()
        if self.live:
            self.emit(OpCode.FREE, None, srcs=tuple(self.live))
        return Drawn(Program(tuple(self.out)), factors, slots, before, self.tables)

    def spec(self, axes: list[Axis], most: int) -> TensorSpec:
        chosen = self.rng.sample(axes, self.rng.randint(0, min(most, len(axes))))
        if self.rng.random() < 0.7:
            chosen.sort(key=axes.index)
        return TensorSpec(tuple(chosen))

    def emit(self, op: OpCode, spec: TensorSpec | None, **args: Any) -> int:
        dst = None if spec is None else self.next
        self.out.append(Instruction(op, dst, args, spec))
        if spec is not None:
            self.live[self.next] = spec
            self.next += self.rng.choice((1, 1, 2))
        return -1 if dst is None else dst

    def load(self) -> None:
        kind, k = self.rng.randrange(4), self.rng.randrange(2)
        if kind == 0:
            self.emit(OpCode.UNIT, TensorSpec((self.variables[k],)))
        elif kind == 1:
            self.emit(OpCode.LOAD_SELECTOR, TensorSpec((self.variables[k], self.modes[k])), selector_id=k)
        elif kind == 2:
            slot = self.rng.choice([*self.stored])
            self.emit(OpCode.LOAD_SLOT, self.stored[slot], slot=slot)
        else:
            factor = self.rng.randrange(len(self.tables))
            self.emit(OpCode.LOAD_FACTOR, self.tables[factor], factor_id=factor)

    def product(self, whole: bool = False) -> int:
        if not self.live:
            self.load()
        inputs = tuple(self.rng.choices([*self.live], k=self.rng.randint(1, 3)))
        axes = [*{axis.key: axis for register in inputs for axis in self.live[register].axes}.values()]
        if whole or self.rng.random() < 0.5:
            spec = TensorSpec(tuple(axes if self.rng.random() < 0.7 else self.rng.sample(axes, len(axes))))
        else:
            spec = self.spec(axes, 3)
        return self.emit(OpCode.CONTRACT, spec, inputs=inputs)

    def message(self) -> None:
        self.sum(self.product(whole=True))
        self.keep()

    def sum(self, source: int | None = None) -> None:
        if not self.live:
            self.load()
        source = self.rng.choice([*self.live]) if source is None else source
        spec = self.live[source]
        keys = self.rng.sample(spec.keys, self.rng.randint(0, spec.ndim))
        self.emit(OpCode.ELIMINATE, spec.subset(keys), src=source, keep_keys=tuple(keys))

    def keep(self) -> None:
        if not self.live:
            self.load()
        source = self.rng.choice([*self.live][-2:])
        number = len(self.out)
        if self.rng.random() < 0.3:
            self.stored[scale("bel", number)] = TensorSpec(())
            source = self.emit(OpCode.NORMALIZE, self.live[source], src=source, scale=scale("bel", number))
        self.emit(OpCode.STORE_SLOT, None, slot=belief(number), src=source)
        self.stored[belief(number)] = self.live[source]

    def free(self) -> None:
        if len(self.live) > 2:
            register = self.rng.choice([*self.live][:-1])
            del self.live[register]
            self.emit(OpCode.FREE, None, srcs=(register,))
