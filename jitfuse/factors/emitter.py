"""Instructions of a tree's programs as they are written: which registers there are, and which axes they have.

Owns in how many steps a product is made. Does not own which products are (`emit.py`).
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from jitfuse.factors.ir.schema import (
    Axis,
    Instruction,
    OpCode,
    Program,
    RegID,
    SlotKey,
    TensorSpec,
    marginal,
    message,
    mode,
    scale,
    variable,
)
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import Tree
from jitfuse.factors.work import AT_ONCE

Modes = Mapping[int, int]
NO_MODES: Final[Modes] = {}
MOST_INPUTS: Final = 4
"""Registers that one instruction multiplies."""


class Emitter:
    """Instructions as they are written: registers are numbered, and known by the axes of what they hold.

    Axes are in the one order that the tree gives them.

    `modes` are the sizes of the modes of variables that are conditioned on. A mode has the number of its variable.
    """

    def __init__(self, structure: Structure, tree: Tree, modes: Modes = NO_MODES) -> None:
        self.structure, self.tree, self.modes = structure, tree, modes
        self.instructions: list[Instruction] = []
        self.specs: dict[RegID, TensorSpec] = {}
        self._orders: dict[tuple[int, ...], TensorSpec] = {}
        self._variables: dict[int, Axis] = {}
        self.slots: dict[SlotKey, TensorSpec] = {}
        self.held: list[RegID] = []

    def spec(self, variables: Iterable[int]) -> TensorSpec:
        """Return the axes of variables."""
        return self._in_order(tuple(sorted(variables, key=self.tree.axes.__getitem__)))

    def _in_order(self, variables: tuple[int, ...]) -> TensorSpec:
        """Return the axes of variables in this order; the same object each time."""
        found = self._orders.get(variables)
        if found is None:
            found = self._orders[variables] = TensorSpec(tuple([self.axis(v) for v in variables]))
        return found

    def axis(self, v: int) -> Axis:
        """Return the axis that stands for a variable behind the loads of factors: its mode's, if it has one."""
        return mode(v, self.modes[v]) if v in self.modes else self.variable(v)

    def variable(self, v: int) -> Axis:
        """Return the axis of a variable."""
        found = self._variables.get(v)
        if found is None:
            found = self._variables[v] = variable(v, self.structure.sizes[v])
        return found

    def write(self, op: OpCode, spec: TensorSpec, **args: Any) -> RegID:
        """Append an instruction that makes a register, and return it."""
        register = len(self.specs)
        self.specs[register] = spec
        self.held.append(register)
        self.instructions.append(Instruction(op, register, args, spec))
        return register

    def store(self, slot: SlotKey, register: RegID) -> None:
        """Append what keeps a register under a key."""
        self.slots[slot] = self.specs[register]
        self.instructions.append(Instruction(OpCode.STORE_SLOT, None, {"slot": slot, "src": register}))

    def free(self) -> None:
        """Append what gives back all registers since the last time."""
        if self.held:
            self.instructions.append(Instruction(OpCode.FREE, None, {"srcs": tuple(self.held)}))
        self.held = []

    def load_factor(self, factor: int) -> RegID:
        """Append the load of a factor: its axes are in the order of its scope, as it lies in memory.

        Selectors take its elements at the values of the modes, whose axes are then those of the conditioned variables.
        """
        scope = self.structure.scopes[factor]
        if not self.modes:
            return self.write(OpCode.LOAD_FACTOR, self._in_order(scope), factor_id=factor)
        axes = tuple([self.variable(v) for v in scope])
        register = self.write(OpCode.LOAD_FACTOR, TensorSpec(axes), factor_id=factor)
        chosen = [self.write(OpCode.LOAD_SELECTOR, TensorSpec((axis, self.axis(axis.id))), selector_id=number)
                  for number, v in enumerate(self.modes) for axis in axes if axis.id == v]
        return self.write(OpCode.CONTRACT, self.spec(scope), inputs=(register, *chosen)) if chosen else register

    def load_message(self, source: int, target: int) -> RegID:
        """Append the load of what one node told another: if no instruction here did, with the axes of the interface."""
        slot = message(source, target)
        spec = self.slots.get(slot) or self.spec(self.tree.nodes[source].interface)
        return self.write(OpCode.LOAD_SLOT, spec, slot=slot)

    def product(self, inputs: Iterable[RegID], variables: Iterable[int] = ()) -> RegID:
        """Append the product of registers; it has the axes of `variables` in any case.

        A small product is one instruction. Of a large one the smallest registers are multiplied first, by twos: small
        factors meet before the large message does, which is then read once.
        """
        left = list(inputs)
        left += self.ones(left, variables)
        left = left or [self.write(OpCode.UNIT, self.spec(()))]
        whole = self.union(left)
        together = MOST_INPUTS if whole.size <= AT_ONCE else 2
        if 1 < len(left) <= together:
            first = sorted(left, key=lambda register: (self.specs[register].size, register))
            return self.write(OpCode.CONTRACT, whole, inputs=tuple(first))
        heap = [(self.specs[register].size, register) for register in left]
        heapify(heap)
        while len(heap) > 1:
            first = [heappop(heap)[1] for _ in range(min(together, len(heap)))]
            made = self.write(OpCode.CONTRACT, self.union(first), inputs=tuple(first))
            heappush(heap, (self.specs[made].size, made))
        return heap[0][1]

    def ones(self, registers: Iterable[RegID], variables: Iterable[int]) -> list[RegID]:
        """Append ones over those variables that no register has, and return their register; none if all are there."""
        covered = {axis.id for register in registers for axis in self.specs[register].axes}
        missing = [v for v in variables if v not in covered]
        return [self.write(OpCode.UNIT, self.spec(missing))] if missing else []

    def union(self, registers: Iterable[RegID]) -> TensorSpec:
        """Return the axes that any of the registers has."""
        return self.spec(dict.fromkeys([axis.id for register in registers for axis in self.specs[register].axes]))

    def eliminated(self, register: RegID, variables: Sequence[int]) -> RegID:
        """Append the sum over all axes but those of these variables; what stays is in the order of all axes."""
        spec = self.specs[register]
        names = [axis.id for axis in spec.axes if axis.id in variables]
        kept, ordered = self._in_order(tuple(names)), self.spec(names)
        if ordered is not kept:
            return self.write(OpCode.CONTRACT, ordered, inputs=(register,))
        if kept.ndim == spec.ndim:
            return register
        return self.write(OpCode.ELIMINATE, kept, src=register, keep_keys=kept.keys)

    def marginals(self, inputs: tuple[RegID, ...], variables: Collection[int]) -> None:
        """Append what stores the marginals of variables of a product: halves of its axes first, then each alone."""
        axes = self.union(inputs).axes
        if len(axes) == 1:
            register = inputs[0] if len(inputs) == 1 else self.write(OpCode.CONTRACT, TensorSpec(axes), inputs=inputs)
            self.store(marginal(axes[0].id), register)
            return
        half = len(axes) // 2
        for part in (axes[:half], axes[half:]):
            wanted = [axis.id for axis in part if axis.id in variables]
            if wanted:
                self.marginals((self.write(OpCode.CONTRACT, TensorSpec(part), inputs=inputs),), wanted)

    def tell(self, slot: SlotKey, register: RegID, normalize: bool) -> None:
        """Append what stores a message, divided by its largest element if asked."""
        if normalize:
            register = self.write(OpCode.NORMALIZE, self.specs[register], src=register, scale=scale(*slot))
        self.store(slot, register)

    def program(self) -> Program:
        """Return all instructions."""
        return Program(tuple(self.instructions))
