"""Fingerprints of Python's variables at graph breaks.

Owns `python_state`. Two breaks of one run with equal states continue equally, whatever the live values are, so that
the path from the first to the second is a loop. A state without a fingerprint (None) equals no other: one with an
iterator, a generator or an opaque object among the variables, a helper called by C, a value on the interpreter's stack
(as in a `for` loop), writes outside the function, or a random generator from outside. Does not own loops in the trace
tree (`jitfuse.graph_breaks`).
"""
from __future__ import annotations

import dis
import enum
import sys
import types
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.tracing.interception.assembler import CALLS, ENDS
from jitfuse.tracing.interception.counters import DECIDES
from jitfuse.tracing.interception.swap import FIRST_CALL
from jitfuse.tracing.numbers.arithmetic import is_of_data
from jitfuse.tracing.observe.loop_counters import NEXT, is_of_traced_function, running
from jitfuse.tracing.record.access_paths import steps
from jitfuse.tracing.record.dtype_name import DTypeName
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.tensor.traced import TracedTensor

if TYPE_CHECKING:
    from jitfuse.tracing.numpy_like.masked_selection import MaskedSelection

call_frames = Later("jitfuse.tracing.observe.call_frames")

PythonState = tuple[Any, ...]
"""The fingerprint of a state: each frame's code and instruction, all local variables, positions in ranges, storages,
written feeds, and the count of random calls."""
_CONSTANT: Final = frozenset({
    type(None), bool, int, str, bytes, range, slice, type(...), DTypeName, np.ufunc, types.ModuleType,
    *np.sctypeDict.values(),
}) - {np.void, np.object_}
"""Immutable types; instances of subclasses may have attributes."""
_COUNTED: Final = object()
"""Begins the fingerprint of an attribute that only counts."""
_LARGE: Final = 4096
"""Most parts of a state, and bytes of an array, that have a fingerprint."""


class _NoFingerprintError(Exception):
    pass


def python_state(
    run: Recorder, frames: Sequence[types.FrameType] | None, live: Sequence[Storage], *, at_call: bool = False
) -> PythonState | None:
    """Return the state at the current read, or None; `at_call`: the last frame calls what asks, directly.

    `frames` are those of the traced function and its running helpers (`reading_frames`, `calling_frames`), `live` the
    storages that Python still holds. Equal states have equally many live storages, which correspond in order.
    """
    environment = run.environment
    if frames is None or run.external_generators or any(w.chain is not None for w in environment.written.values()):
        return None
    ranges = running(run)
    hidden = [_at_call(frame) for frame in frames[:-1]] + [(_at_call if at_call else _others)(frames[-1])]
    if None in hidden or sum(hidden) != len(ranges):  # type: ignore[arg-type]
        return None
    if any(proxy.changed() for proxy in environment.proxies.values()):
        return None
    telling = _Telling(run, live)
    try:
        fingerprint = tuple(
            ((f.f_code, name), telling.fingerprint(value)) for f in frames for name, value in f.f_locals.items()
        )
        positions = tuple((r.range, telling.fingerprint(r.state)) for r in ranges)
        storages = tuple(telling.storage(s) for s in live)
        written = tuple(sorted((feed, telling.tensor(s.value)) for feed, s in run.storages.items()))
    except (_NoFingerprintError, RecursionError):
        return None
    where = tuple((frame.f_code, frame.f_lasti) for frame in frames)
    return where, fingerprint, positions, storages, written, run.random_calls, run.random_base


def repeats(before: PythonState | None, now: PythonState, counters: Collection[tuple[types.CodeType, str]]) -> bool:
    """Return whether two states at one instruction are equal but for counters and the sources of arrays."""
    if before is None or before[5:] != now[5:] or len(before[1]) != len(now[1]):
        return False
    return all(
        a[0] == b[0] and (a[0] in counters or _alike(a[1], b[1])) for a, b in zip(before[1], now[1], strict=True)
    )


def _alike(a: Any, b: Any) -> bool:
    if type(a) is not tuple or type(b) is not tuple or a == b:
        return bool(a == b)
    if a[:1] == b[:1] == ("traced",) or a[:1] == b[:1] == (_COUNTED,):
        return True
    return len(a) == len(b) and all(map(_alike, a, b))


