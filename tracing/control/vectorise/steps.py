"""Each operator of a loop's body, computed for all iterations at once.

Owns a rule for each kind of operator: elementwise ones, reductions, views, and additions to a carried number. Does not
own reads and writes at indices (`jitfuse.tracing.control.vectorise.arrays`), nor inner loops
(`jitfuse.tracing.control.vectorise.vectorised_loop`). An operator without a rule is rejected, and the loop then runs in
order.
"""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitfuse.dtypes import is_integer, kind
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.tracing.control.carried_numbers import BOUND, within_bound
from jitfuse.tracing.control.vectorise.arrays import Arrays
from jitfuse.tracing.control.vectorise.values import LoopValue, Total, Within, raise_not_vectorised
from jitfuse.tracing.numbers.linear import Linear
from jitfuse.tracing.record.recorder import Recorder

_SAME: Final = frozenset({"python_number", "astype", "require"})
"""Operators that keep an int as it is, as long as its dtype stays int64."""
_SUMS: Final = frozenset({"multiply", "add", "subtract"})
_VIEWS: Final = frozenset({"slice", "transpose", "reshape", "broadcast_to"})
_POSITIONS: Final = frozenset({"argmin", "argmax", "nanargmin", "nanargmax"})
_TRUTHS: Final = {"logical_and": "all", "logical_or": "any"}
_JOINS: Final = frozenset({"concat", "stack"})
_OTHERS: Final = frozenset({ops.RANDOM, ops.MODE, ops.CONTROL, ops.LIBRARY, ops.SCAN})
"""Kinds without a rule."""


