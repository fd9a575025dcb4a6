"""TensorOp: an operation over named axes as a value, and its calls.

A call finds its function by the classes and shapes of its arrays; the first one of each solves the sizes, makes all
plans, and compiles the best. Owns the table of functions, and the messages. Does not own plans.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.axes.arrays import NUMPY, layout_of, library_of
from jitfuse.axes.checks import check_given, check_reducers, check_sides, not_a_view
from jitfuse.axes.faults import REDUCER, Fault, size_place
from jitfuse.axes.layouts import Layout, contiguous
from jitfuse.axes.libraries import Library
from jitfuse.axes.notation import Notation, Writer
from jitfuse.axes.plans.abstract import AbstractPlan, Reductions
from jitfuse.axes.plans.report import PlanReport
from jitfuse.axes.plans.steps import SpecializationContext
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.axes.reducers import Reducer
from jitfuse.axes.terms import AxisList
from jitfuse.errors import AxesError
from jitfuse.tracing.record.source import user_line

MAX_FUNCTIONS: Final = 512
"""Functions for other shapes that an operation keeps."""
_set: Final = object.__setattr__


class TensorOp:
    """An operation over named axes: immutable, hashable, picklable, and callable.

    Make one with `view`, `rearrange`, `repeat`, `reduce`, `contract` or `einop`.

    Example:
        >>> b, h, w = axes("b", "h", "w")
        >>> op = rearrange(ax[b, h * w], ax[w, b, h]).with_sizes(h=2)
        >>> op(np.arange(6).reshape(1, 6)).shape
        (3, 1, 2)
        >>> op
        rearrange(ax[b, h * w], ax[w, b, h]).with_sizes(h=2)
    """

    _plan: AbstractPlan
    _single: bool
    _sizes: dict[str, int | tuple[int, ...]]
    _reductions: Reductions
    _functions: dict[Any, Callable[..., Any]]
    _notation: Callable[[], Notation] | None
    __slots__ = ("_functions", "_notation", "_plan", "_reductions", "_single", "_sizes")

    def __init__(
        self, plan: AbstractPlan, *, single: bool, sizes: Mapping[str, int | tuple[int, ...]] | None = None,
        reductions: Reductions = None, notation: Callable[[], Notation] | None = None,
    ) -> None:
        for name, value in (
            ("_plan", plan), ("_single", single), ("_sizes", dict(sizes or {})), ("_reductions", reductions),
            ("_functions", {}), ("_notation", notation),
        ):
            _set(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"TensorOp.{name} cannot be changed: an operation is a value; make another one")

    # ------------------------------------------------------------ calls
    def __call__(self, *tensors: Any) -> Any:
        """Return the result for these arrays, or the tuple of results.

        Raises:
            AxesError: the arrays do not fit; the message says where, and what the sizes known so far are.
        """
        try:
            if len(tensors) == 1:
                x = tensors[0]
                run = self._functions[type(x), x.shape]
            else:
                run = self._functions[tuple([(type(x), x.shape) for x in tensors])]
        except (KeyError, AttributeError, TypeError):
            return self._first(tensors)
        return run(*tensors)

    def _first(self, tensors: tuple[Any, ...]) -> Any:
        """Carry out a call of new shapes."""
        try:
            self._check_arity(len(tensors), "is called with")
            arrays = tuple(x if type(x) is not np.memmap and not isinstance(x, np.generic) else np.asarray(x)
                           for x in tensors)
            library = library_of(arrays)
            layouts = tuple(map(layout_of, arrays))
            best, context = self._best(layouts, library)
            run = best.function(best.specialize(context), single=self._single)
        except Fault as fault:
            raise self.error(fault) from None
        is_given = all(x is array for x, array in zip(tensors, arrays))  # else each call converts them
        if is_given and self._plan.op_name != "view":  # whose strides are looked at in each call
            self._keep(tensors, layouts, run)
        return run(*arrays)

    def _keep(self, tensors: Sequence[Any], layouts: Sequence[Layout], run: Callable[..., Any]) -> None:
        """Keep what carries out calls with arrays of these classes and shapes."""
        if len(self._functions) >= MAX_FUNCTIONS:
            self._functions.clear()
        kinds = [(type(x), layout.shape) for x, layout in zip(tensors, layouts)]
        self._functions[kinds[0] if len(kinds) == 1 else tuple(kinds)] = run

    def _best(self, layouts: Sequence[Layout], library: Library) -> tuple[SymbolicPlan, SpecializationContext]:
        found, context = self._candidates(layouts, library)
        return (found[0] if len(found) == 1 else min(found, key=lambda plan: plan.score(context))), context

    def _candidates(
        self, layouts: Sequence[Layout], library: Library
    ) -> tuple[tuple[SymbolicPlan, ...], SpecializationContext]:
        """Return the plans that compete. A view's must not copy."""
        solution = self._plan.solve([layout.shape for layout in layouts], self._sizes)
        operation = self._plan.operation(solution, self._reductions)
        is_view = self._plan.op_name == "view"
        seen = layouts if is_view and library.proves else [contiguous(layout.shape) for layout in layouts]
        context = SpecializationContext(tuple(seen), operation.solution.sizes, library)
        found = tuple(p for p in self._plan.lower(operation) if library.writes or not p.writes)
        if is_view and library.proves:
            views = tuple(plan for plan in found if plan.score(context).allocation_count == 0)
            if not views:
                raise not_a_view(found[0], context)
            found = views
        return found, context

    def plan(self, *arrays: Any) -> PlanReport:
        """Return the plans for arrays, or for shapes: all candidates with their scores, and the one that is taken.

        Example:
            >>> b, n = axes("b", "n")
            >>> print(rearrange(ax[b, n], ax[n, b]).plan((2, 3)))
            rearrange(ax[b, n], ax[n, b]) for (2, 3): n=3, b=2
            ...
        """
        try:
            self._check_arity(len(arrays), "is planned for")
            shapes = all(isinstance(x, tuple | list) for x in arrays)
            library = NUMPY if shapes else library_of(arrays)
            layouts = tuple(contiguous(tuple(x)) if shapes else layout_of(x) for x in arrays)
            found, context = self._candidates(layouts, library)
        except Fault as fault:
            raise self.error(fault) from None
        return PlanReport(repr(self), found, context)

    def picture(self, *shapes: tuple[int, ...]) -> str:
        """Return the operation as a picture, the text of an SVG file: axes as boxes, before and after.

        With shapes of arrays, boxes show the sizes of axes.

        Example:
            >>> b, h, w = axes("b", "h", "w")
            >>> rearrange(ax[b, h, w], ax[b * w, h]).picture((2, 3, 4)).startswith("<svg")
            True
        """
        from jitfuse.axes.picture import operation_svg

        sizes = {}
        if shapes:
            report = self.plan(*shapes)
            sizes = dict(report.context.sizes)
        return operation_svg(repr(self), self._plan.lhs, self._plan.rhs, sizes)

    # ------------------------------------------------------------ changes
    def with_sizes(self, /, **sizes: int | tuple[int, ...]) -> TensorOp:
        """Return the operation with sizes of axes given: integers, and tuples for packs.

        Raises:
            AxesError: a name is not in the operation, or a size is negative.
        """
        try:
            check_given(self._plan, sizes)
        except Fault as fault:
            raise self._changed(sizes={**self._sizes, **sizes}).error(fault) from None
        plain = {name: tuple(map(int, n)) if isinstance(n, tuple) else int(n) for name, n in sizes.items()}
        return self._changed(sizes={**self._sizes, **plain})

    def reduce_by(self, *reducers: Reducer | tuple[AxisList, Reducer]) -> TensorOp:
        """Return the operation with a reducer, or with several in order: ``reduce_by((ax[h], "max"), (ax[w], "sum"))``.

        A reducer is "sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var" (of the population), or a
        function of an array and a tuple of axes.

        Raises:
            AxesError: the operation does not reduce, or the reducer is none.
        """
        made = self._changed(reductions=reducers[0] if len(reducers) == 1 and not isinstance(reducers[0], tuple) else (
            reducers))
        try:
            check_reducers(self._plan, reducers)
        except Fault as fault:
            raise made.error(fault) from None
        return made

    def _changed(self, **changes: Any) -> TensorOp:
        return type(self)(**{"plan": self._plan, "single": self._single, "sizes": self._sizes,
                           "reductions": self._reductions, **changes})

    # ------------------------------------------------------------ checks
    def check(self) -> TensorOp:
        """Check what is known without shapes; return the operation.

        Raises:
            AxesError: the numbers of arrays are not those of the operation, or axes are lost or come from nowhere.
        """
        try:
            check_sides(self._plan)
        except Fault as fault:
            raise self.error(fault) from None
        return self

    def _check_arity(self, count: int, verb: str) -> None:
        wanted = len(self._plan.lhs)
        if count != wanted:
            raise Fault("wrong_arity", f"the operation takes {_arrays(wanted)} and {verb} {count}",
                        help="Give one array for each ax[...] on the left.")
        if self._plan.op_name == "reduce" and self._reductions is None:
            raise Fault("bad_reducer", "nothing says how to reduce", help='Add .reduce_by("sum"), or another reducer.')

    def error(self, fault: Fault) -> AxesError:
        """Return the error for a fault, with the operation's text."""
        sizes = ", ".join(f"{k}={n}" for k, n in fault.sizes.items() if "#" not in k)
        written = self._written()
        return AxesError(fault.code, f"{fault.reason}, at {user_line()}", written=written.marked(fault.place),
                         sizes=sizes, help=fault.help)

    # ------------------------------------------------------------ a value
    def _written(self) -> Notation:
        if self._notation is not None:
            return self._notation()
        plan, writer = self._plan, Writer()
        writer.add(f"{plan.op_name}(")
        writer.side("left", plan.lhs, single=len(plan.lhs) == 1)
        writer.add(", ")
        writer.side("right", plan.rhs, single=self._single)
        writer.add(")")
        if self._reductions is not None:
            shown = self._reductions if isinstance(self._reductions, tuple) else (self._reductions,)
            writer.add(".")
            writer.add(f"reduce_by({', '.join(map(_shown, shown))})", REDUCER)
        if self._sizes:
            writer.add(".with_sizes(")
            for k, (name, size) in enumerate(self._sizes.items()):
                writer.add(", " if k else "")
                writer.add(f"{name}={size!r}", size_place(name))
            writer.add(")")
        return writer.notation()

    def __repr__(self) -> str:
        return self._written().text

    def _value(self) -> tuple[Any, ...]:
        return self._plan, self._single, tuple(sorted(self._sizes.items())), self._reductions

    def __eq__(self, other: object) -> bool:
        return self._value() == other._value() if isinstance(other, TensorOp) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._plan, self._single, self._sizes, self._reductions, self._notation)


def _restored(
    kind: type[TensorOp], plan: AbstractPlan, single: bool, sizes: Any, reductions: Any, notation: Any
) -> TensorOp:
    return kind(plan, single=single, sizes=sizes, reductions=reductions, notation=notation)


def _shown(reducer: Any) -> str:
    if isinstance(reducer, tuple) and len(reducer) == 2:
        return f"({reducer[0]!r}, {_shown(reducer[1])})"
    return repr(reducer) if isinstance(reducer, str) else getattr(reducer, "__qualname__", repr(reducer))


def _arrays(count: int) -> str:
    return "one array" if count == 1 else f"{count} arrays"