def reading_frames() -> list[types.FrameType] | None:
    """Return the frames from the traced function's to the one that reads a truth value.

    All are user code with direct calls; None if there is anything in between. Their `f_locals`, which CPython caches,
    are updated.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not TracedTensor.__bool__.__code__:
        frame = frame.f_back
    frame = frame.f_back if frame is not None else None
    if frame is not None and frame.f_code in (NEXT, Foreign.__bool__.__code__):
        frame = frame.f_back
    return _frames_from(frame)


def calling_frames() -> list[types.FrameType] | None:
    """Return the frames from the traced function's to the one that calls a library function, as `reading_frames`."""
    below, frame = sys._getframe(1), sys._getframe(1).f_back
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        below, frame = frame, frame.f_back
    return _frames_from(frame) if call_frames.called_directly(below) else None


def _frames_from(frame: types.FrameType | None) -> list[types.FrameType] | None:
    found: list[types.FrameType] = []
    while frame is not None and is_user_code(frame.f_code.co_filename):
        assert frame.f_locals is not None
        found.append(frame)
        if is_of_traced_function(frame):
            return found[::-1]
        frame = _caller(frame)
    return None


def _caller(frame: types.FrameType) -> types.FrameType | None:
    """Return the frame that has called a frame directly, or None."""
    if frame.f_back is not None and frame.f_back.f_code is FIRST_CALL:  # a stub called the function that rewrites it
        stub = frame.f_back.f_back
        return stub.f_back if stub is not None and call_frames.called_directly(stub) else None
    return frame.f_back if call_frames.called_directly(frame) else None


class _Telling:
    """Makes one state's fingerprint; objects are numbered in the order of first use, so that sharing is part of it."""

    def __init__(self, run: Recorder, live: Sequence[Storage]) -> None:
        self.run = run
        self.numbers: dict[int, int] = {}
        self.met: list[Any] = []
        self.storage_numbers = {id(s): k for k, s in enumerate(live)}
        self.values: dict[int, int] = {}
        for s in live:
            self.values.setdefault(s.value, len(self.values))

    def storage(self, storage: Storage) -> Hashable:
        """Return the fingerprint of a storage: its tensor, meta, feed and may-alias set."""
        feed = None if storage.feed is None else storage.feed.id
        return self.tensor(storage.value), storage.meta, feed, self._may_alias(storage)

    def _may_alias(self, storage: Storage) -> Hashable:
        """Return the fingerprint of a storage's may-alias set."""
        if storage.may_alias is None:
            return None
        others = [s for s in storage.may_alias.alive() if s is not storage]
        return tuple(sorted((self.storage_numbers.get(id(s), -1), -1 if s.feed is None else s.feed.id) for s in others))

    def tensor(self, tensor: int) -> Hashable:
        """Return a tensor's fingerprint: the id of a feed or known Python scalar, else its number among live values."""
        meta = self.run.graph.metas[tensor]
        counter = tensor in self.run.session.counters or is_of_data(self.run.session, tensor)
        if (meta.weak and not counter) or tensor in self.run.session.feeds:
            return "id", tensor
        number = self.values.setdefault(tensor, len(self.values))
        mixed = self.run.mixed.get(tensor)
        return "live", number, meta, self._count(tensor), mixed and (self.tensor(mixed.truth), mixed.python)

    def _count(self, tensor: int) -> int | None:
        """Return how many elements are not zero, if Python has read that."""
        indices = self.run.session.nonzero_indices.get(tensor)
        return None if indices is None else self.run.graph.metas[indices].shape[1]

    def fingerprint(self, value: Any) -> Hashable:
        """Return the fingerprint of any value."""
        kind = type(value)
        if kind in (float, complex):
            return kind.__name__, repr(value)
        if kind is TracedTensor:
            return self._traced(value)
        if issubclass(kind, TracedTensor):
            return self._selection(value)
        if kind is ModeFlag:
            return "mode"
        if kind in _CONSTANT or isinstance(value, type | np.dtype):
            return kind, _constant_fingerprint(value)
        known = self.numbers.get(id(value))
        if known is not None:
            return "again", known
        self.numbers[id(value)] = len(self.numbers)
        self.met.append(value)
        if len(self.met) > _LARGE:
            raise _NoFingerprintError
        if id(value) in self.run.environment.origin:
            return "outside", self.run.environment.origin[id(value)][1]
        return self._object(value)

    def _traced(self, value: TracedTensor) -> Hashable:
        number = self.storage_numbers.get(id(value._storage))
        storage = ("storage", number) if number is not None else self.storage(value._storage)
        path = steps(value._path)
        if any(t not in self.values for step in path for t in step.others):
            raise _NoFingerprintError  # the index is not live across the break
        fingerprint = tuple((s.name, repr(s.attrs), s.before, tuple(map(self.tensor, s.others))) for s in path)
        return "traced", storage, value._meta, fingerprint, value._layout, value._scalar, self._number(value)

    def _selection(self, value: MaskedSelection) -> Hashable:
        whole, mask, axis = value.parts
        picked = None if value.is_open else self._traced(value.picked())
        return "selection", self._traced(whole), self._traced(mask), axis, value.are_indices, picked

    def _number(self, value: Any) -> int:
        self.met.append(value)
        return self.numbers.setdefault(id(value), len(self.numbers))

    def _object(self, value: Any) -> Hashable:
        kind = type(value)
        if issubclass(kind, Foreign):
            return kind, self._traced(value.tensor)
        if kind in (list, tuple):
            return kind.__name__, tuple(map(self.fingerprint, value))
        if isinstance(value, tuple) and kind.__dictoffset__ == 0:  # a named tuple
            return kind, tuple(map(self.fingerprint, tuple.__iter__(value)))
        if kind is dict:
            return "dict", tuple((self.fingerprint(k), self.fingerprint(v)) for k, v in value.items())
        if kind is np.ndarray and value.base is None and value.nbytes <= _LARGE and not value.dtype.hasobject:
            return "ndarray", value.dtype.str, value.shape, value.strides, value.tobytes()
        if kind is types.FunctionType:
            cells = tuple(self.fingerprint(c.cell_contents) for c in value.__closure__ or ())
            fingerprint = self.fingerprint(vars(value)), self.fingerprint(value.__defaults__), self.fingerprint(
                value.__kwdefaults__
            )
            return "function", value.__code__, id(value.__globals__), cells, fingerprint
        if isinstance(value, enum.Enum):
            return kind, tuple((k, self.fingerprint(v)) for k, v in vars(value).items())
        if kind is types.BuiltinFunctionType:  # its object may change: the append of a list
            return "builtin", value.__name__, self.fingerprint(value.__self__)
        if kind is types.MethodType:
            return "method", self.fingerprint(value.__func__), self.fingerprint(value.__self__)
        fields = getattr(value, "__dict__", None)
        plain = kind.__flags__ & (1 << 9) and kind.__basicsize__ == _PLAIN_SIZE and kind.__itemsize__ == 0
        if plain and isinstance(fields, dict):  # an instance of a Python class without slots or a built-in base
            counted = self.run.counted
            return "instance", kind, tuple(
                (
                    k, (_COUNTED, self.fingerprint(v)) if (id(value), k) in counted else self.fingerprint(v)
                ) for k, v in fields.items())
        raise _NoFingerprintError


