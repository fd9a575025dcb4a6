"""Recorder: one run of the user's function, writing into a process graph.

Owns feeds, literals, storages (what a name's memory holds now) and the emission of steps; `Session` is what
the runs of one trace share, one for each mode. Does not own the tensor class (`jitfuse.tracing.traced`) nor
what happens before and after the run (`jitfuse.tracing.tracer`).
"""
from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import DTypeError, OutOfRangeError, ReadOnlyError, UntraceableError
from jitfuse.ir import ops
from jitfuse.ir.program import RANDOM_STATE, Attrs, Meta, make_attrs
from jitfuse.records import Record
from jitfuse.tracing import layout as layouts
from jitfuse.tracing.dtype_name import dtype_name
from jitfuse.tracing.graph import ProcessGraph
from jitfuse.tracing.source import user_line

Step = tuple[str, Attrs, tuple[int, ...], tuple[int, ...]]
Path = tuple[Step, ...]
"""How a view reads its storage: (view operator, attributes, shape before it, other operands), one after the other."""

_INT64 = (-(2**63), 2**63 - 1)


class Feed(Record, frozen=True, eq=False):
    """A value bound at call time: where it comes from, and what it was in the call that is traced."""

    id: int
    meta: Meta
    source: Any
    value: Any
    layout: layouts.Layout
    kind: str
    writeable: bool = False


class Storage:
    """The memory behind one array and its views: the tensor it holds now, and what views of it hold."""

    __slots__ = ("cache", "feed", "itemsize", "meta", "part", "region", "value")

    def __init__(self, value: int, meta: Meta, feed: Feed | None = None, region: Region | None = None) -> None:
        self.value = value
        self.region = region
        """The body of a loop or branch in which the array was made, and outside of which nobody may write into it."""
        self.meta = meta
        self.feed = feed
        self.part = False
        """Whether this is the real or imaginary part of an array, whose memory NumPy would share with it."""
        self.cache: dict[Path, int] = {(): value}


class Region:
    """The body of a loop or branch while it is traced: where its ops begin in the graph, and its parameters."""

    __slots__ = ("name", "outer", "parameters", "start")

    def __init__(self, name: str, start: int, outer: Region | None) -> None:
        self.name = name
        self.start = start
        self.outer = outer
        self.parameters: list[int] = []


class Session:
    """What all runs of one trace share: the graph, feeds by source, literals, guarded values."""

    def __init__(self) -> None:
        self.graph = ProcessGraph()
        self.feeds: dict[int, Feed] = {}
        self.feed_of_source: dict[Any, int] = {}
        self.feed_of_array: dict[int, int] = {}
        self.literals: dict[Any, int] = {}
        self.guarded_values: dict[int, bool | int | float | complex] = {}
        self.int_ranges: dict[int, tuple[int, int]] = {}
        self.random_feed: int | None = None
        self.region: Region | None = None
        """The innermost body that is being traced."""
        self.parameters: dict[int, Region] = {}
        """The bodies that the tensors standing for carried values belong to."""
        self.closed: list[tuple[int, int]] = []
        """The ops (from, below) of bodies that have been traced."""

    def add_feed(self, source: Any, name: str, value: Any, meta: Meta, layout: layouts.Layout, kind: str,
                 writeable: bool = False) -> Feed:
        """Add a feed under its source; `kind` is "array", "python", "numpy" or "state"."""
        tensor = self.graph.add_feed(meta, name)
        feed = Feed(tensor, meta, source, value, layout, kind, writeable)
        self.feeds[tensor] = feed
        self.feed_of_source[source] = tensor
        return feed

    def array_feed(self, source: Any, name: str, value: np.ndarray[Any, Any]) -> Feed:
        """Return the feed of an array; one array reached on two ways is one feed, and the ways are aliases."""
        known = self.feed_of_source.get(source)
        if known is None:
            known = self.feed_of_array.get(id(value))
        if known is not None:
            return self.feeds[known]
        meta = Meta(value.shape, dtype_name(value.dtype, name))
        layout = layouts.Layout(0, value.strides)
        feed = self.add_feed(source, name, value, meta, layout, "array", bool(value.flags.writeable))
        self.feed_of_array[id(value)] = feed.id
        return feed

    def scalar_feed(self, source: Any, name: str, value: Any) -> Feed:
        """Return the feed of a Python scalar (weak) or a NumPy scalar (strong)."""
        known = self.feed_of_source.get(source)
        if known is not None:
            return self.feeds[known]
        weak = type(value) in WEAK_DTYPE
        dtype = WEAK_DTYPE[type(value)] if weak else dtype_name(value.dtype, name)
        if type(value) is int and not _INT64[0] <= value <= _INT64[1]:
            raise OutOfRangeError(
                f"{name} is {value}: a Python int that is an argument travels as int64. Pass np.uint64(...) or a float."
            )
        kind = "python" if weak else "numpy"
        return self.add_feed(source, name, value, Meta((), dtype, weak=weak), layouts.Layout(0, ()), kind)


