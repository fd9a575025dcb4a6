"""Memory of a run: the storages behind arrays and their views, and the steps that reading and writing a view record.

Owns the current contents of each storage. Does not own the tensor class (`jitfuse.tracing.tensor.traced`).
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse import dtypes
from jitfuse.base.records import made
from jitfuse.errors import ReadOnlyError, UnsupportedError, UntraceableError
from jitfuse.ir.program import Attrs, Meta
from jitfuse.tracing.record.access_paths import Paths, ViewStep, steps
from jitfuse.tracing.record.literals import Literals
from jitfuse.tracing.record.session import Feed, Session, TracedRegion
from jitfuse.tracing.record.source import user_line

_READ_ONLY: Final = frozenset({"broadcast_to", "diagonal", "windows"})
"""Views that are read-only in NumPy."""
_OVERLAPPING: Final = frozenset({"broadcast_to", "windows"})
"""Views with several elements at one address; torch rejects writes into them too."""
_NOTHING: Final[dict[ViewStep, int]] = {}
"""The shared empty cache of storages without views, such as most numbers. It is never written into."""
_PARTS: Final = frozenset({"real", "imag"})
"""Views of complex arrays: every other number of their memory."""


class Storage:
    """The memory behind one array and its views: the tensor that it holds now, and those that its views hold."""

    __slots__ = ("__weakref__", "cache", "feed", "frozen", "itemsize", "may_alias", "meta", "region", "value")

    def __init__(self, value: int, meta: Meta, feed: Feed | None = None, region: TracedRegion | None = None) -> None:
        self.value = value
        self.region = region
        """The body of a loop or branch that made the array; other code must not write into it."""
        self.meta = meta
        self.feed = feed
        self.cache: dict[ViewStep, int] = _NOTHING
        """The tensors that its views hold now, as far as they are known."""
        self.frozen = ""
        """The function whose result shares this memory in NumPy but not here, so that writes are rejected; or ""."""
        self.may_alias: Any = None
        """Its may-alias set (`branch_values.MayAlias`): another call's branches may choose the same storage."""


