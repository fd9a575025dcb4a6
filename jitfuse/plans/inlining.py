"""Decide which values are computed inside kernels, and which are stored instead.

Each value has two measures, taken in program order down to what lies in memory. Its *cost* is that of one element. Its
*size* is the number of steps that a kernel's body holds for it; a step counts once for each index map. Dear values that
are read under several index maps are stored. So are values for which a body of bounded size has no room: programs of
any length and nesting make kernels that compile in bounded time. Neither measure depends on extents. Does not own
outputs and views (`jitfuse.plans.values`) or who shares a kernel (`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache
from typing import Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.ir.kernels.form import MAX_STATIC_EXTENT
from jitfuse.ir.kernels.stages import POSITIONS
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.frame import reduced_axes
from jitfuse.plans.index_maps import GATHERS
from jitfuse.plans.nodes import operation_cost
from jitfuse.plans.policy import LoweringPolicy

DEAR: Final = 8
"""A value of at least this cost that is read under two index maps is stored instead of computed twice."""
RECOMPUTE_COST: Final = 24
"""Inlined values of at least this cost (in simple vector operations) may be stored instead of recomputed."""
ITERATIONS: Final = 3
"""Values carried between unrolled iterations are stored at least every third iteration: numbers, and values read before
and after a product, a full sum, or another step that hardly anything fuses with. Otherwise each iteration would
recompute the chain behind it, up to `RECOMPUTE_COST`, and hardly two iterations would share a kernel."""
FLEXIBLE: Final = 384
"""A dear value may stay unstored if computing it costs its readers at most this much together."""
JOIN_COST: Final = 3
"""Cost of each piece of a join or an update beyond the first: two comparisons and a select."""
MAX_STEPS: Final = 1000
"""The steps that a kernel's body may hold."""
_MOST: Final = 10_000
UPDATES: Final = frozenset({"update_slice", "update_at"})
"""Operators that replace elements of their first operand."""
_JOINS: Final = ("concat", "update_slice")
_SHARING: Final = ("windows", "broadcast_to")
"""Views whose results may share elements."""
_OPAQUE: Final = frozenset({ops.CREATION, ops.SCAN, *ops.ON_HOST})
"""Kinds of steps whose operands are never computed in the kernels that read their results."""
_ALONE: Final = frozenset({ops.SCAN, *ops.ON_HOST})
"""Those kinds that no kernel spans: kernels come before and after."""


class _InlinedBody(NamedTuple):
    """The steps that make a value under its own index map, as bits, and their number with all steps behind them."""

    steps: int = 0
    size: int = 0


_NONE: Final = _InlinedBody()


