"""Replicated iterations: the steps of a few traced iterations are copied for the others, without running Python.

This serves loops whose source shows uniform iterations (`jitfuse.tracing.rewrite.uniform_loops`). Iterations are traced
until three in a row are alike: each op reads the same tensors or ones made equally far before, the starts of its slices
move by a fixed step, and Python's own state is the same after each. All others are then alike too, except where an
index changes its sign or leaves its axis. As starts move by fixed steps, the last iteration then differs as well. So
all but the last three are copied, and those run. If the last one differs from its copy, the function is traced again,
and Python runs all iterations. Slices that are cut off at an end of their axis may become equal again later, so those
must not move at all.
"""
from __future__ import annotations

import builtins
import sys
import types
import weakref
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np

from jitfuse.base.floats import exact_text
from jitfuse.tracing.control import long_loops
from jitfuse.tracing.control.replicated_iteration import (
    Held,
    Mark,
    ReplicatedIteration,
    alive,
    held_now,
    mark,
    recorded_state,
)
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.rewrite.uniform_loops import FUNCTIONS, UniformLoop, uniform_loop
from jitfuse.tracing.tensor.traced import TracedTensor

_BEFORE: Final = 3
"""Iterations before the compared ones: what they read first is cached for the others."""
_COMPARED: Final = 3
_AFTER: Final = 3
"""Iterations that run after the copies: the first reads views anew, the last is compared with a copy."""
_LEAST: Final = 16
"""Fewest iterations for which reading the source pays."""
_MANY: Final = 32_768
"""Operators beyond which such loops are captured instead, unless they have branches; that takes two traces of a few
iterations. Loops with branches run several times as fast as replicated iterations, 64 operators in a kernel."""
_MOST: Final = 1 << 40
"""Ranges at least this wide are left alone: no call would finish one."""
_MODULES: Final = frozenset({"numpy", "math"})
_PLAIN: Final = frozenset({bool, int, float, complex, type(None), ModeFlag, *(
    kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_))})
"""Types other than arrays that names may hold: immutable, without items."""
_BUILTINS: Final = vars(builtins).copy()


def profiled_range(
    run: Recorder, values: range, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool
) -> Any:
    """Return what a loop over a range iterates over: the range itself where iterations are few or may differ.

    `counted`: the loop variable is a counter, used for nothing else. With branches, such a loop may read values.
    """
    if not values[_LEAST - 1 : _LEAST] or abs(values[-1] - values[0]) >= _MOST:
        return values
    if run.breaker is None or run.replays or run.active_branches or run.loops or run.session.torch:
        return values
    own = code()
    loop = None if own is None else uniform_loop(own, line, column)
    if loop is None or (counted and loop.branches) or run.breaker.decides(loop.site):
        return values
    return ReplicatedLoop(run, values, loop)


class ReplicatedLoop:
    """The iterator of a loop whose iterations may be replicated."""

    __slots__ = ("_copied", "_held", "_loop", "_marks", "_next", "_range", "_run", "_states", "_watching")

    def __init__(self, run: Recorder, values: range, loop: UniformLoop) -> None:
        self._run, self._range, self._loop = run, values, loop
        self._next = 0
        self._watching = True
        self._marks: list[Mark] = []
        """How much had been recorded when each iteration began, as long as that is needed."""
        self._states: list[Any] = []
        """The recorded state and the values of names when the compared iterations began; then what storages held."""
        self._held: list[Held] = []
        self._copied: ReplicatedIteration | None = None

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        k = self.following(sys._getframe(1))
        if k is None:
            raise StopIteration
        return k

    def following(self, frame: types.FrameType) -> int | None:
        """Return the loop variable of the next iteration that a frame runs; None at the end."""
        k = self._next
        if k == 0:
            self._run.profiled_loops.append(self)
        if self._watching:
            self._begins(k, frame)
            k = self._next
        elif self._copied is not None and k >= len(self._range) - 1:
            self._ends(k)
        if k >= len(self._range):
            self._run.profiled_loops = [loop for loop in self._run.profiled_loops if loop is not self]
            return None
        self._next = k + 1
        return self._range[k]

    # ------------------------------------------------------------------ watching
    def _begins(self, k: int, frame: types.FrameType) -> None:
        """Record the state in which an iteration begins; after enough of them, copy others."""
        run = self._run
        if k == 0:
            for storage in alive(run):
                storage.cache = {}  # each iteration has to record its reads of them
        self._marks.append(mark(run))
        if k < _BEFORE:
            return
        state = _state(run, self._loop, frame)
        self._watching = state is not None and (not self._states or state[0] == self._states[0][0])
        if self._watching and k < _BEFORE + _COMPARED:
            self._states.append(state)
            self._held.append(held_now(run))
            return
        if self._watching:
            self._copy(len(self._range) - k - _AFTER, [*(names for _, names in self._states), state[1]], frame)
        self._watching = False
        self._states.clear()
        self._held.clear()

    def _copy(self, count: int, names: list[dict[str, Any]], frame: types.FrameType) -> None:
        """Copy `count` iterations, if the compared ones are alike; `names`: the values of names after each of these."""
        run = self._run
        _, first, low = (found[1] for found in self._marks[:_BEFORE])
        found = ReplicatedIteration.of(run, list(zip(self._marks[_BEFORE:], self._marks[_BEFORE + 1 :])), first, low)
        if found is None:
            return
        recorded = len(run.graph.ops) + count * len(found.ops)
        outer = run.profiled_loops[0]
        if recorded > (run.many_operators if outer.decides else _MANY):
            outer.become_loops(frame.f_code)
        if recorded > run.most_operators:
            return
        if any(held.keys() != names[0].keys() for held in names) or not all(
            _is_handed_on([held[name] for held in names], self._held[0], found.tensors) for name in names[0]
        ):
            return
        if not found.copy(run, count, self._held, low):
            return
        self._copied = found
        self._next += count
        run.speculative_loops.append(self._loop.site)

    @property
    def decides(self) -> bool:
        """Whether the loop has branches."""
        return self._loop.branches

    def become_loops(self, code: types.CodeType) -> None:
        """End this run so that the loop, of a frame's code, is captured; return where it should not be."""
        long_loops.become_loops(self._run, code, self._loop.site[1], self._marks[0][0])

    def _ends(self, k: int) -> None:
        """Mark where the last iteration begins; once it has ended, compare it with its copy."""
        run = self._run
        self._marks.append(mark(run))
        if k < len(self._range):
            return
        assert self._copied is not None and run.breaker is not None
        begin = self._marks[-2]
        further = k - 1 - (_BEFORE + _COMPARED - 1)
        same = self._copied.state == recorded_state(run) and self._copied.is_again(run, begin, further)
        if not same:
            run.breaker.decide((self._loop.site,))
        run.speculative_loops.remove(self._loop.site)
        self._copied = None


