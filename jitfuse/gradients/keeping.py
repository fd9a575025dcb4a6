"""What a backward pass keeps of its forward pass, and what it computes again.

A value that the backward pass needs is stored, which costs the time to write and to read it, or computed again from
what it is made of. The cheaper is taken, value by value in program order: exact where no two chains share what neither
keeps, as in Chen et al., "Training deep nets with sublinear memory cost" (2016), with costs in place of equal steps.
Sizes count by class, so that the choice, and with it the kernels, stay the same for nearby shapes. Owns the choice.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Final

from jitfuse.dtypes import itemsize
from jitfuse.gradients.programs import Derivative
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep

READ: Final = 12
"""The time to read a byte from memory: that of so many simple vector operations on a byte, as in plans' scores."""
STORE: Final = 2 * READ
COMPOSITE: Final = 12
"""The cost of an operator that is made of others."""
_CLASS_BITS: Final = 4
"""Sizes are rounded up to powers of 2 to this."""
_FREE: Final = frozenset({ops.VIEW, ops.CREATION, ops.RANDOM, ops.MODE})
"""Kinds of steps that are always computed again: what they make is never stored, masks of random numbers neither."""


def kept(made: Derivative, results: Collection[int]) -> list[int]:
    """Return the values of the forward pass that lie in memory for the backward pass.

    `results` do anyway. Feeds do too, and what products, reductions and library steps make is never computed again.
    """
    program = made.program
    makers, forward = program.producers, program.steps[: made.forward]
    own = {r for step in forward for r in step.result_ids}
    needed = {i for step in program.steps[made.forward :] for i in step.input_ids
              if i in own or (i not in makers and i not in made.changes)}
    stored = _stored(program, forward, needed, results)
    found: dict[int, None] = {}
    todo, seen = list(needed), set(needed)
    while todo:
        i = todo.pop()
        if i not in makers or i in stored:
            found[i] = None
            continue
        todo += [k for k in makers[i].input_ids if k not in seen]
        seen.update(makers[i].input_ids)
    return sorted(found)


def _stored(
    program: FusedProgram, steps: tuple[OpStep, ...], needed: Collection[int], results: Collection[int]
) -> set[int]:
    """Return the values that are stored where they are wanted."""
    stored: set[int] = set()
    costs: dict[int, int] = {}

    def cost_of(value: int) -> int:
        """The time that it takes to have a value in the backward pass, where nothing else needs it."""
        return 0 if value in needed else costs.get(value, READ * _bytes(program, value))

    for step in steps:
        row = ops.get(step.op_name)
        assert row is not None
        behind = sum([cost_of(i) for i in dict.fromkeys(step.input_ids)])
        for r in step.result_ids:
            size = _bytes(program, r)
            store = size * (READ if r in results else STORE)
            again = behind
            if row.kind not in _FREE:
                again += size * (row.cost or (1 if row.decompose is None else COMPOSITE))
            if r in results or (row.kind not in _FREE and (row.kind != ops.ELEMENTWISE or store < again)):
                stored.add(r)
            costs[r] = store if r in stored else again
    return stored


def _bytes(program: FusedProgram, value: int) -> int:
    meta = program.meta[value]
    bits = max(meta.size - 1, 0).bit_length()
    return itemsize(meta.dtype) << -(-bits // _CLASS_BITS) * _CLASS_BITS
