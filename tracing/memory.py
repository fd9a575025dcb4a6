"""Memory of a run: the storages behind arrays and their views, and what reading and writing a view records.

Owns what a name's memory holds now. Does not own the tensor class (`jitfuse.tracing.traced`).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitfuse import dtypes
from jitfuse.errors import ReadOnlyError, UnsupportedError, UntraceableError
from jitfuse.ir.program import Attrs, Meta
from jitfuse.later import Later
from jitfuse.records import made
from jitfuse.tracing.literals import Literals
from jitfuse.tracing.session import Feed, Region, Session
from jitfuse.tracing.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing import choosing
else:
    choosing = Later("jitfuse.tracing.choosing")

Step = tuple[str, Attrs, tuple[int, ...], tuple[int, ...]]
Path = tuple[Step, ...]
"""How a view reads its storage: (view operator, attributes, shape before it, other operands), one after the other."""

_READ_ONLY: Final = frozenset({"broadcast_to", "diagonal", "windows"})
"""Views that NumPy lets nobody write into."""
_SHARED_PLACES: Final = frozenset({"broadcast_to", "windows"})
"""Views with several elements at one place of memory, into which torch lets nobody write either."""
_PARTS: Final = frozenset({"real", "imag"})
"""Views of complex numbers: every other number of their memory."""


class Storage:
    """The memory behind one array and its views: the tensor it holds now, and what views of it hold."""

    __slots__ = ("__weakref__", "cache", "feed", "frozen", "itemsize", "meta", "region", "rivals", "value")

    def __init__(self, value: int, meta: Meta, feed: Feed | None = None, region: Region | None = None) -> None:
        self.value = value
        self.region = region
        """The body of a loop or branch in which the array was made, and outside of which nobody may write into it."""
        self.meta = meta
        self.feed = feed
        self.cache: dict[Path, int] = {(): value}
        self.frozen = ""
        """The function whose result would show what is written here, or show here what is written there; or none."""
        self.rivals: Any = None
        """The storages (`choosing.Rivals`) that it may be one with in another call, by what branches chose."""


class Memory(Literals):
    """The storages of one run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.storages: dict[int, Storage] = {}

    def feed_storage(self, feed: Feed) -> Storage:
        """Return the storage of a feed in this run; all ways to the same array share it."""
        found = self.storages.get(feed.id)
        if found is None:
            found = self.storages[feed.id] = Storage(feed.id, feed.meta, feed)
        return found

    def read(self, storage: Storage, path: Path) -> int:
        """Return the tensor that a view of a storage holds now."""
        cache = storage.cache
        found = cache.get(path)
        if found is not None:
            return found
        known = len(path)
        while found is None:
            known -= 1
            found = cache.get(path[:known])
        line = self.line(5)
        for k in range(known, len(path)):
            name, attrs, _, others = path[k]
            moved = self._moved(name, attrs, found)
            found = cache[path[: k + 1]] = self.emit(name, (found, *others) if others else (found,), attrs, moved, line)
        return found

    def _moved(self, name: str, attrs: Attrs, source: int) -> Meta | None:
        """Return the meta of a slice or reshape, which were checked when the view was made; None for other views."""
        if name not in ("slice", "reshape"):
            return None
        shape: Any = attrs[0][1]  # the counts of a slice, which come first in the alphabet
        _, dtype, device, _, _ = self.graph.metas[source]
        return None if -1 in shape else made(Meta, (shape, dtype, device, False, None))

    def write(self, storage: Storage, path: Path, value: int, shape: tuple[int, ...]) -> None:
        """Make a view of `shape` hold `value`, cast to its dtype and broadcast; every other view sees it.

        Views are undone from the last to the first: reshape and transpose have an inverse, a slice updates
        the region of what it was taken from, a part of complex numbers is put beside the other. Raises ReadOnlyError
        for read-only arguments, broadcasts, windows and NumPy's diagonals.
        """
        steps = [step[0] for step in path]
        line = self.line(5)
        read_only = _SHARED_PLACES if self.session.torch else _READ_ONLY
        if storage.frozen:
            raise UnsupportedError(f"a write at {user_line()} changes what {storage.frozen} has given another shape or "
                                   "dtype: inside a fused function they share no memory. Write into a copy.")
        if (storage.feed is not None and not storage.feed.writeable) or not read_only.isdisjoint(steps):
            raise ReadOnlyError(f"assignment destination is read-only, at {user_line()}: "
                                f"{self.graph.describe(storage.value)}. Write into a copy: x = x.copy().")
        if storage.region is not self.session.region:
            region = self.session.region
            raise UntraceableError(
                f"{region.name if region is not None else 'the function'} writes at {user_line()} into an array from "
                f"outside of it: {self.graph.describe(storage.value)}. What it changes must be among its arguments, "
                "and returned."
            )
        if storage.rivals is not None:
            choosing.written(self, storage)  # type: ignore[arg-type]
        new = value
        dtype = storage.meta.dtype if _PARTS.isdisjoint(steps) else dtypes.component(storage.meta.dtype)
        if not path or path[-1][0] != "slice":
            new = self.fit(value, shape, dtype)
        prefixes = {path: new}
        for k in range(len(path) - 1, -1, -1):
            name, attrs, before, others = path[k]
            if name == "slice":
                base, metas = self.read(storage, path[:k]), self.graph.metas
                fits = metas[new].shape in ((), attrs[0][1]) and not metas[base].weak
                new = self.emit("update_slice", (base, new), attrs, metas[base] if fits else None, line)
            elif name == "gather":
                scatter = {**dict(attrs), "combine": "set"}
                new = self.emit("scatter", (self.read(storage, path[:k]), new, *others), scatter)
            elif name == "reshape":
                held = self.graph.metas[new]
                new = self.emit("reshape", (new,), (("shape", before),), Meta(before, held.dtype, held.device), line)
            elif name == "diagonal":
                new = self._with_diagonal(self.read(storage, path[:k]), new, attrs, before)
            elif name in _PARTS:
                other = self.emit("imag" if name == "real" else "real", (self.read(storage, path[:k]),))
                new = self.emit("make_complex", (new, other) if name == "real" else (other, new))
            else:
                axes: Any = dict(attrs)["axes"]
                inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
                new = self.emit("transpose", (new,), {"axes": inverse})
            prefixes[path[:k]] = new
        storage.value = new
        last = self.graph.metas[prefixes[path]]
        if last.shape != shape or last.dtype != dtype or last.weak:
            del prefixes[path]
        storage.cache = prefixes

    def _with_diagonal(self, matrix: int, diagonal: int, attrs: Attrs, shape: tuple[int, ...]) -> int:
        """Return matrices with a diagonal replaced: every (columns + 1)-th of their elements in a row."""
        offset: Any = dict(attrs)["offset"]
        *outer, rows, columns = shape
        count = self.graph.metas[diagonal].shape[-1]
        if not count:
            return matrix
        flat = self.emit("reshape", (matrix,), {"shape": (*outer, rows * columns)})
        start = max(-offset, 0) * columns + max(offset, 0)
        region = {"starts": (*(0,) * len(outer), start), "steps": (*(1,) * len(outer), columns + 1),
                  "counts": (*outer, count)}
        return self.emit("reshape", (self.emit("update_slice", (flat, diagonal), region),), {"shape": shape})

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
