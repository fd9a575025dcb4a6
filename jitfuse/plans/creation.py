"""Values without operands, as nodes of a kernel: literals, extents, ranges, random numbers.

Owns the `_make_` methods, one for each creation operator. Does not own what is computed from these values
(`jitfuse.plans.body`).
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.dtypes import component, is_integer, is_narrow, kind
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.frame import ValueKey
from jitfuse.plans.layout import Flat, Lin
from jitfuse.plans.nodes import Node
from jitfuse.plans.pieces import Pieces

_SPECIAL_LITERALS: Final = (0, 1, -1, 2)
_INDEXING: Final = frozenset({"reshape", "concat", "gather"})
_PLAIN: Final = frozenset({
    "add", "subtract", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "astype", "where",
})
"""Operators whose kernels do not get better by knowing the value of an operand."""


class Creation(Pieces):
    """The creation operators of one kernel; every literal is one parameter."""

    def __init__(self, program: FusedProgram, n_grid: int, *, in_cells: bool) -> None:
        super().__init__(program, n_grid, in_cells=in_cells)
        self._literals: dict[Any, Node] = {}

    def _make_full(self, step: OpStep, key: ValueKey) -> Node:
        value, dtype = step.attr("value"), component(self.program.meta[key.value].dtype)
        if key.part is not None:
            value = (complex(value).real, complex(value).imag)[key.part]
        if isinstance(value, bool) or dtype == "bool":
            value = int(bool(value)) if dtype == "bool" else int(value)
            return self.node("const", dtype, (), value) if not is_narrow(dtype) else self.param(dtype, value)
        special = value in _SPECIAL_LITERALS and str(value)[0:2] != "-0" and not is_narrow(dtype)
        if special and not is_offset(self.program, step):
            return self.node("const", dtype, (), float(value) if kind(dtype) == "float" else int(value))
        found = self._literals.get((step.result_id, key.part))
        if found is None:
            found = self._literals[step.result_id, key.part] = self.param(dtype, value)
        return found

    def _make_zeros(self, step: OpStep, key: ValueKey) -> Node:
        return self.node("const", component(self.program.meta[key.value].dtype), (), 0)

    def _make_extent(self, step: OpStep, key: ValueKey) -> Node:
        found = self._literals.get(step.result_id)
        if found is None:
            dtype = self.program.meta[key.value].dtype
            found = self._literals[step.result_id] = self.param(dtype, step.attr("value"))
        return found

    def _make_arange(self, step: OpStep, key: ValueKey) -> Node:
        dtype = self.program.meta[key.value].dtype
        (part,) = self.unflatten(key.where, self.program.meta[key.value].shape)
        at = self.index_node(part)
        if dtype != "int64":
            at = self.node("astype", dtype, (at,))
        if (step.attr("start"), step.attr("step")) == (0, 1):
            return at
        start, delta = _arange_terms(step, dtype)
        if step.attr("step") != 1 or not is_integer(dtype):
            at = self.node("multiply", dtype, (at, self.param(dtype, delta)))
        return self.node("add", dtype, (self.param(dtype, start), at))

    def _in_random_uniform(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        state, call = step.input_ids
        if state in self.program.feeds:  # read where it is used: nothing has to be computed before
            return [ValueKey(call, ())]
        return [ValueKey(state, (Lin(0),)), ValueKey(state, (Lin(1),)), ValueKey(call, ())]

    def _make_random_uniform(self, step: OpStep, key: ValueKey) -> Node:
        state, call = step.input_ids
        shape = self.program.meta[key.value].shape
        position = key.where.index if isinstance(key.where, Flat) else self.position_of(shape, key.where)
        seed = self.value(ValueKey(state, (Lin(0),)))
        counter = self.value(ValueKey(state, (Lin(1),)))
        index = self.value(ValueKey(call, ()))
        element = self.index_node(position)
        return self.node("random", self.program.meta[key.value].dtype, (seed, counter, index, element))

    def _make_random_advance(self, step: OpStep, key: ValueKey) -> Node:
        (part,) = self.unflatten(key.where, (2,))
        return self.node("add", "int64", (self.value(ValueKey(step.input_ids[0], (part,))), self.index_node(part)))


def is_offset(program: FusedProgram, step: OpStep) -> bool:
    """Return whether an integer literal is an index or offset: only arithmetic of rank 0 or indexing operators read it.

    Iteration numbers are such literals. As parameters, they let the first iterations share the kernels of the others.
    """
    value = step.result_id
    if not is_integer(program.meta[value].dtype) or program.meta[value].shape:
        return False
    readers = program.consumers.get(value, ())
    return bool(readers) and all(
        r.op_name in _INDEXING or (r.op_name in _PLAIN and not program.meta[r.result_id].shape)
        for r in readers
    )


def _arange_terms(step: OpStep, dtype: str) -> tuple[Any, Any]:
    """Return (first, delta) as NumPy fills an arange: delta is the second element less the first, rounded."""
    first = np.dtype(dtype).type(step.attr("start"))
    second = np.dtype(dtype).type(step.attr("start") + step.attr("step"))
    with np.errstate(over="ignore"):
        return first.item(), (second - first).item()