class Inlining:
    """The costs of a program's values inside kernels. `must` holds the values that are stored in any case, and grows.

    `memory` holds the values in memory from the start. `choices` collects the policy's choices that make a difference.
    """

    def __init__(
        self, program: FusedProgram, policy: LoweringPolicy, memory: Container[int], must: set[int], choices: set[str]
    ) -> None:
        self.program = program
        self.policy = policy
        self.costs: dict[int, int] = dict.fromkeys(program.feeds, 0)
        self.unrolled: set[int] = set()
        """The reductions of two to four cheap elements per grid point: sums of loads rather than loops."""
        self._memory = memory
        self._must = must
        self._choices = choices
        self._bodies: dict[int, _InlinedBody] = {}
        self._sizes: dict[int, int] = {}
        self._weights: dict[int, int] = {}
        self._heavy = 0
        self._iterations: dict[int, int] = {}
        """For a number: how many numbers with several readers lie in a row between it and memory."""
        self._crossed: dict[int, int] = {}
        """For an array: how many values read on several levels lie in a row between it and memory."""
        self._levels: dict[int, int] = {}
        """How many unfusable steps a value comes after: what two levels read is in two kernels."""
        self._left = Counter(i for step in program.steps for i in step.input_ids)
        for number, step in enumerate(program.steps):
            self._visit(number, step)

    @cached_property
    def _maps(self) -> dict[int, int]:
        return _index_maps(self.program)

    def store(self, value: int) -> bool:
        """Store a value that several readers would compute, unless the policy decides otherwise; tell if it is."""
        if self.costs[value] * len(self.program.consumers[value]) <= FLEXIBLE:
            self._choices.add("store")
            if not self.policy.store:
                return False
        self._must.add(value)
        return True

    def _visit(self, number: int, step: OpStep) -> None:
        if step.op_name == "concat":
            self._part_pieces(step)
        value = step.result_ids[0]
        self._visit_levels(step)
        cost = self._cost(step)
        body = self._bounded(number, step)
        for result in step.result_ids:
            self._bodies[result] = body
            self._sizes[result] = body.size
            self.costs[result] = cost
        if cost and self._may_be_stored(value):
            if cost >= DEAR and self._maps[value] > 1:
                self.store(value)
            elif not self.program.meta[value].shape:
                self._visit_number(value, step, cost)
        for i in step.input_ids:
            self._left[i] -= 1
            if not self._left[i]:
                self._bodies.pop(i, None)

    def _visit_number(self, value: int, step: OpStep, cost: int) -> None:
        """Store a number that a loop carries, before too many iterations recompute it."""
        iterations = max([0 if i in self._must else self._iterations.get(i, -1) for i in step.input_ids], default=-1)
        if len(self.program.consumers.get(value, ())) > 1:
            iterations += iterations >= 0
            if cost >= RECOMPUTE_COST or iterations >= ITERATIONS:
                self._must.add(value)
                return
        if iterations >= 0:
            self._iterations[value] = iterations

    def _visit_levels(self, step: OpStep) -> None:
        """Store an array that a loop carries and each iteration reads, before the iterations' kernels all differ."""
        op = ops.get(step.op_name)
        assert op is not None
        level, iterations = max([self._levels.get(i, 0) for i in step.input_ids], default=0), 0
        for i in step.input_ids:
            base = self._base(i)
            if self._is_stored(base):
                continue
            found = self._crossed.get(base, 0)
            if self._levels.get(base, 0) < level and len(self.program.consumers[base]) > 1 and self.costs[base]:
                found += 1
                if found >= ITERATIONS and self.program.meta[base].shape and self._may_be_stored(base):
                    self._must.add(base)
                    continue
            iterations = max(iterations, found)
        alone = op.kind in _ALONE or (op.kind == ops.REDUCTION and not self.program.meta[step.result_ids[0]].shape)
        for result in step.result_ids:
            self._levels[result] = level + alone
            if iterations and not alone and self.program.meta[result].shape:
                self._crossed[result] = iterations

    # ------------------------------------------------------------------ costs
    def _cost(self, step: OpStep) -> int:
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind in _OPAQUE:
            return 0
        cost = min(sum([self._read_cost(i) for i in step.input_ids]), _MOST)
        if op.kind == ops.REDUCTION:
            if not is_tiny(self.program, step):
                return 0
            self._choices.add("unroll")
            if self.policy.unroll and cost >= DEAR and self._store_unrolled(step):
                cost = min(sum([self._read_cost(i) for i in step.input_ids]), _MOST)
            if not self.policy.unroll or cost >= DEAR:
                return 0
            self.unrolled.add(step.result_id)
            return MAX_STATIC_EXTENT * (cost + 1)
        if step.op_name in _JOINS:
            return cost + JOIN_COST * (len(step.input_ids) - 1)
        if op.kind == ops.VIEW and step.op_name not in GATHERS:
            return cost
        return cost + operation_cost("random" if op.kind == ops.RANDOM else step.op_name)

    def _store_unrolled(self, step: OpStep) -> bool:
        """Store the unrolled reductions that a step would compute, and update the costs of what lies between; tell if
        there are any. A chain of tiny reductions is then a kernel each, not every other one a loop over sums of loads.
        """
        between, stored = [step], False
        for reader in between:
            for i in reader.input_ids:
                producer = self.program.producers.get(i)
                if producer is None or self._is_stored(i) or not self.costs[i]:
                    continue
                if i in self.unrolled:
                    self._must.add(i)
                    stored = True
                elif producer not in between:
                    between.append(producer)
        if stored:
            for reader in sorted(between[1:], key=lambda s: s.step_id):
                self.costs.update(dict.fromkeys(reader.result_ids, self._cost(reader)))
        return stored

    def _read_cost(self, value: int) -> int:
        cost = self.costs[value]
        return cost if cost and self._is_computed(value) else 0

    def _part_pieces(self, step: OpStep) -> None:
        """Store the dear pieces of a join if much would be computed at elements that belong to other pieces."""
        costs = [self._read_cost(i) for i in step.input_ids]
        if sum(costs) - max(costs, default=0) >= RECOMPUTE_COST:
            for piece, cost in zip(step.input_ids, costs, strict=True):
                base = self._base(piece)
                if cost >= DEAR and self._may_be_stored(base):
                    self.store(base)

    # ------------------------------------------------------------------ sizes
    def _bounded(self, number: int, step: OpStep) -> _InlinedBody:
        """Return the body of a step; as many of its largest operands are stored as needed to bound it."""
        body = self._body(number, step)
        if body.size <= MAX_STEPS:
            return body
        bases = {b for b in map(self._base, step.input_ids) if self._may_be_stored(b)}
        for base in sorted(bases, key=lambda b: (-self._sizes[b], b)):
            if body.size > MAX_STEPS:
                self._must.add(base)
                body = self._body(number, step)
        return body

    def _body(self, number: int, step: OpStep) -> _InlinedBody:
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind in _OPAQUE or (op.kind == ops.REDUCTION and step.result_ids[0] not in self.unrolled):
            return _NONE
        moved, here = _split(step)
        if op.kind == ops.REDUCTION:
            moved, here = here * MAX_STATIC_EXTENT, ()
        weight = 1 + sum([self._read(i).size for i in moved])
        if step.op_name in _JOINS:
            weight += JOIN_COST * (len(step.input_ids) - 1)
        bit = 1 << number
        self._weights[number] = weight
        self._heavy |= bit if weight > 1 else 0
        own = _InlinedBody(bit, weight)
        return self._union([own, *map(self._read, here)]) if here else own

    def _read(self, value: int) -> _InlinedBody:
        """Return the body of an operand; empty for a load, also of a view of a value stored since."""
        found = self._bodies.get(value)
        return _NONE if found is None or not found.size or not self._is_computed(value) else found

    def _union(self, bodies: Iterable[_InlinedBody]) -> _InlinedBody:
        steps = size = 0
        for body in bodies:
            fresh = body.steps & ~steps
            size += body.size if fresh == body.steps else self._weight(fresh)
            steps |= body.steps
        return _InlinedBody(steps, size)

    def _weight(self, steps: int) -> int:
        heavy = steps & self._heavy
        total = (steps ^ heavy).bit_count()
        while heavy:
            low = heavy & -heavy
            total += self._weights[low.bit_length() - 1]
            heavy ^= low
        return total

    # ------------------------------------------------------------------ what may be stored
    def _is_computed(self, value: int) -> bool:
        """Return whether an operand is computed where it is read, not loaded."""
        return not self._is_stored(self._base(value))

    def _is_stored(self, value: int) -> bool:
        return value in self._must or value in self._memory

    def _may_be_stored(self, value: int) -> bool:
        step = self.program.producers.get(value)
        return step is not None and not self._is_stored(value) and is_arithmetic(step)

    def _base(self, value: int) -> int:
        """Return the value of which a value is a view."""
        producers = self.program.producers
        while value not in self._must and value not in self._memory:
            step = producers.get(value)
            if step is None or not _is_view(step):
                break
            value = step.input_ids[0]
        return value


