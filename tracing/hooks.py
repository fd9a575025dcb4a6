"""The tracer's side of the tracing environment: which proxy the traced function sees for a real value."""
from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import SUPPORTED, kind, numpy_dtype
from jitfuse.errors import ArgumentError, UntraceableError
from jitfuse.tracing import known_libraries
from jitfuse.tracing.control import replication
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.numpy_like.substitutes import replace, substitute
from jitfuse.tracing.observe import loop_counters
from jitfuse.tracing.record.device_array import DeviceArray, HostArray, seen
from jitfuse.tracing.record.dispatch_wrappers import unwrapped_function
from jitfuse.tracing.record.foreign import Foreign, bare, is_torch_module, is_torch_tensor
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.rng_states import RngStates
from jitfuse.tracing.record.session import Feed
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.rewrite import branches
from jitfuse.tracing.tensor.array_class import original
from jitfuse.tracing.tensor.traced import TracedTensor, from_feed

if_conversion = Later("jitfuse.tracing.control.if_conversion")
long_loops = Later("jitfuse.tracing.control.long_loops")
branch_values = Later("jitfuse.tracing.scalars.branch_values")
conversions = Later("jitfuse.tracing.scalars.conversions")
mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")
rng = Later("jitfuse.tracing.generators.rng")
random_state = Later("jitfuse.tracing.generators.random_state")
generator = Later("jitfuse.tracing.generators.generator")
loop_capture = Later("jitfuse.tracing.control.loop_capture")
lists = Later("jitfuse.tracing.numpy_like.lists")
torch_creation = Later("jitfuse.tracing.torch_like.creation")
torch_modules = Later("jitfuse.tracing.torch_like.modules")

_PROXIES: Final = frozenset({TracedTensor, ModeFlag})
_OF_BOTH_KINDS: Final = frozenset({"jitfuse.derivatives", "jitfuse.own_derivatives"})
"""Modules whose functions take NumPy's arrays and torch's tensors, and return what they have got."""
_NUMBERS: Final[dict[str, type]] = {"bool": bool, "int": int, "uint": int, "float": float, "complex": complex}


def _know_torch() -> None:
    """Replace torch's functions in traced user code, once all of torch is imported."""
    torch = sys.modules.get("torch")
    if hasattr(torch, "compile") and hasattr(torch, "nn"):
        replace("torch", torch_creation.replacements)


branches.take_steps_from(lambda name: if_conversion.STEPS[name])


