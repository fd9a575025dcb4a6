"""Iterations of a loop that are copied: what a few iterations have recorded, the others are given without running
Python.

Of a loop whose source says that its iterations do the same to other elements (`jitfuse.tracing.rewrite.uniform_loops`),
iterations are recorded until three in a row are alike: op by op they read the same tensors, or what is made equally far
before, and the places of their slices move by the same from one to the next; and Python's own state is the same after
each. All others are then alike too, but where an index changes its sign or leaves its axis. Places move on by the same,
so where that happens in any iteration the last one differs as well. So iterations are copied up to the last three,
which run again; if the last one does not record what a copy would be, the function is traced once more, and all
iterations of this loop run. Slices that are cut off at an end of their axis may come back to what they were: those must
not move at all.
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

from jitfuse.ir.formats.floats import exact_text
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
from jitfuse.tracing.record import recorder
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import MAX_OPS, Recorder
from jitfuse.tracing.rewrite.uniform_loops import FUNCTIONS, UniformLoop, uniform_loop
from jitfuse.tracing.tensor.traced import TracedTensor

_BEFORE: Final = 3
"""Iterations that go before those which are compared: what they find for the first time, the others find again."""
_COMPARED: Final = 3
_AFTER: Final = 3
"""Iterations that run after those that are copied: the first reads views anew, the last is held against a copy."""
_LEAST: Final = 16
"""Iterations from which on copying is worth a look at the source."""
_MANY: Final = 32_768
"""Operators beyond which such loops are made loops of the program instead, where nothing is decided in them: that takes
two traces of a few iterations. Loops with branches run several times as fast as replicated iterations, 64 operators in
a kernel."""
_MOST: Final = 1 << 40
"""How far ranges go that are looked at: nobody waits for the end of a longer one."""
_MODULES: Final = frozenset({"numpy", "math"})
_PLAIN: Final = frozenset({bool, int, float, complex, type(None), ModeFlag, *(
    kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_))})
"""Types of what names may hold beside arrays: nothing of it has items, or changes."""
_BUILTINS: Final = vars(builtins).copy()


def profiled_range(
    run: Recorder, values: range, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool
) -> Any:
    """Return what a loop over a range goes over: the range itself where its iterations may differ, or are few.

    `counted`: nothing is done with its variable. Where such a loop branches, it may be one that looks at data.
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
    """The iterator of such a loop."""

    __slots__ = ("_copied", "_held", "_loop", "_marks", "_next", "_range", "_run", "_states", "_watching")

    def __init__(self, run: Recorder, values: range, loop: UniformLoop) -> None:
        self._run, self._range, self._loop = run, values, loop
        self._next = 0
        self._watching = True
        self._marks: list[Mark] = []
        """How much had been recorded when each iteration began, as far as anybody wants to know."""
        self._states: list[Any] = []
        """What had been noted, and what names held, when iterations began that are compared; what arrays held."""
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
        """Return what the loop's variable is in the next iteration that a frame runs; None where there is none."""
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
        """Note what there is when an iteration begins; after some of them, copy others."""
        run = self._run
        if k == 0:
            for storage in alive(run):
                storage.cache = {}  # what is read of them is read in each iteration
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
        """Copy so many iterations, if they are like those before; `names` is what names held after each of these."""
        run = self._run
        _, first, low = (found[1] for found in self._marks[:_BEFORE])
        found = ReplicatedIteration.of(run, list(zip(self._marks[_BEFORE:], self._marks[_BEFORE + 1 :])), first, low)
        if found is None:
            return
        recorded = len(run.graph.ops) + count * len(found.ops)
        outer = run.profiled_loops[0]
        if recorded > (recorder.MANY_OPS if outer.decides else _MANY):
            outer.become_loops(frame.f_code)
        if recorded > MAX_OPS:
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
        """End this run to have the loop, of a frame's code, be one of the program; return where it had better not."""
        long_loops.become_loops(self._run, code, self._loop.site[1], self._marks[0][0])

    def _ends(self, k: int) -> None:
        """Mark where the last iteration begins; when it is over, hold it against what a copy of it would be."""
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
    """Return what is noted beside ops, and what the names hold that iterations hand on; None where they hold more."""
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
        is_array = type(value) is TracedTensor or is_outer  # which is traced where it is read
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
    """Return whether what is read of a module computes and does nothing else."""
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
    """Return what tells values of a name apart: a traced one's storage, which is not kept alive, and what it holds."""
    if type(value) is not TracedTensor:
        return type(value), value.tobytes() if isinstance(value, np.generic) else exact_text(value)
    storage = value._storage
    apart = storage.feed is not None or storage.may_alias is not None
    return (value._meta, value._layout, value._scalar), weakref.ref(storage), value._path, apart, storage.value


def _is_handed_on(ways: list[Any], before: Held, tensors: int) -> bool:
    """Return whether what a name holds after each iteration is one thing, one array, or one that an iteration has made.

    `before` was held when these iterations began, `tensors` are made in each.
    """
    first, *later = ways
    if any(len(way) != len(first) or way[0] != first[0] for way in ways):
        return False
    if len(first) == 2:
        return all(way == first for way in ways)
    if all(way[1] is first[1] and way[2] is first[2] for way in ways):
        return True
    if any(way[2] is not None or way[3] for way in later) or len({id(way[1]) for way in ways}) < len(ways):
        return False
    steps = {b[4] - a[4] for a, b in pairwise(later)}
    return later[-1][1] not in before and steps in ({0}, {tensors})
