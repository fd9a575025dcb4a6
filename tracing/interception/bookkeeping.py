"""The state of one trace: its guards, the origins of values, and what was read and written."""
from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import UntraceableError
from jitfuse.tracing.interception.chain import Chain, Guard, GuardLog, equal
from jitfuse.tracing.interception.known import is_known, opaque
from jitfuse.tracing.interception.user_code import MISSING, own_attributes

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks

_PLAIN_EQUAL: Final = frozenset({int, float, complex, str, bytes, range, slice})
_CONSTANTS: Final = frozenset({bool, type(None), type(...), type(NotImplemented)})


def same_value(a: Any, b: Any, computed: bool = False) -> bool:
    """Tell whether two reads gave the same object, or equal plain values.

    computed: each read makes a new object, as a property written in C does.
    """
    if a is b:
        return True
    if computed and type(a) is type(b) and type(a) not in _PLAIN_EQUAL and type(a) not in _CONSTANTS:
        return type(a) is not tuple or (len(a) == len(b) and all(same_value(x, y, True) for x, y in zip(a, b)))
    if type(a) is float and type(b) is float and math.isnan(a) and math.isnan(b):
        return True
    return type(a) in _PLAIN_EQUAL and equal(a, b)


class Write(Record):
    """A write to real state: its owner and chain, the old value (or MISSING), and how to restore that."""

    owner: Any
    chain: Chain | None
    old: Any
    restore: Callable[[], None]

    def now(self) -> Any:
        """Return the present value; MISSING where there is none, or where the trace made the owner.

        This reads from the owner: the function may have rebound the steps of the chain that led to it.
        """
        chain = self.chain
        if chain is None:
            return MISSING
        try:
            if chain.kind == "attr":
                return getattr(self.owner, chain.value)
            return self.owner[chain.value[1]] if chain.kind == "global" else self.owner.cell_contents
        except Exception:
            return MISSING


