"""Selection of values after an if-converted conditional: numbers and arrays of either branch.

Owns which tensor replaces two values, and the may-alias sets that protect writes into arrays that may be the same.
Does not own the conversion (`jitfuse.tracing.control.if_conversion`).
"""
from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Mixed, Recorder
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.record.value_reads import exact
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import Site

UNBOUND: Final = object()
"""The value of a name that is unbound."""
_PYTHON: Final = frozenset({bool, int, float})


class Both:
    """The condition of an if-converted conditional, and the state of its conversion."""

    __slots__ = ("condition", "saved", "site", "values")

    def __init__(self, site: Site, condition: TracedTensor) -> None:
        self.site, self.condition = site, condition
        self.saved: dict[str, Any] = {}
        """The values of the names before the conditional."""
        self.values: dict[str, Any] = {}
        """Their values after the first branch."""


def _is_both(value: Any) -> bool:
    return type(value) is Both


def _is_plain(value: Any) -> bool:
    return type(value) is not Both


def _is_unbound(value: Any) -> bool:
    return value is UNBOUND


TESTS: Final[dict[str, Callable[[Any], bool]]] = {"is_both": _is_both, "plain": _is_plain, "is_unbound": _is_unbound}
"""The tests of values that rewritten bytecode makes."""


def truth(run: Recorder, both: Both, value: Any) -> TracedTensor:
    """Return the truth of a value as a traced bool."""
    if type(value) is not TracedTensor:
        return fresh(run, run.scalar(bool(value), "bool"))
    if value._meta.size != 1:
        run.undo_conversion(both.site)
    return truth_of(value)


def truth_of(value: TracedTensor) -> TracedTensor:
    """Return the truth of one traced value, as an immutable bool."""
    if value._scalar and value._meta.dtype == "bool" and not value._meta.weak:
        return value
    flat = value if not value.shape else value.call("reshape", shape=())
    made: TracedTensor = flat.call("astype", dtype="bool")
    return made


class MayAlias:
    """A may-alias set: arrays of which any two may be the same, depending on selected branches."""

    __slots__ = ("members", "sites")

    def __init__(self, storages: Iterable[Storage], sites: Iterable[Site]) -> None:
        found = {id(s): s for s in storages}
        self.members = [weakref.ref(s) for s in found.values()]
        self.sites = set(sites)
        """The sites of the conditionals."""

    def alive(self) -> list[Storage]:
        """Return the storages that are in use."""
        return [s for ref in self.members if (s := ref()) is not None]

    def written(self, run: Recorder, storage: Storage) -> None:
        """Note a write into a member: undo the conversions if other members are in use."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if is_user_code(frame.f_code.co_filename):
                frame.f_locals  # noqa: B018 -- updates the mapping, which may hold old values
            frame = frame.f_back
        storage.may_alias = None
        if any(s is not storage for s in self.alive()):
            assert run.breaker is not None
            run.breaker.decide(self.sites)


class NoCommonValueError(Exception):
    """Two values that no tensor can replace."""


def all_chosen(run: Recorder, both: Both, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return the selected value of each pair; if one cannot be selected, Python reads the condition."""
    try:
        return [chosen(run, both, both.condition, a, b) for a, b in pairs]
    except NoCommonValueError:
        if run.active_branches or run.loops:
            run.undo_conversion()
        first = bool(both.condition)
        return [a if first else b for a, b in pairs]


def chosen(run: Recorder, both: Both, condition: TracedTensor, a: Any, b: Any) -> Any:
    """Return the value that is `a` if a condition holds, else `b`; raises NoCommonValueError."""
    if a is b:
        return a
    if a is UNBOUND or b is UNBOUND:
        if not run.active_branches and not run.loops:
            raise NoCommonValueError
        return UNBOUND  # a use of it raises, which undoes the conversion
    if is_number(a) and is_number(b):
        return _chosen_number(run, condition, a, b)
    if isinstance(a, tuple) and type(a) is type(b) is tuple and len(a) == len(b):
        return tuple(chosen(run, both, condition, x, y) for x, y in zip(a, b))
    if type(a) is type(b) is TracedTensor and a._meta == b._meta and a.shape:
        return _chosen_array(both, condition, a, b)
    if type(a) is type(b) and type(a) in (str, bytes, type(None)) and a == b:
        return a
    raise NoCommonValueError