# ---------------------------------------------------------------- Python's state
def _state(run: Recorder, loop: UniformLoop, frame: types.FrameType) -> Any:
    """Return the recorded state, and the values of names that iterations carry; None where a value has another type."""
    held, outside = frame.f_locals, frame.f_globals
    if not all(_computes(outside.get(chain[0]), chain[1:]) for chain in loop.functions):
        return None
    if any(name in outside or frame.f_builtins.get(name) is not _BUILTINS[name] for name in loop.builtins):
        return None
    if any(name in held or name not in outside for name in loop.outside):
        return None
    locals_ = frame.f_code.co_varnames
    for name in loop.values | loop.arrays:
        value = outside[name] if name in loop.outside else held.get(name)
        is_outer = name not in locals_ and type(value) is np.ndarray and value.dtype.kind in "biufc"
        is_array = type(value) is TracedTensor or is_outer  # an outer array is traced where it is read
        is_bound = name in held or name in loop.outside
        if is_bound and not is_array and (name in loop.arrays or type(value) not in _PLAIN):
            return None
        if is_bound and name in loop.ints and type(value) is not int:
            return None
    kept = {name: held[name] for name in loop.kept if name in held}
    if any(type(value) is np.ndarray for value in kept.values()):
        return None
    return recorded_state(run), {name: _held(value) for name, value in kept.items()}


def _computes(value: Any, chain: tuple[str, ...]) -> bool:
    """Return whether an attribute of a module only computes."""
    if type(value) is not types.ModuleType or value.__name__ not in _MODULES:
        return False
    for name in chain:
        value = getattr(value, name, None)
    if type(value) in _PLAIN:
        return True
    if type(value) is np.ufunc:
        return value.nout == 1
    if type(value) is type:
        return issubclass(value, np.number | np.bool_)
    module = str(getattr(value, "__module__", None))
    if module == "math":
        return chain[-1] not in ("frexp", "modf")
    return chain[-1] in FUNCTIONS and module.partition(".")[0] == "numpy"


def _held(value: Any) -> Any:
    """Return a value's fingerprint; a traced array's has a weak reference to its storage, and the tensor held."""
    if type(value) is not TracedTensor:
        return type(value), value.tobytes() if isinstance(value, np.generic) else exact_text(value)
    storage = value._storage
    shared = storage.feed is not None or storage.may_alias is not None
    return (value._meta, value._layout, value._scalar), weakref.ref(storage), value._path, shared, storage.value


def _is_handed_on(held: list[Any], before: Held, tensors: int) -> bool:
    """Return whether a name holds after each iteration one value, one array, or an array that the iteration made.

    `before`: what storages held when these iterations began. Each iteration makes `tensors` tensors.
    """
    first, *later = held
    if any(len(state) != len(first) or state[0] != first[0] for state in held):
        return False
    if len(first) == 2:
        return all(state == first for state in held)
    if all(state[1] is first[1] and state[2] is first[2] for state in held):
        return True
    if any(state[2] is not None or state[3] for state in later) or len({id(state[1]) for state in held}) < len(held):
        return False
    steps = {b[4] - a[4] for a, b in pairwise(later)}
    return later[-1][1] not in before and steps in ({0}, {tensors})