class Memory(Literals):
    """The storages of one run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.storages: dict[int, Storage] = {}
        self.paths = Paths()
        self._views: dict[tuple[int, ...], Meta] = {}
        """The meta of the last view of each shape, so that equal metas are one object."""

    def feed_storage(self, feed: Feed) -> Storage:
        """Return the storage of a feed in this run; all access paths to the same array share it."""
        found = self.storages.get(feed.id)
        if found is None:
            found = self.storages[feed.id] = Storage(feed.id, feed.meta, feed)
        return found

    def read(self, storage: Storage, path: ViewStep | None) -> int:
        """Return the tensor that a view of a storage holds now; without a path, that of the storage."""
        if path is None:
            return storage.value
        cache = storage.cache
        found = cache.get(path)
        if found is not None:
            return found
        missing = [path]
        while (path := path.of) is not None:
            found = cache.get(path)
            if found is not None:
                break
            missing.append(path)
        if found is None:
            found = storage.value
        if cache is _NOTHING:
            cache = storage.cache = {}
        line = self.line(5)
        for path in missing[::-1]:
            name, others = path.name, path.others
            moved = None
            if name == "slice" or name == "reshape":  # both were checked when the view was made
                held, moved = self.graph.metas[found], self._views.get(path.shape)
                if moved is None or moved[1] != held[1] or moved[2] != held[2]:
                    moved = self._views[path.shape] = made(Meta, (path.shape, held[1], held[2], False, None))
            found = cache[path] = self.emit(name, (found, *others) if others else (found,), path.attrs, moved, line)
        return found

    def write(self, storage: Storage, path: ViewStep | None, value: int, shape: tuple[int, ...]) -> None:
        """Write `value` into a view of `shape`, cast to its dtype and broadcast; every other view sees it.

        Steps of the view are undone from the last to the first. Reshape and transpose have an inverse, a slice updates
        a region of its base, a real or imaginary part is combined with the other part. Raises ReadOnlyError for
        read-only arguments, broadcasts, windows and NumPy's diagonals.
        """
        dtype = storage.meta.dtype
        if path is not None and path.is_special:
            dtype = self._check_special(storage, path)
        self._check_written(storage)
        new = value if path is not None and path.name == "slice" else self.fit(value, shape, dtype)
        if path is None:
            storage.value, storage.cache = new, _NOTHING
            return
        last = self.graph.metas[new]
        cache = {path: new} if last.shape == shape and last.dtype == dtype and not last.weak else _NOTHING
        line = self.line(5)
        while True:
            new = self._undone(storage, path, new, line)
            path = path.of
            if path is None:
                break
            if cache is _NOTHING:
                cache = {}
            cache[path] = new
        storage.value, storage.cache = new, cache

    def replace(self, storage: Storage, value: int) -> None:
        """Give a storage another tensor of its shape and dtype, as a write of all its elements."""
        self._check_written(storage)
        storage.value, storage.cache = value, _NOTHING

    def _check_special(self, storage: Storage, path: ViewStep) -> str:
        """Return the dtype of a view's elements; raises ReadOnlyError where it is read-only."""
        names = {step.name for step in steps(path)}
        if not names.isdisjoint(_OVERLAPPING if self.session.torch else _READ_ONLY):
            raise self._read_only(storage)
        return storage.meta.dtype if names.isdisjoint(_PARTS) else dtypes.component(storage.meta.dtype)

    def _read_only(self, storage: Storage) -> ReadOnlyError:
        return ReadOnlyError(f"assignment destination is read-only, at {user_line()}: "
                             f"{self.graph.describe(storage.value)}. Write into a copy: x = x.copy().")

    def _check_written(self, storage: Storage) -> None:
        """Raise where a storage must not be written into; undo if-conversions that leave its aliases unknown."""
        if storage.frozen:
            raise UnsupportedError(f"a write at {user_line()} changes what {storage.frozen} has given another shape or "
                                   "dtype: inside a fused function they share no memory. Write into a copy.")
        if storage.feed is not None and not storage.feed.writeable:
            raise self._read_only(storage)
        region = self.session.region
        while region is not storage.region and region is not None and (region.is_python or region.written is not None):
            if region.written is not None:
                region.written.setdefault(id(storage), (storage, storage.value))
            region = region.outer
        if storage.region is not region:
            raise UntraceableError(
                f"{region.name if region is not None else 'the function'} writes at {user_line()} into an array from "
                f"outside of it: {self.graph.describe(storage.value)}. What it changes must be among its arguments, "
                "and returned."
            )
        if storage.may_alias is not None:
            storage.may_alias.written(self, storage)

    def _undone(self, storage: Storage, path: ViewStep, new: int, line: str) -> int:
        """Return the view's base after the view has been set to `new`."""
        name, attrs, metas = path.name, path.attrs, self.graph.metas
        if name == "slice":
            base = storage.value if path.of is None else self.read(storage, path.of)
            held = metas[base]
            fits = metas[new].shape in ((), path.shape) and not held.weak
            return self.emit("update_slice", (base, new), attrs, held if fits else None, line)
        if name == "reshape":
            held = metas[new]
            return self.emit("reshape", (new,), (("shape", path.before),), Meta(path.before, held.dtype, held.device),
                             line)
        if name == "gather":
            scatter = {**dict(attrs), "combine": "set"}
            return self.emit("scatter", (self.read(storage, path.of), new, *path.others), scatter)
        if name == "diagonal":
            return self._with_diagonal(self.read(storage, path.of), new, attrs, path.before)
        if name in _PARTS:
            other = self.emit("imag" if name == "real" else "real", (self.read(storage, path.of),))
            return self.emit("make_complex", (new, other) if name == "real" else (other, new))
        axes: Any = dict(attrs)["axes"]
        inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
        return self.emit("transpose", (new,), {"axes": inverse})

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
