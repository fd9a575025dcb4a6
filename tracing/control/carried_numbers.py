"""Numbers that go from one iteration of a loop to the next, whose dtype the iterations decide.

``s = 0.0`` before ``s += x[k]`` is a float of Python's until the first iteration, and NumPy's from then on. Such a
number is carried as NumPy's, with the truth that it stands for one of Python's beside it where anybody needs that. Owns
which numbers are carried as what. Does not own the loop (`jitfuse.tracing.control.loop_capture`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jitfuse.dtypes import integer_range
from jitfuse.ir import statuses
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.recorder import Mixed, Recorder
from jitfuse.tracing.scalars import arithmetic
from jitfuse.tracing.scalars.branch_values import as_python, holds
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_BOOL = Meta((), "bool")
BOUND: Final = 1 << 31
"""Where ranges that are data begin and end, and what ints stay within that loops check; further on Python answers."""


def within_bound(run: Recorder, tensor: int, dtype: str) -> int:
    """Return an int as one that plain Python answers for where it is further from 0 than `BOUND`."""
    ok = run.emit("less_equal", (tensor, run.literal(BOUND)))
    if integer_range(dtype)[0] < 0:
        ok = run.emit("logical_and", (ok, run.emit("greater_equal", (tensor, run.literal(-BOUND)))))
    return run.emit("require", (tensor, ok), {"status": statuses.WIDE_RANGE})


class CarriedNumber:
    """A number that a loop carries: what it starts as, is in an iteration, and comes out as."""

    def __init__(self, run: Recorder, start: TracedTensor) -> None:
        self._run, self._start = run, start
        self._dtype, self._weak = start._meta.dtype, start.weak
        mixed = run.mixed.get(start._id())
        self._python: int | None = None if mixed is None else mixed.truth
        """The truth that the start stands for a number of Python's, where it is carried as NumPy's."""
        self._type: str | None = None if mixed is None else mixed.python
        """The dtype that the number has where it is Python's."""
        self._is_mixed = False
        """Whether that truth is carried, too."""
        self._taken_for_exact = False
        """Whether a loop within takes the int for one that a double holds: then it has to turn out a double here."""
        self._bounded = False
        """Whether the loop checks that the int of Python's stays within `BOUND`."""
        self.value: TracedTensor = start
        self.outputs: tuple[int, ...] = ()
        self.changed = False
        """Whether the last iteration has changed what it is carried as."""

    @classmethod
    def of(cls, run: Recorder, value: Any) -> CarriedNumber | None:
        """Return a number as one that is carried; None where none is."""
        if type(value) is int and not -(2**63) <= value < 2**63:
            return None
        start = lift(run, value)
        if start._meta.dtype not in ("bool", "int64", "float64") and (start.weak or start._meta.dtype == "bfloat16"):
            return None
        return cls(run, start)

    @property
    def starts(self) -> tuple[int, ...]:
        """The tensors that the loop starts with."""
        run = self._run
        start = self._checked(run.fit(self._start._id(), (), self._dtype))
        return (start, self._truth_at_start()) if self._is_mixed else (start,)

    def bound(self) -> bool:
        """Have the loop check that the int stays small; return whether it did not before, and can."""
        run = self._run
        if self._bounded or not self._weak or self._dtype != "int64":
            return False
        self._bounded = True
        run.session.ranges[self.value._id()] = -BOUND, BOUND
        return True

    def _checked(self, tensor: int) -> int:
        return within_bound(self._run, tensor, "int64") if self._bounded else tensor

    def _truth_at_start(self) -> int:
        return self._run.scalar(False, "bool") if self._python is None else self._python

    def begin(self, parameter: Callable[[str, Meta], int], name: str, count: int, low: int) -> None:
        """Begin an iteration: the number is a parameter of it."""
        run = self._run
        made = parameter(name, Meta((), self._dtype))
        truth = parameter(f"{name} is Python's", _BOOL) if self._is_mixed else None
        self.value = as_python(fresh(run, made)) if self._weak else fresh(run, made)
        if self._weak:
            if self._bounded:
                run.session.ranges[self.value._id()] = -BOUND, BOUND
            return
        if truth is None and self._python is not None:  # it is in the first iteration
            truth = run.emit("logical_and", (run.emit("equal", (count, low)), self._python))
        if truth is not None:
            run.mixed[self.value._id()] = self._mixed(truth)

    def _mixed(self, truth: int) -> Mixed:
        assert self._type is not None
        return Mixed(truth, self._type)

    def end(self, value: Any) -> bool:
        """End an iteration that leaves a value; return whether the number can be carried."""
        run, self.changed = self._run, False
        taken, self._taken_for_exact = self._taken_for_exact, False
        if type(value) is int and not -(2**63) <= value < 2**63:
            return False
        end = lift(run, value)
        dtype, weak = end._meta.dtype, end.weak
        if (dtype, weak) != (self._dtype, self._weak) and not self._join(end):
            return False
        mixed = Mixed(run.scalar(True, "bool"), dtype) if weak else run.mixed.get(end._id())
        if not self._weak and mixed is not None:
            if self._type not in (None, mixed.python):
                return False
            self._type = mixed.python
            self.changed |= not self._is_mixed
            self._is_mixed = True
        if self.changed or (taken and self._weak):
            return self.changed
        self.outputs = (self._checked(run.fit(end._id(), (), self._dtype)),)
        if self._is_mixed:
            self.outputs += (run.scalar(False, "bool") if mixed is None else mixed.truth,)
        return True

    def _join(self, end: TracedTensor) -> bool:
        """Carry the number as what both its start and its end are; return whether there is such a thing."""
        dtype, weak = end._meta.dtype, end.weak
        if weak == self._weak:
            return False
        numpy, python = (self._dtype, dtype) if weak else (dtype, self._dtype)
        other = end if weak else self._start
        if not holds(numpy, python) or not (numpy == python or python != "int64" or self._is_exact(other)):
            return False
        if self._weak:
            self._dtype, self._weak, self.changed, self._bounded = numpy, False, True, False
            self._python, self._type = self._run.scalar(True, "bool"), python
        return True

    def _is_exact(self, number: TracedTensor) -> bool:
        """Return whether a double holds a Python int, as far as the loops around can tell while they are traced."""
        run = self._run
        if arithmetic.is_exact(run, number._id()):
            return True
        around = [c for loop in run.loops for c in loop.numbers if c is not self and c.value is number]
        for carried in around:
            carried._taken_for_exact = True
        return bool(around)

    def finish(self, results: Iterator[int], low: int, high: int, certain: bool, summed: bool) -> None:
        """Take what comes out of the loop.

        `certain`: it has an iteration. `summed`: what iterations add has been summed, whose bound has not been checked.
        In a loop around, too, ints of Python's are small from now on: nobody could look at them there.
        """
        run, result = self._run, next(results)
        has_bound = (summed or bool(run.loops)) and self._weak and self._dtype == "int64"
        made = fresh(run, within_bound(run, result, "int64") if has_bound else result)
        self.value = as_python(made) if self._weak else made
        if has_bound:
            run.session.ranges[self.value._id()] = -BOUND, BOUND
        truth = next(results) if self._is_mixed else None
        if self._weak or (certain and self._is_mixed and self.outputs[-1] == run.scalar(False, "bool")):
            return
        if truth is None and self._python is not None:  # it is where there was no iteration
            empty = run.emit("logical_not", (run.emit("less", (low, high)),))
            truth = run.emit("logical_and", (empty, self._python))
        if truth is not None:
            run.mixed[made._id()] = self._mixed(truth)