class _Plain:
    pass


_PLAIN_SIZE: Final = _Plain.__basicsize__


def _constant_fingerprint(value: Any) -> Hashable:
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    return repr(value) if isinstance(value, slice | range) else value  # empty ranges are equal


@lru_cache(maxsize=256)
def _stacks(code: types.CodeType) -> Mapping[int, tuple[str, int, int]]:
    """Return the name of each instruction that code reaches without an exception, and the stack depths around it."""
    listed = list(dis.get_instructions(code))
    number = {step.offset: k for k, step in enumerate(listed)}
    stacks: dict[int, tuple[str, int, int]] = {}
    todo = [(0, 0)]
    while todo:
        k, depth = todo.pop()
        while k < len(listed) and listed[k].offset not in stacks:
            step = listed[k]
            operand = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
            after = depth + dis.stack_effect(step.opcode, operand, jump=False)
            stacks[step.offset] = step.opname, depth, after
            if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                todo.append((number[step.argval], depth + dis.stack_effect(step.opcode, operand, jump=True)))
            if step.opname in ENDS:
                break
            k, depth = k + 1, after
    return stacks


def _at_call(frame: types.FrameType) -> int | None:
    """Return the stack depth of a frame without the operands of its call; None if it is not at a call."""
    stacks = _stacks(frame.f_code)
    at = frame.f_lasti
    while at >= 0 and at not in stacks:  # in an instruction's inline cache
        at -= 2
    name, _, after = stacks.get(at, ("", 0, 0))
    return after - 1 if name in CALLS else None


def _others(frame: types.FrameType) -> int | None:
    """Return the stack depth of a frame without the value whose truth it reads; at a FOR_ITER, the full depth.

    None if the frame does neither.
    """
    name, depth, _ = _stacks(frame.f_code).get(frame.f_lasti, ("", 0, 0))
    if name == "FOR_ITER":
        return depth
    return depth - 1 if name in DECIDES else None