def is_tiny(program: FusedProgram, step: OpStep) -> bool:
    """Return whether a step reduces two to four elements at each of several grid points; not for argmin and argmax."""
    op = ops.get(step.op_name)
    assert op is not None
    if op.kind != ops.REDUCTION or step.op_name in POSITIONS:
        return False
    shape, axes = program.meta[step.input_ids[0]].shape, reduced_axes(program, step)
    return len(shape) > len(axes) and 2 <= math.prod(shape[a] for a in axes) <= MAX_STATIC_EXTENT


def _split(step: OpStep) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the operands that a step reads at other indices than its own element's, and those that it reads there."""
    if step.op_name in UPDATES:
        return step.input_ids[1:], step.input_ids[:1]
    if step.op_name in GATHERS:
        return step.input_ids[:1], step.input_ids[1:]
    op = ops.get(step.op_name)
    assert op is not None
    return (step.input_ids, ()) if op.kind == ops.VIEW else ((), tuple(dict.fromkeys(step.input_ids)))


def _index_maps(program: FusedProgram) -> dict[int, int]:
    """Return the number of index maps under which readers read each value, as far as views, joins and rows make them.

    Views that share elements, and rows that are read again for each row of a larger value, count as two.
    """
    maps: dict[int, int] = {}
    for step in reversed(program.steps):
        value, moved, here = step.result_ids[0], 0, 0
        for reader in program.consumers.get(value, ()):
            result = reader.result_ids[0]
            times = 2 if reader.op_name == "windows" or _repeats_rows(program, value, result) else 1
            if _is_view(reader):
                moved += maps[result] * (times if reader.op_name in _SHARING else 1)
            else:
                elsewhere, same = _split(reader)
                moved += elsewhere.count(value)
                here = max(here, times if value in same else 0)
        maps[value] = min(max(1, moved + here), _MOST)
    return maps


def _repeats_rows(program: FusedProgram, read: int, made: int) -> bool:
    """Return whether a broadcast repeats rows. What it repeats along the last axis alone, a kernel computes once."""
    old, new = program.meta[read].shape, program.meta[made].shape
    lead = len(new) - len(old)
    if not old or lead < 0 or old[-1] == 1:
        return False
    return any(n > 1 for n in new[:lead]) or any(n == 1 < m for n, m in zip(old, new[lead:], strict=True))


def _is_view(step: OpStep) -> bool:
    """Return whether a step reads each element at another index of its one operand."""
    return len(step.input_ids) == 1 and _moves_elements(step.op_name)


@cache
def _moves_elements(name: str) -> bool:
    op = ops.get(name)
    assert op is not None
    return op.kind == ops.VIEW and name not in GATHERS and name != "concat"


def is_arithmetic(step: OpStep) -> bool:
    """Return whether a step computes elements that a kernel may store."""
    return _computes_elements(step.op_name)


@cache
def _computes_elements(name: str) -> bool:
    op = ops.get(name)
    assert op is not None
    return op.kind in (ops.ELEMENTWISE, ops.UPDATE, ops.RANDOM) or name == "concat" or name in GATHERS