class Steps(Arrays):
    """The steps of bodies."""

    def __init__(self, run: Recorder) -> None:
        super().__init__(run)
        self.negations: dict[int, int] = {}
        """By a negated condition: the condition itself."""

    def step(self, program: FusedProgram, step: OpStep, known: Mapping[int, LoopValue]) -> LoopValue:
        """Return the result of a step; rejects operators without a rule."""
        name, values = step.op_name, [known[i] for i in step.input_ids]
        if name == "scatter":
            return self.written(program, step, known)
        if name == "gather":
            return self.read(step, values)
        if any(v.total is not None for v in values):
            return self._added(step, values)
        if any(v.is_array for v in values):
            if name not in ("slice", "reshape", "update_slice"):
                raise_not_vectorised()
            return self.view(program, step, values)
        made = self._plain(program, step, values)
        if self.meta(made.tensor).dtype != program.meta[step.result_ids[0]].dtype:
            raise_not_vectorised()
        if name == "logical_not":
            self.negations[made.tensor] = values[0].tensor
        only = self._only_chosen(*values) if name == "where" else _only(step, values)
        return made._replace(known=_known(step, values), within=_within(step, values), only=only)

    def _plain(self, program: FusedProgram, step: OpStep, values: Sequence[LoopValue]) -> LoopValue:
        row, rank = ops.get(step.op_name), program.meta[step.result_ids[0]].ndim
        assert row is not None
        if row.kind in _OTHERS or step.mode_sensitive:
            raise_not_vectorised()
        if step.op_name == "full" and not rank:
            value, dtype = step.attr("value"), step.attr("dtype")
            return LoopValue(self.run.literal(value) if step.attr("weak") else self.run.scalar(value, dtype))
        if row.kind == ops.CREATION or (self.mask is None and not any(v.loop_axes for v in values)):
            return LoopValue(self.emit(step.op_name, [v.tensor for v in values], step.attrs), 0, rank)
        if self.mask is not None and step.op_name != "require" and values and (
                kind(self.meta(values[0].tensor).dtype) in row.raises):
            raise_not_vectorised()
        if row.kind == ops.ELEMENTWISE:
            return self._elementwise(step, row, [program.meta[i] for i in step.input_ids], values)
        if step.op_name == "update_slice":
            return self.updated(step, *values)
        if not any(v.loop_axes for v in values):
            return LoopValue(self.emit(step.op_name, [v.tensor for v in values], step.attrs), 0, rank)
        if row.kind == ops.REDUCTION:
            return self._reduced(step, values[0])
        if row.kind == ops.CONTRACTION:
            return self._product(step, *values)
        if step.op_name in _JOINS:
            return self._joined(step, values)
        if step.op_name in _VIEWS:
            return self._view(step, values[0])
        raise_not_vectorised()

    # ------------------------------------------------------------------ elementwise
    def _elementwise(self, step: OpStep, row: ops.Op, metas: Sequence[Meta], values: Sequence[LoopValue]) -> LoopValue:
        if step.op_name == "python_number":
            return values[0]
        if step.op_name == "require" and self.mask is not None:
            off = self.among("logical_not", self.mask)
            values = [values[0], self.among("logical_or", values[1], off)]
        loop_axes, rank = max(v.loop_axes for v in values), max(v.rank for v in values)
        dtypes: Sequence[str | None] = [None] * len(values)
        if any(m.weak for m in metas) and step.op_name != "astype":
            if row.loop is None:
                raise_not_vectorised()
            dtypes = row.loop(step.op_name, metas).inputs
        tensors = []
        for value, meta, dtype in zip(values, metas, dtypes, strict=True):
            tensor = self.aligned(value, loop_axes, rank)
            if meta.weak and dtype is not None and not self.meta(tensor).weak:  # a weak number takes the array's dtype
                tensor = self.cast(tensor, dtype)
            tensors.append(tensor)
        return LoopValue(self.emit(step.op_name, tensors, step.attrs), loop_axes, rank)

    # ------------------------------------------------------------------ what a loop adds up
    def _added(self, step: OpStep, values: Sequence[LoopValue]) -> LoopValue:
        """Return a total after another addition; rejects any other use."""
        name, (first, *others) = step.op_name, values
        if name == "where":
            return self._added_where(*values)
        if name in ("add", *_TRUTHS) and first.total is None:
            first, others = others[0], [first]  # addition is commutative, to the bit
        total = first.total
        if total is None:
            raise_not_vectorised()
        if name in _TRUTHS and total.carry >= 0 and self.meta(first.tensor).dtype == "bool":
            return self.held(first, others[0], _TRUTHS[name])
        if name in ("less_equal", "greater_equal", "logical_and"):  # checks of bounds, which end in a `require`
            return LoopValue(-1, total=Total(total.loop_axis, -1))
        if name in ("python_number", "require") or (
                name == "astype" and step.attr("dtype") == self.meta(first.tensor).dtype):
            return first
        if name not in ("add", "subtract") or not others[0].is_plain or total.carry < 0:
            raise_not_vectorised()
        (more,) = others
        if name == "subtract":
            tensor = self.cast(more.tensor, self.meta(first.tensor).dtype)  # cast first: small ints negate differently
            more = LoopValue(self.emit("negative", (tensor,)), more.loop_axes, more.rank, only=more.only)
        return self.more(first, more)

    def more(self, first: LoopValue, more: LoopValue) -> LoopValue:
        """Return a total after an addition."""
        total, dtype = first.total, self.meta(first.tensor).dtype
        assert total is not None
        tensor = self.cast(more.tensor, dtype)
        if kind(dtype) == "float":
            part = self.chosen(self.mask, LoopValue(tensor, more.loop_axes, more.rank), self._nothing(dtype))
            total = total._replace(is_begun=True, parts=(*total.parts, part))
            return first._replace(total=total, only=first.only | more.only)
        if not is_integer(dtype):
            raise_not_vectorised()
        if total.is_python and not self._is_small(more.known):  # so that no sum leaves 64 bits
            tensor = within_bound(self.run, tensor, dtype)
        new = LoopValue(tensor, more.loop_axes, more.rank)
        if self.mask is not None:
            new = self.chosen(self.mask, new, LoopValue(self.run.scalar(0, dtype)))
        if total.is_begun:
            new = self.among("add", first._replace(total=None), new)
        return new._replace(total=total._replace(is_begun=True), only=first.only | more.only)

    def _is_small(self, known: Linear | None) -> bool:
        """Return whether an int is known to be within `BOUND` in all iterations."""
        return known is not None and max(map(abs, known.ends(self.extents))) <= BOUND

    def held(self, first: LoopValue, more: LoopValue, how: str) -> LoopValue:
        """Return the conjunction ("all") or disjunction ("any") of bools over iterations, with one more bool."""
        total = first.total
        if total is None or not more.is_plain or total.how not in ("", how):
            raise_not_vectorised()
        new = LoopValue(more.tensor, more.loop_axes, more.rank)
        new = self.chosen(self.mask, new, LoopValue(self.run.scalar(how == "all", "bool")))
        if total.is_begun:
            new = self.among("logical_and" if how == "all" else "logical_or", first._replace(total=None), new)
        return new._replace(total=total._replace(is_begun=True, how=how), only=first.only | more.only)

    def _added_where(self, condition: LoopValue, new: LoopValue, old: LoopValue) -> LoopValue:
        """Return a total after an addition under a condition."""
        if not condition.is_plain or new.total is None or old.total is None:
            raise_not_vectorised()
        if (new.total.loop_axis, new.total.carry) != (old.total.loop_axis, old.total.carry) or new.total.carry < 0:
            raise_not_vectorised()
        total = new.total._replace(is_begun=new.total.is_begun or old.total.is_begun)
        only = self._only_chosen(condition, new, old)
        if kind(dtype := self.meta(new.tensor).dtype) == "float":
            same = sum(itertools.takewhile(bool, (a is b for a, b in zip(new.total.parts, old.total.parts))))
            nothing = self._nothing(dtype)
            parts = [self.among("where", condition, p, nothing) for p in new.total.parts[same:]]
            parts += [self.among("where", condition, nothing, p) for p in old.total.parts[same:]]
            return new._replace(total=total._replace(parts=(*new.total.parts[:same], *parts)), only=only)
        how = new.total.how or old.total.how
        if dtype == "bool" and how and {new.total.how, old.total.how} <= {"", how}:
            neutral = LoopValue(self.run.scalar(how == "all", "bool"))
            begun = [v.total is not None and v.total.is_begun for v in (new, old)]
            terms = [v._replace(total=None) if b else neutral for v, b in zip((new, old), begun, strict=True)]
            return self.among("where", condition, *terms)._replace(total=total._replace(how=how), only=only)
        if not is_integer(dtype):
            raise_not_vectorised()
        made = self.among("where", condition, *[v._replace(total=None) for v in (new, old)])
        return made._replace(total=total, only=only)

    def _nothing(self, dtype: str) -> LoopValue:
        """Return the neutral float of addition: 0.0 would turn -0.0 into 0.0."""
        return LoopValue(self.run.scalar(-0.0, dtype))

    def _only_chosen(self, condition: LoopValue, on: LoopValue, off: LoopValue) -> frozenset[int]:
        """Return the conditions that must hold for the selected value to be right."""
        return condition.only | (on.only - {condition.tensor}) | (off.only - self.opposites(condition.tensor))

    def opposites(self, condition: int) -> set[int]:
        """Return the conditions that are negations of this one."""
        found = {other for other, of in self.negations.items() if of == condition}
        return found | {self.negations[condition]} if condition in self.negations else found

    # ------------------------------------------------------------------ over a value's own axes
    def _reduced(self, step: OpStep, x: LoopValue) -> LoopValue:
        attrs = step.attr_dict
        axis = attrs["axis"]
        if not x.rank or (axis is None and step.op_name in _POSITIONS and x.rank != 1):
            raise_not_vectorised()
        axes = tuple(range(x.rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        moved: Any = tuple(x.loop_axes + a % x.rank for a in axes)
        if isinstance(axis, int) or step.op_name in _POSITIONS:
            (moved,) = moved
        made = self.emit(step.op_name, (x.tensor,), {**attrs, "axis": moved})
        return LoopValue(made, x.loop_axes, self.meta(made).ndim - x.loop_axes)

    def _product(self, step: OpStep, *values: LoopValue) -> LoopValue:
        """Return a product of vectors, or of a vector and a matrix."""
        if step.op_name != "matmul" and step.attr("subscripts") not in ("A,A->", "i,i->"):
            raise_not_vectorised()
        x, y = values
        if (x.rank, y.rank) == (1, 1):
            if x.loop_axes and y.loop_axes:
                both = self.among("multiply", x, y)
                made = self.emit("sum", (both.tensor,), {"axis": both.loop_axes, "keepdims": False})
                return LoopValue(self.cast(made, self.meta(both.tensor).dtype), both.loop_axes)
            many, one = (x, y) if x.loop_axes else (y, x)
            return LoopValue(self.emit("matmul", (many.tensor, one.tensor)), many.loop_axes)
        if (x.rank, y.rank) == (2, 1) and not x.loop_axes:
            x = x._replace(tensor=self.emit("transpose", (x.tensor,), {"axes": (1, 0)}))
            return LoopValue(self.emit("matmul", (y.tensor, x.tensor)), y.loop_axes, 1)
        if (x.rank, y.rank) == (1, 2) and not y.loop_axes:
            return LoopValue(self.emit("matmul", (x.tensor, y.tensor)), x.loop_axes, 1)
        raise_not_vectorised()

    def _joined(self, step: OpStep, values: Sequence[LoopValue]) -> LoopValue:
        over, attrs = self.joint(values), step.attr_dict
        rank = values[0].rank + (step.op_name == "stack")
        parts = [self.broadcast_along(v, over) for v in values]
        made = self.emit(step.op_name, parts, {**attrs, "axis": len(over) + attrs["axis"] % rank})
        return LoopValue(made, len(over), rank)

    def _view(self, step: OpStep, x: LoopValue) -> LoopValue:
        over, attrs = self.over(x), step.attr_dict
        if step.op_name == "slice":
            attrs = self.region(over, **attrs)
        elif step.op_name == "transpose":
            attrs = {"axes": (*range(len(over)), *(len(over) + a % x.rank for a in attrs["axes"]))}
        else:
            shape = tuple(attrs["shape"])
            if any(n < 0 for n in shape):
                raise_not_vectorised()
            attrs = {"shape": (*over, *shape)}
            if step.op_name == "broadcast_to":
                x = x._replace(tensor=self.aligned(x, x.loop_axes, len(shape)))
        made = self.emit(step.op_name, (x.tensor,), attrs)
        return LoopValue(made, x.loop_axes, self.meta(made).ndim - x.loop_axes)


# ---------------------------------------------------------------- what is known of the result
def _known(step: OpStep, values: Sequence[LoopValue]) -> Linear | None:
    """Return a step's result as a known int, where its operands are known ints."""
    name = step.op_name
    if name == "full":
        value, is_int = step.attr("value"), step.attr("dtype") == "int64" and not step.attr("shape")
        return Linear(value) if is_int and type(value) is int else None
    known = values[0].known if values else None
    if known is None or values[0].rank:
        return None
    if name in _SAME:
        return known if name != "astype" or step.attr("dtype") == "int64" else None
    if name not in _SUMS or values[1].known is None:
        return None
    other = values[1].known
    if name == "multiply":
        return known.times(other)
    return known.plus(other, 1 if name == "add" else -1)


def _within(step: OpStep, values: Sequence[LoopValue]) -> Within | None:
    """Return what is known of an index inside of a branch, where it is 0 if the condition is false."""
    if step.op_name == "where":
        condition, on, off = values
        if on.known is not None and off.known == Linear(0) and not condition.rank:
            return Within(condition.tensor, on.known)
        return None
    same = step.op_name in _SAME and (step.op_name != "astype" or step.attr("dtype") == "int64")
    return values[0].within if same else None


def _only(step: OpStep, values: Sequence[LoopValue]) -> frozenset[int]:
    """Return the conditions that must hold for a step's result to be right."""
    if step.op_name == "logical_and":  # false where either is false, whatever the other
        one, two = values
        return (one.only - {two.tensor}) | (two.only - {one.tensor})
    return frozenset().union(*(v.only for v in values))
