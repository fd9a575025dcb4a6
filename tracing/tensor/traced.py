"""TracedTensor: the AbstractTensor that records instead of computing.

Owns views (storage, path, layout) and writes through them. Does not own operators (`jitfuse.tracing.tensor.operators`),
other values as tensors (`jitfuse.tracing.tensor.lifting`), and all that user code sees besides
(`jitfuse.tracing.numpy_like.traced_array`): those files make tensors, and so import this one.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple, made
from jitfuse.errors import ArgumentError, LeakedTracerError, UnsupportedAttributeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numbers import weak
from jitfuse.tracing.record import layout
from jitfuse.tracing.record.access_paths import ViewStep
from jitfuse.tracing.record.dtype_name import DTYPES, DTypeName
from jitfuse.tracing.record.foreign import bare
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.session import Feed
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import warn_of_lost_part

if TYPE_CHECKING:
    from jitfuse.tracing.numpy_like.traced_array import TracedArray
    from jitfuse.tracing.tensor import indexing
else:
    TracedArray = AbstractTensor  # until its file is imported, which needs this one

memory_order = Later("jitfuse.tracing.record.memory_order")


class PartLayout(NamedTuple):
    """The layout of an indexed part, by the array's layout and meta and the index; computed only if needed.

    `in_order` says that the axes are in C order, like the array's; a basic index does not change their order.
    """

    whole: layout.MemoryLayout | PartLayout | None
    meta: Meta
    region: indexing.Region
    in_order: bool

    def layout(self) -> layout.MemoryLayout:
        """Return the layout."""
        whole = self.whole.layout() if isinstance(self.whole, PartLayout) else self.whole
        where = whole or layout.contiguous(self.meta.shape, dtypes.itemsize(self.meta.dtype))
        part = layout.sliced(where, self.region.starts, self.region.steps)
        return layout.rearranged(part, self.region.counts, self.region.axes) if self.region.moves_axes else part


class TracedTensor(TracedArray):
    """A value of the trace: a view (path, layout) of a storage in one run.

    `_lazy_layout` is None for a fresh array in C order. `_scalar` marks rank-0 results, which are immutable
    scalars in NumPy, unlike arrays of rank 0.
    """

    __slots__ = ("_lazy_layout", "_meta", "_path", "_run", "_scalar", "_storage")

    def __init__(self, run: Recorder, storage: Storage, meta: Meta, path: ViewStep | None = None,
                 lazy_layout: layout.MemoryLayout | PartLayout | None = None, scalar: bool = False) -> None:
        self._run = run
        self._storage = storage
        self._meta = meta
        self._path = path
        self._lazy_layout = lazy_layout
        self._scalar = scalar

    # ------------------------------------------------------------------ AbstractTensor's contract
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as plain ints."""
        return self._meta.shape

    @shape.setter
    def shape(self, new: Any) -> None:
        """Reshape the array in place, if the new shape is a view of the same memory."""
        if self._storage.feed is not None or self._scalar:
            raise UnsupportedAttributeError(
                f"the shape of an array that the function has not made is set at {user_line()}: "
                f"{self._run.graph.describe(self._id())}. Write x = x.reshape(shape)."
            )
        view: TracedTensor = self.reshape(new)
        if view._storage is not self._storage:
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
            )
        self._meta, self._path, self._lazy_layout = view._meta, view._path, view._lazy_layout

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        return DTYPES[self._meta.dtype]

    @property
    def weak(self) -> bool:
        """Whether this is a proxy of a Python scalar."""
        return self._meta.weak

    def laid_out(self, axes: tuple[int, ...] | None) -> TracedTensor:
        """Set the layout of a fresh array: its axes from the slowest to the fastest; None for C order."""
        self._lazy_layout = None if axes is None else layout.in_order(self.shape, axes, self.itemsize)
        return self

    def laid_out_by(self, rule: Callable[..., tuple[int, ...] | None], *operands: Any) -> TracedTensor:
        """Set the layout of a fresh array to the order of axes that a rule of NumPy's returns; torch has others."""
        return self.laid_out(None if self._run.session.torch else rule(*operands))

    def ordered(self, name: str, order: Any, like: Any = None) -> Any:
        """Set the layout of a fresh array by the argument `order` of `name`; "A" and "K" depend on `like`."""
        plain = order != "F" and self._lazy_layout is None and getattr(like, "_layout", None) is None
        return self if plain else self.laid_out_by(memory_order.asked_for, name, order, self, like)

    # ------------------------------------------------------------------ views and writes
    def _id(self) -> int:
        """Return the id of the tensor that this view holds now; raises LeakedTracerError after the trace."""
        if not self._run.alive:
            raise LeakedTracerError(
                f"a traced value is used at {user_line()} after its trace has ended: it is "
                f"{self._run.graph.describe(self._storage.value)}. A fused function must return what it computes; "
                "do not keep traced values in globals, attributes or containers."
            )
        path = self._path
        if path is None:
            return self._storage.value
        found = self._storage.cache.get(path)
        return self._run.read(self._storage, path) if found is None else found

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order, as far as it is known while tracing."""
        where = self._layout
        return where is None or layout.is_contiguous(self.shape, where, self.itemsize)

    @property
    def _layout(self) -> layout.MemoryLayout | None:
        """The layout, computed when it is needed; None for a fresh array in C order."""
        lazy = self._lazy_layout
        if type(lazy) is PartLayout:
            lazy = self._lazy_layout = lazy.layout()
        return lazy  # type: ignore[return-value]

    def _where(self) -> layout.MemoryLayout:
        return self._layout or layout.contiguous(self.shape, dtypes.itemsize(self._meta.dtype))

    def _view(self, op: ops.Op, attrs: dict[str, Any]) -> TracedTensor:
        """Return a view where NumPy returns one, else a fresh array (a reshape that must copy)."""
        source = self._id()
        meta = op.infer([self._meta], attrs)
        if meta.shape == self.shape and layout.is_identity(op.name, attrs):
            if self._scalar:
                return self  # it never changes
            return TracedTensor(self._run, self._storage, meta, self._path, self._lazy_layout)
        lay = None
        if not self._meta.weak and not self._scalar:
            lay = layout.viewed(self._where(), op.name, attrs, self.shape, meta.shape, self.itemsize)
        if lay is None:
            return fresh(self._run, self._run.emit(op.name, (source,), make_attrs(attrs)), scalar=False)
        path = self._run.paths.further(self._path, self._meta.shape, op.name, attrs, meta.shape)
        view = TracedTensor(self._run, self._storage, meta, path, lay)
        view._id()
        return view

    def at(self, indexed: indexing.IndexedRegion) -> TracedTensor:
        """Return the view at a basic index, which is a scalar where every axis is dropped."""
        run, storage = self._run, self._storage
        if not run.alive:
            self._id()  # raises
        region, path = indexed.region, indexed.view(run.paths)
        tensor = run.read(storage, path)
        if not region.shape and not region.has_ellipsis:
            return fresh(run, tensor)
        lies = self._lazy_layout
        in_order = lies is None or (type(lies) is PartLayout and lies.in_order)
        if type(lies) is PartLayout and type(lies.whole) is PartLayout:
            lies = self._layout  # else parts of parts would nest as deep as a loop is long
        part = made(PartLayout, (lies, self._meta, region, in_order))
        return TracedTensor(run, storage, run.graph.metas[tensor], path, part)

    def with_ones(self, shape: tuple[int, ...]) -> TracedTensor:
        """Return the value with a shape that differs in axes of extent 1, for a write elsewhere."""
        path = self._run.paths.reshaped(self._path, self._meta.shape, shape)
        made = TracedTensor(self._run, self._storage, Meta(shape, self._meta.dtype, self._meta.device), path)
        made._id()
        return made

    def picked(self, indices: Sequence[TracedTensor], attrs: dict[str, Any]) -> TracedTensor:
        """Return the view at traced indices along some axes: writes into it write at these indices.

        They are scalars, which drop their axes, or consecutive indices of a single axis.

        Elements read before are read again, so that equal loops over equal indices have equal ops. Equal ops of one
        program are merged later.
        """
        ids = tuple(tensor_id(i) for i in indices)
        row = ops.get("gather")
        assert row is not None
        meta = row.infer([self._meta, *(i._meta for i in indices)], attrs)
        path = self._run.paths.step(self._path, self._meta.shape, "gather", make_attrs(attrs), meta.shape, ids)
        held = self._storage.cache.get(path)
        node = None if held is None else self._run.graph.node(held)
        if node is not None and node.op_name == "gather":
            path = self._run.paths.anew(path)
        window = self._where()  # as for index 0: which reshapes are views does not depend on the index
        rest = layout.MemoryLayout(
            window.offset, tuple(s for k, s in enumerate(window.strides) if k not in attrs["axes"] or indices[0].ndim)
        )
        view = TracedTensor(self._run, self._storage, meta, path, rest)
        view._id()
        return view

    def _part(self, name: str) -> TracedTensor:
        """Return the real or imaginary part: a view of complex numbers, whose parts are adjacent in memory."""
        if self._scalar or dtypes.kind(self._meta.dtype) != "complex":
            made: TracedTensor = self.call(name)
            return made if self._scalar else made.as_copy()
        whole, dtype = self._where(), dtypes.component(self._meta.dtype)
        window = layout.MemoryLayout(whole.offset + (dtypes.itemsize(dtype) if name == "imag" else 0), whole.strides)
        path = self._run.paths.step(self._path, self._meta.shape, name, (), self._meta.shape)
        view = TracedTensor(self._run, self._storage, Meta(self.shape, dtype, self._meta.device), path, window)
        view._id()
        return view

    def as_copy(self, scalar: bool = False) -> TracedTensor:
        """Return the same value in memory of its own; `scalar`: as a NumPy scalar if it has rank 0."""
        return fresh(self._run, self._id(), scalar=scalar)

    def copy(self, order: str = "C") -> Any:
        """Return a copy in memory of its own; a scalar itself, because it is immutable."""
        return self if self._scalar else self.as_copy().ordered("copy", order, None if order == "C" else self)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """Return the elements cast to a dtype; an array of rank 0 stays an array."""
        made = super().astype(dtype, order, casting, subok, copy)
        return made.as_copy() if made._scalar and not (self._scalar or self._meta.weak) else made

    def ravel(self, order: str = "C") -> Any:
        """Return all elements as one axis: a view if memory has them in this order, else a copy."""
        if order not in ("A", "K"):
            return super().ravel(order)
        axes = None if self._lazy_layout is None else memory_order.of_ravel(order, self)
        return AbstractTensor.transpose(self, axes).ravel() if axes is not None else super().ravel()

    def _assign(self, value: TracedTensor) -> None:
        """Write into this tensor's memory by NumPy's rules of item assignment."""
        self.assign_at(value, self._path, self._meta.shape)

    def assign_at(self, value: TracedTensor, path: ViewStep | None, shape: tuple[int, ...]) -> None:
        """Write into the view at a path of this tensor's memory, which has this shape."""
        if self._scalar or self._meta.weak:
            raise ArgumentError(
                f"a scalar cannot be written into, at {user_line()}: {self._run.graph.describe(self._id())}. "
                "Assign the name instead: x = value."
            )
        if not self._run.alive:
            self._id()  # raises
        dtype = self._meta.dtype
        if value._meta.dtype != dtype:
            value = self._check_assigned(value, of_scalars=True)
            warn_of_lost_part(value._meta.dtype, dtype)
        self._run.write(self._storage, path, value._id(), shape)

    def _check_assigned(self, value: TracedTensor, of_scalars: bool = False) -> TracedTensor:
        """Reject a Python number that this tensor's dtype cannot hold; `of_scalars`: NumPy scalars too."""
        if value._meta.dtype == self._meta.dtype or not (value._meta.weak or (of_scalars and value._scalar)):
            return value
        given = tensor_id(value)
        checked = weak.check_assigned(self._run, given, self._meta.dtype)
        return value if checked == given else fresh(self._run, checked)