def is_number(value: Any) -> bool:
    """Return whether a value is a number, traced or not."""
    if type(value) is TracedTensor:
        return not value.shape and (value._scalar or value.weak)
    return type(value) in _PYTHON or isinstance(value, np.generic)


def _chosen_number(run: Recorder, condition: TracedTensor, a: Any, b: Any) -> TracedTensor:
    if type(a) is type(b) and type(a) is not TracedTensor and exact(a) == exact(b):
        return a  # type: ignore[no-any-return]
    if any(type(v) is int and not -(2**63) <= v < 2**63 for v in (a, b)):
        raise NoCommonValueError
    one, two = lift(run, a), lift(run, b)
    kinds = {one._meta.dtype, two._meta.dtype}
    if len(kinds) > 1 and any(v.weak and not _is_exact(run, v) for v in (one, two)):
        raise NoCommonValueError
    if one.weak and two.weak:
        if len(kinds) > 1 or not kinds <= {"bool", "int64", "float64"}:
            raise NoCommonValueError
        return as_python(condition.call("where", one, two))
    dtype = next(v._meta.dtype for v in (one, two) if not v.weak)
    if not all(v._meta.dtype == dtype if not v.weak else holds(dtype, v._meta.dtype) for v in (one, two)):
        raise NoCommonValueError
    return either(condition, one, two, dtype)


def either(condition: TracedTensor, one: TracedTensor, two: TracedTensor, dtype: str) -> TracedTensor:
    """Return the selected one of two scalars in a dtype, as a mixed number if one is Python's.

    Raises NoCommonValueError for two Python types.
    """
    run = condition._run
    mixed = [Mixed(run.scalar(True, "bool"), v._meta.dtype) if v.weak else run.mixed.get(v._id()) for v in (one, two)]
    pythons = {m.python for m in mixed if m is not None}
    if len(pythons) > 1:
        raise NoCommonValueError
    cast = [run.emit("astype", (v._id(),), {"dtype": dtype}) if v.weak else v._id() for v in (one, two)]
    made = run.emit("where", (condition._id(), *cast))
    if pythons:
        truths = [run.scalar(False, "bool") if m is None else m.truth for m in mixed]
        run.mixed[made] = Mixed(run.emit("where", (condition._id(), *truths)), pythons.pop())
    return fresh(run, made)


def holds(dtype: str, python: str) -> bool:
    """Return whether a NumPy scalar of a dtype can replace a Python number, also in computations."""
    return (dtype == python and dtype != "bool") or (dtype == "float64" and python == "int64")


def _is_exact(run: Recorder, value: TracedTensor) -> bool:
    """Return whether a Python number is exact as a double."""
    return value._meta.dtype != "int64" or arithmetic.is_exact(run, value._id())


def as_python(value: TracedTensor) -> TracedTensor:
    """Return a traced bool, int64 or float64 as a Python number."""
    return fresh(value._run, value._run.emit("python_number", (value._id(),)))


def _chosen_array(both: Both, condition: TracedTensor, a: TracedTensor, b: TracedTensor) -> TracedTensor:
    """Return an array that is one of two; none of the three may be written while another one is in use.

    Their may-alias sets are merged: two arrays selected from the same ones may alias, even if those are gone.
    """
    made: TracedTensor = condition.call("where", a, b)
    if made._meta != a._meta:
        raise NoCommonValueError
    storages = [v._storage for v in (a, b, made)]
    before: list[MayAlias] = [s.may_alias for s in storages if s.may_alias is not None]
    sites = [both.site, *(p for r in before for p in r.sites)]
    may_alias = MayAlias([*storages, *(s for r in before for s in r.alive())], sites)
    for s in may_alias.alive():
        s.may_alias = may_alias
    return made.laid_out(None)


def returned(run: Recorder, values: Iterable[Any]) -> None:
    """Note returned values: undo conversions by which one may be an argument, or two may be the same array."""
    met: set[int] = set()
    storages = {id(v._storage): v._storage for v in values if type(v) is TracedTensor and v.shape}
    for storage in storages.values():
        may_alias: MayAlias | None = storage.may_alias
        if may_alias is None:
            continue
        is_argument = storage.feed is None and any(s.feed is not None for s in may_alias.alive())
        if is_argument or id(may_alias) in met:
            assert run.breaker is not None
            run.breaker.decide(may_alias.sites)
        met.add(id(may_alias))