class EnvironmentState:
    """Bookkeeping of one trace; `jitfuse.tracing.interception.reader.TracingEnvironment` is the complete class."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.guard_log = GuardLog()
        self.origin: dict[int, tuple[Any, Chain]] = {}
        self.values: dict[Chain, tuple[Any, Any]] = {}
        self.reals: dict[int, tuple[Any, Any]] = {}
        self.names: dict[tuple[int, str], Chain] = {}
        self.computed: dict[tuple[int, str], tuple[Any, Any]] = {}  # cached properties in this trace
        self.written: dict[tuple[int, str], Write] = {}
        self.stores = 0
        """How often the function has written state that outlives the trace."""
        self.fresh: dict[int, Any] = {}
        self.of_unknown_origin: dict[int, Any] = {}
        """Objects that may be the caller's or made in the trace: they have no `__init__` to intercept."""
        # what the last read of a name, attribute or item gave (real, seen), valid while the real object is the same
        self.quick_names: dict[tuple[int, str, bool], tuple[Any, Any]] = {}
        self.quick: dict[tuple[int, str], tuple[Any, Any]] = {}
        self.quick_items: dict[tuple[int, str | int], tuple[Any, Any]] = {}
        self._guarded: dict[tuple[Chain, str, Any], Guard] = {}
        self._known_callables: dict[int, Any] = {}

    def require_known(self, value: Any) -> None:
        """Raise VolatileError for a callable that is not known: Python calls it, in every call."""
        function = value.__func__ if type(value) is types.MethodType else value  # holds no object
        if self._known_callables.get(id(function)) is function:
            return
        if not is_known(value, self.hooks.knows):
            raise opaque(value)
        if isinstance(getattr(function, "__self__", None), types.ModuleType | None):
            self._known_callables[id(function)] = function

    def require_known_container(self, chain: Chain, real: Any) -> None:
        """Raise VolatileError for a dict or list of a class whose other state is not seen."""
        if type(real) not in (dict, list) and not is_known(type(real), self.hooks.knows):
            raise opaque(real, str(chain))

    def guard(self, chain: Chain, kind: str, expected: Any, count: int = 0, of_root: bool = False) -> None:
        """Add a guard, once. A constant root needs none on itself, unless it stands for another chain (`of_root`)."""
        if chain.kind == "object" and kind in {"IS", "TYPE"} and not of_root:
            return
        guard = Guard(chain, kind, expected, count)
        if guard.key not in self._guarded:
            self._guarded[guard.key] = guard
            self.guard_log.guards.append(guard)

    def guard_value(self, chain: Chain, value: Any) -> None:
        """Guard a plain value: IS for constants and NaN, else EQ."""
        nan = isinstance(value, float | complex) and value != value
        self.guard(chain, "IS" if type(value) in _CONSTANTS or nan else "EQ", value)

    def guard_absent(self, chain: Chain, owner: Any, name: str) -> None:
        """Guard that an instance has no attribute of its own under this name."""
        attributes = own_attributes(owner)
        if attributes is not None and name not in attributes:
            made = sum(w.owner is owner and w.old is MISSING for w in self.written.values())
            where = Chain.object(attributes, f"{chain}.__dict__") if chain.kind == "object" \
                else chain.attr("__dict__")
            self.guard(where, "ABSENT", name, len(attributes) - made)

    def alias(self, chain: Chain, value: Any) -> Chain | None:
        """Return the chain that led to the same object before, and guard both; None at the first visit."""
        known = self.origin.get(id(value))
        if known is None:
            self.origin[id(value)] = value, chain
            return None
        if known[1] != chain:
            self.guard(known[1], "IS", value, of_root=True)  # the other chain leads there again
            self.guard(chain, "IS", value, of_root=True)
        return known[1]

    def remember(self, chain: Chain, real: Any, seen: Any) -> Any:
        """Record and return what the function sees for the real value at the end of a chain."""
        self.values[chain] = real, seen
        if seen is not real:
            self.reals[id(seen)] = seen, real
        return seen

    def real(self, value: Any) -> Any:
        """Return the real value of a proxy, or the value itself."""
        found = self.reals.get(id(value))
        return value if found is None else found[1]

    def known(self, value: Any) -> Any:
        """Return what the function sees for a real object that it met before; else the value."""
        found = self.origin.get(id(value))
        if found is None:
            return value
        return self.values.get(found[1], (None, value))[1]

    def reject_unknown_origin(self, value: Any) -> None:
        """Raise UntraceableError for an object that may be the caller's or made in the trace, where that matters."""
        if id(value) in self.of_unknown_origin:
            name = type(value).__name__
            raise UntraceableError(
                f"it is not seen whether the caller has this {name}, or the call makes it: write {name}.__init__"
            )

    def to_store(self, target: str, value: Any) -> Any:
        """Return what may be stored in real state: never a proxy; for a traced value the tracer decides."""
        self.hooks.reject_generator(target, value)
        found = self.reals.get(id(value))
        if found is not None and (not self.hooks.is_traced(value) or self.hooks.is_array(found[1])):
            return found[1]  # an array or container of real state; storing a number reads its value
        return self.hooks.stored(target, value) if self.hooks.is_traced(value) else value

    def note_write(self, owner: Any, name: str, chain: Chain | None, old: Any, put: Callable[[Any], None],
                   remove: Callable[[], None]) -> None:
        """Record a write before it happens; only the first write to a target counts."""
        self.hooks.writes()
        self.stores += chain is not None
        key = id(owner), name
        self.quick.pop(key, None)
        for raw in (False, True):
            self.quick_names.pop((*key, raw), None)
        if key not in self.written:
            self.written[key] = Write(owner, chain, old, remove if old is MISSING else (lambda: put(old)))

    def settle_writes(self, writes: Iterable[Write]) -> None:
        """Decide what the writes that calls do not deliver mean for calls without Python.

        A write that repeats the present value may be skipped, so that value is guarded. Python runs at each call where
        state is read and then changed, or is deleted, or is bound to an object that the function made.
        """
        for write in writes:
            chain = write.chain
            if chain is None:
                continue
            final = write.now()
            if chain in self.values:
                if not same_value(self.values[chain][0], final):
                    self.guard_log.volatile.append(f"{chain} is read and changed by the function")
            elif final is MISSING:
                if write.old is not MISSING:
                    self.guard_log.volatile.append(f"{chain} is deleted by the function")
            elif type(final) in _PLAIN_EQUAL or type(final) in _CONSTANTS:
                self.guard_value(chain, final)
            elif id(final) in self.origin:
                self.guard(chain, "IS", final)
                self.guard(self.origin[id(final)][1], "IS", final)
            else:
                self.guard_log.volatile.append(f"{chain} is given what the function has made")

