"""State in a trace: arrays that the program reads wherever they are, and writes in training alone.

A write is selected by the mode: evaluation keeps the array as it is, so that what computes the new values is pruned
there. Outside of a trace the array is written at once.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from jitfuse.errors import ShapeError
from jitfuse.ir.formats.phases import UPDATE, in_phase
from jitfuse.tracing.control.combinators import strong
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.mode import ModeFlag, is_training, runs_plain
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id


class Held(NamedTuple):
    """An object that outlives the call, such as an optimiser, and how a trace reads its parts.

    What the function has reached through an argument may be another object in each call, and is read by its path.
    Anything else is read as the object that it is.
    """

    run: Recorder | None
    value: Any
    chain: Chain
    by_path: bool

    @staticmethod
    def of(run: Recorder | None, value: Any, layout: Any, label: str) -> Held:
        """Return a view of an object; all of its kind that have the same `layout`, by identity, share traces."""
        found = None if run is None else run.environment.origin.get(id(value))
        if run is None or found is None:
            return Held(run, value, Chain.object(value, label), False)
        chain = found[1]
        if chain.root.kind != "arg":
            run.environment.guard(chain, "IS", value)
            return Held(run, value, Chain.object(value, label), False)
        run.environment.guard(chain.attr("layout"), "IS", layout)
        return Held(run, value, chain, True)

    def part(self, value: Any, name: str, *keys: int | str) -> Held:
        """Return the view of a part: an attribute, or an item of one."""
        chain = self.chain.attr(name)
        for key in keys:
            chain = chain.index(key) if isinstance(key, int) else chain.key(key)
        return self._replace(value=value, chain=chain if self.by_path else Chain.object(value, str(chain)))

    def seen(self) -> Any:
        """Return what a trace sees of the object, an array; outside of a trace, itself."""
        if self.run is None:
            return self.value
        return self.run.environment.read(self.chain, self.value)

    def option(self, name: str) -> Any:
        """Return what a trace sees of an attribute, a number as one that each call reads; outside, the value."""
        value, chain = getattr(self.value, name), self.chain.attr(name)
        if self.run is None:
            return value
        if type(value) is tuple:
            return tuple(self.run.environment.read(chain.index(k), part) for k, part in enumerate(value))
        return (self.run.environment.static if callable(value) else self.run.environment.read)(chain, value)


@contextlib.contextmanager
def updating(run: Recorder | None) -> Iterator[None]:
    """Mark what is recorded as an update of state, at the user's line that is running."""
    if run is None:
        yield
        return
    before, run.fixed_source = run.fixed_source, in_phase(user_line(), UPDATE)
    try:
        yield
    finally:
        run.fixed_source = before


def moves(array: Any, new: Any, condition: Any = None, mode: Any = None) -> None:
    """Give an array new elements, in training alone where a trace sees it, and where a condition holds.

    `mode`: that of a layer; None: that of the call. Raises ShapeError for another shape.
    """
    mode = is_training() if mode is None else mode
    run = active()
    if run is None or not isinstance(array, TracedTensor):
        if (condition is None or condition) and (mode or not runs_plain()):
            array[...] = new
        return
    if type(mode) is not ModeFlag and not mode:  # a call inside of another, with a mode of its own
        return
    value = strong(lift(run, new))
    if value.shape != array.shape:
        raise ShapeError(f"state of shape {array.shape} is given {value._meta}, at {user_line()}")
    if condition is not None:
        value = condition.call("where", value, array)
    fitted = run.fit(tensor_id(value), array.shape, str(array.dtype))
    constant = run.emit("stop_gradient", (fitted,))  # a loss that is computed later does not see how it was made
    by_call = type(mode) is ModeFlag
    array[...] = fresh(run, run.emit("mode_select", (constant, tensor_id(array))) if by_call else constant)
