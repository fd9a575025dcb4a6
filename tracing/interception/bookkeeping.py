"""The books of one trace: guards, provenance, what was read and what was written."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import UntraceableError
from jitfuse.tracing.interception.chain import Chain, Guard, GuardLog, equal
from jitfuse.tracing.interception.user_code import MISSING, own_attributes

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks

_PLAIN_EQUAL: Final = frozenset({int, float, complex, str, bytes, range, slice})
_CONSTANTS: Final = frozenset({bool, type(None), type(...), type(NotImplemented)})


def same_value(a: Any, b: Any, computed: bool = False) -> bool:
    """Tell whether a place still holds what was read there: the same object, or an equal plain value.

    computed: the place makes a new object at each read, as a property written in C does.
    """
    if a is b:
        return True
    if computed and type(a) is type(b) and type(a) not in _PLAIN_EQUAL and type(a) not in _CONSTANTS:
        return type(a) is not tuple or (len(a) == len(b) and all(same_value(x, y, True) for x, y in zip(a, b)))
    if type(a) is float and type(b) is float and math.isnan(a) and math.isnan(b):
        return True
    return type(a) in _PLAIN_EQUAL and equal(a, b)


class Write(Record):
    """A place that the function wrote: how to read it, what it held (or MISSING), and how to put that back."""

    owner: Any
    chain: Chain | None
    old: Any
    restore: Callable[[], None]

    def now(self) -> Any:
        """Return what the place holds now; MISSING for nothing, and for places of objects that the function made.

        Chains lead from what calls begin with: the function may have bound their steps anew.
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


class ViewState:
    """Bookkeeping of one trace; `jitfuse.tracing.interception.reader.View` is the whole."""

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
        """How often the function has written places that outlive the trace."""
        self.fresh: dict[int, Any] = {}
        self.unplaced: dict[int, Any] = {}
        """Objects that the caller may have, or the trace may have made: no `__init__` has told."""
        # What was seen at a name, attribute or item (real, seen), good while the place holds the same object.
        self.quick_names: dict[tuple[int, str, bool], tuple[Any, Any]] = {}
        self.quick: dict[tuple[int, str], tuple[Any, Any]] = {}
        self.quick_items: dict[tuple[int, str | int], tuple[Any, Any]] = {}
        self._guarded: dict[tuple[Chain, str, Any], Guard] = {}

    def guard(self, chain: Chain, kind: str, expected: Any, count: int = 0) -> None:
        """Add a condition, once. A constant root needs none on itself."""
        if chain.kind == "object" and kind in {"IS", "TYPE"}:
            return
        guard = Guard(chain, kind, expected, count)
        if guard.key not in self._guarded:
            self._guarded[guard.key] = guard
            self.guard_log.guards.append(guard)

    def guard_value(self, chain: Chain, value: Any) -> None:
        """Pin a plain value: IS for constants and NaN, else EQ."""
        nan = isinstance(value, float | complex) and value != value
        self.guard(chain, "IS" if type(value) in _CONSTANTS or nan else "EQ", value)

    def guard_absent(self, chain: Chain, owner: Any, name: str) -> None:
        """Pin that an instance has no attribute of its own under this name."""
        attributes = own_attributes(owner)
        if attributes is not None and name not in attributes:
            made = sum(w.owner is owner and w.old is MISSING for w in self.written.values())
            where = Chain.object(attributes, f"{chain}.__dict__") if chain.kind == "object" \
                else chain.attr("__dict__")
            self.guard(where, "ABSENT", name, len(attributes) - made)

    def alias(self, chain: Chain, value: Any) -> Chain | None:
        """Return the chain that led to the same object before, after pinning both; None at the first visit."""
        known = self.origin.get(id(value))
        if known is None:
            self.origin[id(value)] = value, chain
            return None
        if known[1] != chain:
            self.guard(known[1], "IS", value)
            self.guard(chain, "IS", value)
        return known[1]

    def remember(self, chain: Chain, real: Any, seen: Any) -> Any:
        """Note what the function sees for the real value at the end of a chain, and return it."""
        self.values[chain] = real, seen
        if seen is not real:
            self.reals[id(seen)] = seen, real
        return seen

    def real(self, value: Any) -> Any:
        """Return the real value behind a stand-in or proxy that the view handed out; else the value."""
        found = self.reals.get(id(value))
        return value if found is None else found[1]

    def known(self, value: Any) -> Any:
        """Return what the function sees for a real object that it met before; else the value."""
        found = self.origin.get(id(value))
        if found is None:
            return value
        return self.values.get(found[1], (None, value))[1]

    def refuse_unplaced(self, value: Any) -> None:
        """Raise UntraceableError for an object that is the caller's or the trace's own, where that matters."""
        if id(value) in self.unplaced:
            name = type(value).__name__
            raise UntraceableError(
                f"it is not seen whether the caller has this {name}, or the call makes it: write {name}.__init__"
            )

    def to_store(self, place: str, value: Any) -> Any:
        """Return what may be stored in real state: never a proxy; a traced value as the tracer decides."""
        self.hooks.refuse_kept(place, value)
        found = self.reals.get(id(value))
        if found is not None and (not self.hooks.is_traced(value) or self.hooks.is_array(found[1])):
            return found[1]  # an array or container that came from state; storing a number looks at its value
        return self.hooks.stored(place, value) if self.hooks.is_traced(value) else value

    def note_write(self, owner: Any, name: str, chain: Chain | None, old: Any, put: Callable[[Any], None],
                   remove: Callable[[], None]) -> None:
        """Record a write before it happens; only the first to a place counts."""
        self.hooks.writes()
        self.stores += chain is not None
        key = id(owner), name
        self.quick.pop(key, None)
        for raw in (False, True):
            self.quick_names.pop((*key, raw), None)
        if key not in self.written:
            self.written[key] = Write(owner, chain, old, remove if old is MISSING else (lambda: put(old)))

    def settle_writes(self, writes: Iterable[Write]) -> None:
        """Decide what writes that calls do not deliver mean for replaying the trace without Python.

        A place that only repeats its value may be skipped when it already holds it, so that is guarded; a place
        that was read first and then changed makes every call run Python, and so does one that is deleted, or that
        holds an object which the function has made.
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

