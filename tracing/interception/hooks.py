"""The tracer's hooks: which proxy the traced function sees in place of a real value."""
from __future__ import annotations

import types
import weakref
from typing import Any, Protocol

from jitfuse.tracing.interception.chain import Chain


class Hooks(Protocol):
    """The tracer's part of the tracing environment. Every method may raise a JitfuseError, which reaches the user."""

    def is_array(self, value: Any) -> bool:
        """Tell whether a real value is an array that becomes a feed."""
        ...

    def knows(self, value: Any) -> bool | None:
        """Tell whether a callable or object of a library of arrays is known; None for those of other libraries."""
        ...

    def is_module(self, value: Any) -> bool:
        """Tell whether a real value is an object of a library whose state is guarded by `module`."""
        ...

    def module(self, environment: Any, chain: Chain, value: Any) -> None:
        """Guard the state of such an object; called once per object and trace."""
        ...

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute of a proxy; raises AttributeError where the real value has none."""
        ...

    def is_traced(self, value: Any) -> bool:
        """Tell whether a value is one of the trace's proxies; called often, so make it fast."""
        ...

    def array(self, chain: Chain, value: Any) -> Any:
        """Return the proxy of an array; called once per array object and trace."""
        ...

    def number(self, chain: Chain, value: Any) -> Any:
        """Return the proxy of an exact int or float, or call `TracingEnvironment.guard_value` and return the value."""
        ...

    def numpy_scalar(self, chain: Chain, value: Any) -> Any:
        """Return the proxy of a NumPy scalar, likewise."""
        ...

    def substitute(self, value: Any) -> Any | None:
        """Return the substitute of a callable or module, or None."""
        ...

    def concrete(self, value: Any) -> Any:
        """Return the concrete value of a traced number (a read of its value), or raise for an array."""
        ...

    def read_value(self, value: Any) -> Any:
        """Return the concrete value of a traced number, even if that is data-dependent, or raise."""
        ...

    def counted(self, value: Any, name: str, by: int, frame: types.FrameType) -> Any:
        """Return the new value of a frame's counter after it was counted by `by`, or set (0)."""
        ...

    def counted_of(self, owner: Any, value: Any, name: str, by: int) -> Any:
        """Return the new value of an attribute, of an object made in the trace, that was counted by `by`."""
        ...

    def iterated(self, value: Any, name: str, frame: types.FrameType) -> Any:
        """Return what a frame's loop over a counter iterates over."""
        ...

    def iterations(self, value: Any, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool) -> Any:
        """Return what a function's loop at a source location iterates over."""
        ...

    def called(self, value: Any) -> Any:
        """Return what to call in place of a callee that was read by name or attribute."""
        ...

    def identified(self, *values: Any) -> tuple[Any, ...]:
        """Return the values that the function compares by identity, or raise where they may be other objects than in
        plain Python."""
        ...

    def writes(self) -> None:
        """Raise where Python state must not be written now."""
        ...

    def branch(self, name: str, frame: types.FrameType, values: tuple[Any, ...]) -> Any:
        """Take a step of a branch that may be if-converted in a frame; return its result."""
        ...

    def reject_generator(self, target: str, value: Any) -> None:
        """Raise where a value cannot be stored beyond the trace, because each call would have to advance its state."""
        ...

    def stored(self, target: str, value: Any) -> Any:
        """Return what is stored, for now, in place of a traced value that is to outlive the trace; or raise.

        `target` reads like ``self.count``.
        """
        ...