class TracingHooks:
    """Implements `jitfuse.tracing.interception.hooks.Hooks` for one run: arrays and numbers become feeds."""

    def __init__(
        self, run: Recorder, foreign: frozenset[int] = frozenset(), states: RngStates | None = None
    ) -> None:
        self.run = run
        self.states = RngStates() if states is None else states
        """The arrays that are RNG states."""
        self.at_end: list[Callable[[], None]] = []
        """What is to be done once the function has ended, by a result or by an error; the last first."""
        self.foreign = foreign
        """The ids of arrays that are views of torch tensors."""

    knows = staticmethod(known_libraries.knows)

    def is_array(self, value: Any) -> bool:
        """Tell whether a value is an array."""
        return isinstance(value, np.ndarray | DeviceArray | HostArray) or is_torch_tensor(value)

    def is_module(self, value: Any) -> bool:
        """Tell whether a value is a torch module, whose whole state is guarded."""
        return is_torch_module(value)

    def module(self, environment: Any, chain: Chain, value: Any) -> None:
        """Make feeds of a module's parameters and guard the rest of its state."""
        torch_modules.guard(environment, chain, value)

    def is_traced(self, value: Any) -> bool:
        """Tell whether a value is a traced tensor or the training flag."""
        return type(value) in _PROXIES or isinstance(value, Foreign)

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute of a traced value.

        A proxy of a Python number has the attributes of that type alone. A proxy of a NumPy scalar has only the special
        methods of its type: code tests for `__len__` to tell arrays from numbers.
        """
        value = mixed_numbers.settled(value) if type(value) is TracedTensor and self.run.mixed else value
        if type(value) is TracedTensor and (value.weak or (value._scalar and name.startswith("__"))):
            number = _NUMBERS[kind(value._meta.dtype)] if value.weak else numpy_dtype(value._meta.dtype).type
            if not hasattr(number, name):
                raise AttributeError(f"{number.__name__!r} object has no attribute {name!r}")
        return getattr(value, name)

    def array(self, chain: Chain, value: Any) -> Any:
        """Return an array's traced tensor; raises ArgumentError for subclasses, DTypeError for unsupported dtypes."""
        if is_torch_tensor(value):
            return torch_modules.read(self.run, chain, value)
        session, wrapped = self.run.session, isinstance(value, HostArray)
        if wrapped and value.is_owner:  # its memory is read as an attribute: native code can
            session.trains = session.trains or value.is_trained
            self.run.environment.guard(chain, "TYPE", type(value))
            tensor = self.run.environment.read(chain.attr("value"), value.array)
            feed = tensor._storage.feed
            if feed.source == chain.attr("value"):
                session.owners[feed.id] = chain, value
            return tensor
        session.eager = session.eager or wrapped
        session.on_device = session.on_device or isinstance(value, DeviceArray)
        value = seen(value)
        if type(value) is not np.ndarray:
            raise ArgumentError(
                f"{chain} is a {type(value).__name__}, whose operators differ from np.ndarray's; pass "
                f"np.asarray({chain})"
            )
        feed = session.array_feed(chain, str(chain), value, wrapped)
        if id(value) in self.foreign:
            session.torch = True
            return torch_modules.wrapped_module(self.run, feed)
        tensor = self._tensor(feed)
        return self._generator(tensor) if id(value) in self.states else tensor

    def number(self, chain: Chain, value: Any) -> Any:
        """Return the traced tensor of an int, float or complex number."""
        session, breaker, name = self.run.session, self.run.breaker, str(chain)
        feed = session.scalar_feed(chain, name, value)
        if breaker is not None and breaker.varies(name):
            session.dynamic.add(feed.id)
        return self._tensor(feed)

    def numpy_scalar(self, chain: Chain, value: Any) -> Any:
        """Return the traced tensor of a NumPy scalar; raises DTypeError for unsupported dtypes."""
        if value.dtype.name not in SUPPORTED and value.dtype.kind not in "biufc":
            return value
        return self._tensor(self.run.session.scalar_feed(chain, str(chain), value))

    def _tensor(self, feed: Feed) -> TracedTensor:
        tensor: TracedTensor | None = self.run.feed_tensors.get(feed.id)
        if tensor is None:
            tensor = self.run.feed_tensors[feed.id] = from_feed(self.run, feed)
        return tensor

    def _generator(self, state: TracedTensor) -> Any:
        """Return the proxy of a generator from outside, whose state is an array; that is written back at the end."""
        found = self.run.external_generators.get(id(state))
        if found is None:
            legacy = rng.is_legacy(state)
            kind = random_state.TracedRandomState if legacy else generator.TracedGenerator
            found = self.run.external_generators[id(state)] = kind(self.run, state.as_copy(), state)
        return found

    def substitute(self, value: Any) -> Any | None:
        """Return the replacement of a NumPy creation function, a random generator, a clock and so on, or None.

        If the function has seen torch tensors, jitfuse's functions are wrapped to take and return them.
        """
        if self.states:
            rng.reject_other(value)
        function = unwrapped_function(value)
        if str(getattr(function, "__module__", "")).startswith("torch"):
            _know_torch()
        found = substitute(function)
        if found is None and self.run.session.torch and type(function) is types.FunctionType and (
                str(function.__module__).startswith("jitfuse.") and function.__module__ not in _OF_BOTH_KINDS):
            return torch_modules.over_tensors(function)
        return function if found is None and function is not value else found

    def concrete(self, value: Any) -> Any:
        """Return the value of a traced number, which becomes a guard; raises TracedValueError for arrays."""
        return bool(value) if type(value) is ModeFlag else bare(value).known()

    def read_value(self, value: Any) -> Any:
        """Return the value of a traced number; this may be a graph break."""
        return bool(value) if type(value) is ModeFlag else bare(value)._read_value("the use of its value")

    def counted(self, value: Any, name: str, by: int, frame: types.FrameType) -> Any:
        """Return a counter's value from now on: a run-time number in loops that read traced values."""
        return loop_counters.counted(self.run, value, name, by, frame)

    def counted_of(self, owner: Any, value: Any, name: str, by: int) -> Any:
        """Return a counting attribute's value from now on."""
        return loop_counters.counted_of(self.run, owner, value, name, by)

    def iterated(self, value: Any, name: str, frame: types.FrameType) -> Any:
        """Return the iterable of a loop whose variable is a counter."""
        return loop_counters.iterated(self.run, value, name, frame)

    def iterations(self, value: Any, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool) -> Any:
        """Return the iterable of a loop; that of a range replicates uniform iterations after a few traced ones."""
        if type(value) is range:
            return replication.profiled_range(self.run, value, code, line, column, counted)
        if "jitfuse.tracing.control.loop_capture" in sys.modules and type(value) is loop_capture.CapturedLoop:
            value.at = code, line, column, counted
        return value

    def capture_long_loops(self) -> None:
        """End a run that has recorded very many operators, so that its outermost running loop is captured."""
        long_loops.find_long_loops(self.run)

    def called(self, value: Any) -> Any:
        """Return the function that is called in place of a value.

        The replacements of `float` and `int` make run-time numbers; those of NumPy's functions take lists of traced
        values.
        """
        return conversions.CALLED.get(value, value) if type(value) is type else lists.in_place_of(value)

    def identified(self, *values: Any) -> tuple[Any, ...]:
        """Return values with real classes in place of class proxies, for comparisons by identity.

        Undo all if-conversions if a value is traced: a selected value is identical to neither side's.
        """
        if self.run.converted_sites and any(isinstance(bare(v), TracedTensor) for v in values):
            assert self.run.breaker is not None
            self.run.breaker.decide(self.run.converted_sites)
        return tuple(map(original, values))

    def writes(self) -> None:
        """Undo the conversion of a branch or loop that writes Python's state."""
        if self.run.active_branches or self.run.loops:
            self.run.undo_conversion()

    def branch(self, name: str, frame: types.FrameType, values: tuple[Any, ...]) -> Any:
        """Take a step of an if-converted branch."""
        return if_conversion.STEPS[name](self.run, frame, *values)

    def reject_generator(self, target: str, value: Any) -> None:
        """Raise UntraceableError for a generator that outlives the call: its RNG state would not be updated there."""
        if "jitfuse.tracing.generators.rng" in sys.modules and issubclass(type(value), rng.TracedRng):
            raise UntraceableError(
                f"a generator is stored as {target}, at {user_line()}: compiled calls would not move it on there. Make "
                "it outside, or where it is used."
            )

    def stored(self, target: str, value: Any) -> Any:
        """Return the value to store in real state while the function runs; calls store the computed value there."""
        if type(value) is ModeFlag:
            return bool(value)
        if self.run.converted_sites:
            branch_values.returned(self.run, [bare(value)])
        return value
