"""What the view asks the tracer: which stand-in the traced function sees in place of a real value."""
from __future__ import annotations

import types
import weakref
from typing import Any, Protocol

from jitfuse.tracing.interception.chain import Chain


class Hooks(Protocol):
    """The tracer's side of the view. Every method may raise a JitfuseError, which reaches the user."""

    def is_array(self, value: Any) -> bool:
        """Tell whether a real value is an array that becomes a feed."""
        ...

    def is_module(self, value: Any) -> bool:
        """Tell whether a real value is an object of a library whose state is guarded by `module`."""
        ...

    def module(self, view: Any, chain: Chain, value: Any) -> None:
        """Guard the state of such an object; asked once per object and trace."""
        ...

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute of a stand-in, or raise AttributeError where what it stands for has none."""
        ...

    def is_traced(self, value: Any) -> bool:
        """Tell whether a value is one of the trace's own stand-ins; called often, so make it fast."""
        ...

    def array(self, chain: Chain, value: Any) -> Any:
        """Return the stand-in of an array; asked once per array object and trace."""
        ...

    def number(self, chain: Chain, value: Any) -> Any:
        """Return the stand-in of an exact int or float, or call `View.guard_value` and return the value."""
        ...

    def numpy_scalar(self, chain: Chain, value: Any) -> Any:
        """Return the stand-in of a NumPy scalar, likewise."""
        ...

    def substitute(self, value: Any) -> Any | None:
        """Return what the function sees in place of this callable or module, or None to leave it."""
        ...

    def concrete(self, value: Any) -> Any:
        """Return the plain value of a traced number (which counts as a look), or raise for an array."""
        ...

    def read_value(self, value: Any) -> Any:
        """Return the plain value of a traced number, also of one that only data knows, or raise."""
        ...

    def counted(self, value: Any, name: str, by: int, frame: types.FrameType) -> Any:
        """A counter of a frame has been counted by some number, or set (0): return what it is."""
        ...

    def counted_of(self, owner: Any, value: Any, name: str, by: int) -> Any:
        """Return what an attribute of an object made in the trace is from now on: it has been counted by a number."""
        ...

    def iterated(self, value: Any, name: str, frame: types.FrameType) -> Any:
        """A frame begins a loop whose variable is a counter: return what it goes over."""
        ...

    def iterations(self, value: Any, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool) -> Any:
        """A function begins a loop, which is at a place of its source: return what it goes over."""
        ...

    def called(self, value: Any) -> Any:
        """Return what the function calls in place of what it calls by a name or an attribute."""
        ...

    def identified(self, *values: Any) -> tuple[Any, ...]:
        """The function asks which objects some values are: return these, or raise where they may be others than in
        plain Python.
        """
        ...

    def writes(self) -> None:
        """Python state is about to be written: raise where that may not happen."""
        ...

    def branch(self, name: str, frame: types.FrameType, values: tuple[Any, ...]) -> Any:
        """A frame takes a step of a branch that may be if-converted: return what the step gives."""
        ...

    def refuse_kept(self, place: str, value: Any) -> None:
        """Raise where a value may not be kept at a place beyond the trace, for each call would have to move it on."""
        ...

    def stored(self, place: str, value: Any) -> Any:
        """A traced value is to be stored where it outlives the trace: return what is kept there meanwhile, or raise.

        `place` reads like ``self.count``.
        """
        ...