def check_int(value: int, low: int, high: int, dtype: str) -> None:
    """Raise OutOfRangeError, as NumPy raises OverflowError, where a Python int does not fit a dtype."""
    if not low <= value <= high:
        raise OutOfRangeError(
            f"Python integer {value} out of bounds for {dtype} at {user_line()}. "
            "Make it a float, or cast the array with astype(np.int64) first."
        )


_READ_ONLY: Final = frozenset({"broadcast_to", "diagonal"})
"""Views that NumPy lets nobody write into."""


class Recorder:
    """Records the operators of one run. `mode` is the value of the training flag in this run."""

    def __init__(self, session: Session, mode: bool = True, replay: bool = False) -> None:
        self.session = session
        self.graph = session.graph
        self.mode = mode
        self.mode_read = False
        self.alive = True
        self.fixed_source: str | None = None
        self.storages: dict[int, Storage] = {}
        self.feed_tensors: dict[int, Any] = {}
        self.random_calls = 0
        self.random_base: int | None = None
        """What is added to the count of random calls: what loops before have drawn, known at run time alone."""
        self._earlier: dict[Any, list[int]] | None = None
        self._matched: dict[Any, int] = {}
        if replay:
            self._earlier = {}
            for op in self.graph.ops:
                self._earlier.setdefault(_match_key(*op.signature), []).append(op.result_ids[0])

    def end(self) -> None:
        """End the run: its tensors are dead, and what it held of the call goes with its last user."""
        self.alive = False
        self.feed_tensors.clear()  # they refer to this run: a cycle that keeps the call's arguments

    # ------------------------------------------------------------------ steps
    def emit(self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any] | Attrs = ()) -> int:
        """Record one operator over tensor ids and return its result's id.

        The second run of a trace takes the steps of the first where they are equal: the n-th call of a
        kind on the same inputs matches the n-th.
        """
        row = ops.get(op_name)
        assert row is not None, op_name
        frozen = attrs if isinstance(attrs, tuple) else make_attrs(attrs)
        if self._earlier is not None:
            key = _match_key(op_name, inputs, frozen)
            nth = self._matched.get(key, 0)
            same = self._earlier.get(key, ())
            if nth < len(same):
                self._matched[key] = nth + 1
                return same[nth]
        metas = tuple(self.graph.metas[i] for i in inputs)
        meta = row.infer(metas, dict(frozen)) if frozen else _infer_plain(row, metas)
        return self.graph.add_op(
            op_name, inputs, frozen, meta, mode_sensitive=row.mode_sensitive, source=self.fixed_source or user_line(),
        )

    def emit_all(self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any]) -> tuple[int, ...]:
        """Record one operator of any number of results, as `emit` does, and return their ids."""
        row = ops.get(op_name)
        assert row is not None, op_name
        frozen = make_attrs(attrs)
        metas = row.result_metas([self.graph.metas[i] for i in inputs], dict(frozen))
        return self.graph.add_op_of_many(op_name, inputs, frozen, metas, source=self.fixed_source or user_line())

    def literal(self, value: bool | int | float | complex) -> int:
        """Return the weak constant of a Python scalar; one step for each value and type."""
        kind = type(value)
        if type(value) is int:
            check_int(value, -(2**63), 2**64 - 1, "uint64" if value > 0 else "int64")
        exact = isinstance(value, float | complex)  # == does not tell 0.0 from -0.0
        key = (kind, (value.real.hex(), value.imag.hex()) if exact else value)  # type: ignore[union-attr]
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": (), "value": value, "dtype": dtypes.weak_dtype(value), "weak": True}
            found = self.session.literals[key] = self.emit("full", (), attrs)
        return found

    def scalar(self, value: Any, dtype: str) -> int:
        """Return the strong rank-0 constant of a NumPy scalar."""
        number = dtypes.numpy_dtype(dtype).type(value)
        key = (dtype, number.tobytes())
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": (), "value": number.item(), "dtype": dtype, "weak": False}
            found = self.session.literals[key] = self.emit("full", (), attrs)
        return found

    def constant(self, array: np.ndarray[Any, Any]) -> int:
        """Return an array's data as a constant step."""
        dtype = dtype_name(array.dtype, "array")
        data = np.ascontiguousarray(array, dtypes.numpy_dtype(dtype).newbyteorder("<")).tobytes()
        key = (array.shape, dtype, data)
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": array.shape, "dtype": dtype, "data": data}
            found = self.session.literals[key] = self.emit("constant", (), attrs)
        return found

    def random_operands(self) -> tuple[int, int]:
        """Return the random state's feed and this call's index, counted in trace order."""
        if self.session.random_feed is None:
            meta = Meta((2,), "int64")
            feed = self.session.add_feed(
                RANDOM_STATE, RANDOM_STATE, None, meta, layouts.contiguous((2,), 8), "state"
            )
            self.session.random_feed = feed.id
        index = self.random_index()
        self.random_calls += 1
        return self.session.random_feed, index

    def random_index(self) -> int:
        """Return the index of the next random call."""
        count = self.scalar(self.random_calls, "int64")
        if self.random_base is None:
            return count
        return self.emit("add", (self.random_base, count)) if self.random_calls else self.random_base

    # ------------------------------------------------------------------ memory
    def feed_storage(self, feed: Feed) -> Storage:
        """Return the storage of a feed in this run; all ways to the same array share it."""
        found = self.storages.get(feed.id)
        if found is None:
            found = self.storages[feed.id] = Storage(feed.id, feed.meta, feed)
        return found

    def read(self, storage: Storage, path: Path) -> int:
        """Return the tensor that a view of a storage holds now."""
        found = storage.cache.get(path)
        if found is None:
            name, attrs, _, others = path[-1]
            found = storage.cache[path] = self.emit(name, (self.read(storage, path[:-1]), *others), attrs)
        return found

    def write(self, storage: Storage, path: Path, value: int, shape: tuple[int, ...]) -> None:
        """Make a view of `shape` hold `value`, cast to its dtype and broadcast; every other view sees it.

        Views are undone from the last to the first: reshape and transpose have an inverse, a slice updates
        the region of what it was taken from. Raises ReadOnlyError for read-only arguments, broadcasts and diagonals.
        """
        if (storage.feed is not None and not storage.feed.writeable) or any(p[0] in _READ_ONLY for p in path):
            raise ReadOnlyError(f"assignment destination is read-only, at {user_line()}: "
                                f"{self.graph.describe(storage.value)}. Write into a copy: x = x.copy().")
        if storage.region is not self.session.region:
            region = self.session.region
            raise UntraceableError(
                f"{region.name if region is not None else 'the function'} writes at {user_line()} into an array from "
                f"outside of it: {self.graph.describe(storage.value)}. What it changes must be among its arguments, "
                "and returned."
            )
        if storage.part:
            raise ReadOnlyError(f"the real and imaginary parts of traced arrays are read-only, at {user_line()}. "
                                "Assign both parts: x[...] = real + 1j * imag. Or write into a copy: x.real.copy().")
        new = value
        if not path or path[-1][0] != "slice":
            new = self.fit(value, shape, storage.meta.dtype)
        prefixes = {path: new}
        for k in range(len(path) - 1, -1, -1):
            name, attrs, before, others = path[k]
            if name == "slice":
                new = self.emit("update_slice", (self.read(storage, path[:k]), new), attrs)
            elif name == "gather":
                scatter = {**dict(attrs), "combine": "set"}
                new = self.emit("scatter", (self.read(storage, path[:k]), new, *others), scatter)
            elif name == "reshape":
                new = self.emit("reshape", (new,), {"shape": before})
            else:
                axes: Any = dict(attrs)["axes"]
                inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
                new = self.emit("transpose", (new,), {"axes": inverse})
            prefixes[path[:k]] = new
        storage.value = new
        last = self.graph.metas[prefixes[path]]
        if last.shape != shape or last.dtype != storage.meta.dtype or last.weak:
            del prefixes[path]
        storage.cache = prefixes

    def fit(self, value: int, shape: tuple[int, ...], dtype: str) -> int:
        """Return a tensor cast to a dtype and broadcast to a shape; a literal becomes a filled array."""
        meta = self.graph.metas[value]
        node = self.graph.node(value)
        if meta.weak and node is not None and node.op_name == "full":
            number = dtypes.numpy_dtype(dtype).type(dict(node.attrs)["value"]).item()
            return self.emit("full", (), {"shape": shape, "value": number, "dtype": dtype, "weak": False})
        if meta.dtype != dtype or meta.weak:
            value = self.emit("astype", (value,), {"dtype": dtype})
        if meta.shape != shape:
            value = self.emit("broadcast_to", (value,), {"shape": shape})
        return value


@lru_cache(maxsize=4096)
def _infer_plain(row: ops.Op, metas: tuple[Meta, ...]) -> Meta:
    """Return the result's meta of an operator without attributes; the same few come again and again."""
    return row.infer(metas, {})


def _match_key(op_name: str, inputs: tuple[int, ...], attrs: Attrs) -> Any:
    """Return a key that tells 0.0 from -0.0 and 1 from True, and takes one NaN for another."""
    return op_name, inputs, repr(attrs)


# ---------------------------------------------------------------- the run that is going on
class _Active(threading.local):
    recorder: Recorder | None = None


_active = _Active()


def active() -> Recorder | None:
    """Return the recorder of the trace that runs in this thread, or None."""
    return _active.recorder


def activate(recorder: Recorder | None) -> Recorder | None:
    """Make a recorder the current one and return the one before it."""
    before = _active.recorder
    _active.recorder = recorder
    return before


def require_float(dtype: str, what: str) -> None:
    """Raise DTypeError where a random or scaled result is asked for in another kind of dtype."""
    if dtype not in ("float32", "float64"):
        raise DTypeError(f"{what} is made in float32 or float64, not {dtype}")
