"""Runs tables of records over the stacks of a model: natively, or as one step of the trace that is on.

Owns answers as arrays. Does not own the tables (`assembly.py`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.compile.objects.semiring_object import empty, run_records
from jitfuse.factors.assembly import Assembled
from jitfuse.factors.ir.schema import SlotKey
from jitfuse.factors.nesting import Nested
from jitfuse.factors.semirings import Array, Semiring
from jitfuse.tracing.abstract import AbstractTensor


def run_table(
    table: Assembled, semiring: Semiring, stacks: Sequence[np.ndarray], dtype: Any, *, modulus: int = 0,
    memory: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[dict[SlotKey, np.ndarray], float]:
    """Return the wanted slots of a table, and the smallest number but 0 of what was divided by its scale, of scales and
    of one over these.

    Args:
        table: what `assemble` made for stacks of these shapes.
        semiring: one with native code.
        stacks: the tables [rows, *shape, batch], contiguous; batch may be missing.
        dtype: of all of them.
        modulus: that of residues.
        memory: the workspace and the result of the last run, of which parts are written again; None: new memory.
    """
    assert semiring.carrier is not None
    given = memory is not None
    workspace, result = memory or (empty(table.workspace, dtype), empty(table.size, dtype))
    least = run_records(semiring.carrier, table.code, table.count, workspace, result, stacks, one=semiring.one,
                        modulus=modulus, threads=table.threads)
    result = result.copy() if given else result
    return {key: x.read(result[x.first :], table.batch) for key, x in table.slots.items()}, least


def run_nested(
    nested: Nested, semiring: Semiring, stacks: Sequence[np.ndarray], selected: Sequence[bool], states: np.ndarray,
    dtype: Any, *, modulus: int = 0,
) -> tuple[dict[SlotKey, np.ndarray], float]:
    """Return what `run_table` does for each row of states of modes, along a first axis.

    Args:
        nested: the records.
        semiring: one with native code.
        stacks: the tables [rows, *shape], those that are selected [states, rows, *shape]; contiguous.
        selected: whether each stack is.
        states: int[states, modes].
        dtype: of all stacks.
        modulus: that of residues.
    """
    assert semiring.carrier is not None
    table, sorted_states = nested.table, states[:, nested.order]
    turns = np.lexsort(sorted_states.T[::-1])
    moved = np.diff(sorted_states[turns], axis=0) != 0
    parts = [(table.code, table.count), *map(nested.reached, moved.argmax(axis=1).tolist())]
    workspace, result = empty(table.workspace, dtype), empty(table.size, dtype)
    found, least = np.empty((len(states), table.size), dtype), np.inf
    for (code, count), turn in zip(parts, turns.tolist()):
        ready = [stack[turn] if own else stack for stack, own in zip(stacks, selected)]
        least = min(least, run_records(semiring.carrier, code, count, workspace, result, ready, one=semiring.one,
                                       modulus=modulus, threads=table.threads))
        found[turn] = result
    return {key: found[:, x.first : x.first + x.spec.size].reshape(-1, *x.spec.shape)
            for key, x in table.slots.items()}, least


def traced_table(table: Assembled, carrier: str, stacks: Sequence[Array]) -> dict[SlotKey, Array]:
    """Return the same of stacks of which some are values of the trace that is on."""
    any_traced = next(stack for stack in stacks if isinstance(stack, AbstractTensor))
    first, *others = (s if isinstance(s, AbstractTensor) else any_traced._lift(s) for s in stacks)
    result = first.call("semiring_sums", *others, carrier=carrier, records=table.code.astype("<i8").tobytes(),
                        workspace=table.workspace, size=table.size)
    return {key: x.read(result[x.first :], table.batch) for key, x in table.slots.items()}
