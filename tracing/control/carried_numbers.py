"""Numbers that a loop carries from one iteration to the next, and the dtype of each.

``s = 0.0`` before ``s += x[k]`` is a Python float until the first iteration, and a NumPy float afterwards. Such a
number is carried as NumPy's. Where the difference matters, a bool that says whether it is Python's is carried with it.
Owns the dtype and kind of each carried number. Does not own the loop (`jitfuse.tracing.control.loop_capture`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jitfuse.dtypes import integer_range
from jitfuse.ir import statuses
from jitfuse.ir.program import Meta
from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.record.recorder import Mixed, Recorder
from jitfuse.tracing.scalars.branch_values import as_python, holds
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_BOOL = Meta((), "bool")
BOUND: Final = 1 << 31
"""Bound, checked at run time, on data-dependent ends of ranges and on Python ints in loops; beyond it: fallback."""


def within_bound(run: Recorder, tensor: int, dtype: str) -> int:
    """Return an int with a run-time check that it is within `BOUND`; beyond it the call falls back."""
    ok = run.emit("less_equal", (tensor, run.literal(BOUND)))
    if integer_range(dtype)[0] < 0:
        ok = run.emit("logical_and", (ok, run.emit("greater_equal", (tensor, run.literal(-BOUND)))))
    return run.emit("require", (tensor, ok), {"status": statuses.WIDE_RANGE})


class CarriedNumber:
    """A number that a loop carries: its start, its value in an iteration, and its result."""

    def __init__(self, run: Recorder, start: TracedTensor) -> None:
        self._run, self._start = run, start
        self._dtype, self._weak = start._meta.dtype, start.weak
        mixed = run.mixed.get(start._id())
        self._python: int | None = None if mixed is None else mixed.truth
        """The bool that says whether the start is a Python number, where it is carried as NumPy's."""
        self._type: str | None = None if mixed is None else mixed.python
        """The dtype of the number while it is Python's."""
        self._is_mixed = False
        """Whether that bool is carried, too."""
        self._taken_for_exact = False
        """Whether an inner loop assumed that a float64 holds the int exactly: then it must become a float64 here."""
        self._bounded = False
        """Whether the loop checks that the Python int stays within `BOUND`."""
        self.value: TracedTensor = start
        self.outputs: tuple[int, ...] = ()
        self.changed = False
        """Whether the last iteration changed the dtype or kind that is carried."""

    @classmethod
    def of(cls, run: Recorder, value: Any) -> CarriedNumber | None:
        """Return a number as a carried one; None where its type cannot be carried."""
        if type(value) is int and not -(2**63) <= value < 2**63:
            return None
        start = lift(run, value)
        if start._meta.dtype not in ("bool", "int64", "float64") and (start.weak or start._meta.dtype == "bfloat16"):
            return None
        return cls(run, start)

    @property
    def starts(self) -> tuple[int, ...]:
        """The tensors with which the loop starts."""
        run = self._run
        start = self._checked(run.fit(self._start._id(), (), self._dtype))
        return (start, self._truth_at_start()) if self._is_mixed else (start,)

    def bound(self) -> bool:
        """Have the loop check that the int stays within `BOUND`; return whether that check is new."""
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
        """Begin an iteration with the number as a parameter."""
        run = self._run
        made = parameter(name, Meta((), self._dtype))
        truth = parameter(f"{name} is Python's", _BOOL) if self._is_mixed else None
        self.value = as_python(fresh(run, made)) if self._weak else fresh(run, made)
        if self._weak:
            if self._bounded:
                run.session.ranges[self.value._id()] = -BOUND, BOUND
            return
        if truth is None and self._python is not None:  # in the first iteration it is Python's
            truth = run.emit("logical_and", (run.emit("equal", (count, low)), self._python))
        if truth is not None:
            run.mixed[self.value._id()] = self._mixed(truth)

    def _mixed(self, truth: int) -> Mixed:
        assert self._type is not None
        return Mixed(truth, self._type)

    def end(self, value: Any) -> bool:
        """End an iteration that leaves this value; return whether the number can be carried."""
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
        """Carry the number in a dtype and kind that fit its start and its end; return whether there are such."""
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
        """Return whether a float64 holds the Python int exactly, as far as the outer loops can tell."""
        run = self._run
        if arithmetic.is_exact(run, number._id()):
            return True
        around = [c for loop in run.loops for c in loop.numbers if c is not self and c.value is number]
        for carried in around:
            carried._taken_for_exact = True
        return bool(around)

    def finish(self, results: Iterator[int], low: int, high: int, certain: bool, summed: bool) -> None:
        """Take the result of the loop.

        `certain`: the loop has an iteration. `summed`: the additions of all iterations were summed, unchecked. In an
        outer loop, too, Python ints are bounded from now on: a graph break could not check them there.
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
        if truth is None and self._python is not None:  # where the loop has no iterations it still is
            empty = run.emit("logical_not", (run.emit("less", (low, high)),))
            truth = run.emit("logical_and", (empty, self._python))
        if truth is not None:
            run.mixed[made._id()] = self._mixed(truth)