# ---------------------------------------------------------------- making tensors
def freeze(name: str, *tensors: TracedTensor) -> None:
    """Forbid writes into tensors that `name` makes views of in NumPy, but not here: sharing memory would show."""
    for t in tensors:
        t._storage.frozen = name


def fresh(run: Recorder, tensor: int, scalar: bool = True) -> TracedTensor:
    """Return a tensor with a storage of its own; `scalar`: as an immutable scalar if it has rank 0."""
    meta = run.graph.metas[tensor]
    storage = Storage(tensor, meta, None, run.session.region)
    if run.breaker is not None:
        run.born.append(weakref.ref(storage))
    return TracedTensor(run, storage, meta, None, None, scalar and not meta.shape)


def from_feed(run: Recorder, feed: Feed) -> TracedTensor:
    """Return the tensor of a feed; arrays share the feed's storage in this run."""
    scalar = not isinstance(feed.value, np.ndarray)
    plain = feed.layout == layout.contiguous(feed.meta.shape, dtypes.itemsize(feed.meta.dtype))
    made = run.feed_storage(feed)
    return TracedTensor(run, made, feed.meta, lazy_layout=None if plain else feed.layout, scalar=scalar)


def tensor_id(value: Any) -> int:
    """Return the id of the tensor that a traced tensor holds now."""
    assert isinstance(value, AbstractTensor), type(value)
    return value._id()  # type: ignore[attr-defined, no-any-return]


_PLAIN_KINDS: Final = frozenset({type(None), bool, int, float, str})


def plain(value: Any) -> Any:
    """Return an attribute with traced scalars replaced by their values, which become guards."""
    kind = type(value)
    if kind in _PLAIN_KINDS or (kind is tuple and _PLAIN_KINDS.issuperset(map(type, value))):
        return value
    value = bare(value)
    if type(value) is TracedTensor:
        found = value._read_value("int()")
        return found.item() if isinstance(found, np.generic) else found
    if type(value) in (tuple, list):
        return tuple(plain(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value
