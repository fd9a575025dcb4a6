"""TracedTensor: the AbstractTensor that records instead of computing.

Owns views (storage, path, layout), writes through them, the lifting of Python and NumPy values, and looks at
values. NumPy's methods come from `jitfuse.tracing.array_methods`, its protocols from
`jitfuse.tracing.numpy_protocol`, indexing from `jitfuse.tracing.indexing`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, LeakedTracerError, ShapeError, UnsupportedAttributeError
from jitfuse.ir import ops
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.later import Later
from jitfuse.tracing import layout, numpy_protocol, weak
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.array_methods import ArrayMethods
from jitfuse.tracing.device_array import unwrapped
from jitfuse.tracing.dtype_name import DTYPES, DTypeName, dtype_name
from jitfuse.tracing.look import UnknownValueError, known_value, look_error, python_operator
from jitfuse.tracing.numpy_complex import warn_of_lost_part
from jitfuse.tracing.recorder import Feed, Path, Recorder, Storage
from jitfuse.tracing.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing import gathering, indexing
else:
    gathering = Later("jitfuse.tracing.gathering")
    indexing = Later("jitfuse.tracing.indexing")

_VIEWS: Final = frozenset({"reshape", "transpose", "slice", "broadcast_to", "diagonal"})
_PYTHON_TYPE: Final = {"bool": bool, "int64": int, "uint64": int, "float64": float, "complex128": complex}


class TracedTensor(ArrayMethods):
    """A value of the trace: a view (path, layout) of a storage in one run.

    `_layout` is None for a fresh array in C order. `_scalar` marks rank-0 results, which are immutable
    scalars in NumPy, unlike arrays of rank 0.
    """

    __slots__ = ("_layout", "_meta", "_path", "_run", "_scalar", "_storage")

    def __init__(self, run: Recorder, storage: Storage, meta: Meta, path: Path = (),
                 lay: layout.Layout | None = None, scalar: bool = False) -> None:
        self._run = run
        self._storage = storage
        self._meta = meta
        self._path = path
        self._layout = lay
        self._scalar = scalar

    # ------------------------------------------------------------------ AbstractTensor's contract
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as plain ints."""
        return self._meta.shape

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        return DTYPES[self._meta.dtype]

    @property
    def weak(self) -> bool:
        """Whether this stands for a Python scalar."""
        return self._meta.weak

    def _apply(self, op: ops.Op, inputs: tuple[AbstractTensor, ...], attrs: dict[str, Any]) -> Any:
        if attrs:
            attrs = {k: plain(v) for k, v in attrs.items()}
            if attrs.get("dtype") is not None:
                attrs["dtype"] = dtype_name(attrs["dtype"], op.name)
        if op.name in _VIEWS:
            return self._view(op, attrs)
        if op.kind == ops.CONTROL:
            raise ArgumentError(f"use jf.{op.name}, which takes functions, at {user_line()}")
        ids = tuple([tensor_id(t) for t in inputs])
        if op.loop is not None:
            metas = [self._run.graph.metas[i] for i in ids]
            are_weak = [m.weak for m in metas]
            if True in are_weak:
                if False not in are_weak and weak.needs_values(self._run, op.name, ids, metas):
                    python = python_operator(op.name)
                    if python is not None:
                        return python(*[known_value(self._run.session, i) for i in ids])
                weak.check_int_operands(self._run, op, ids, metas)
        return fresh(self._run, self._run.emit(op.name, ids, make_attrs(attrs)), scalar=op.kind != ops.CREATION)

    def _lift(self, value: Any) -> TracedTensor:
        if self._meta.weak and isinstance(value, list | tuple):
            raise ArgumentError("a Python number repeats a sequence")  # as an operator; see as_tensor
        return lift(self._run, value)

    def as_tensor(self, value: Any) -> TracedTensor:
        """Return anything that NumPy functions take for an array as a tensor of this trace."""
        return lift(self._run, value)

    # ------------------------------------------------------------------ views and writes
    def _id(self) -> int:
        """Return the id of the tensor that this holds now; raises LeakedTracerError after the trace."""
        if not self._run.alive:
            raise LeakedTracerError(
                f"a traced value is used at {user_line()} after its trace has ended: it is "
                f"{self._run.graph.describe(self._storage.value)}. A fused function must return what it computes; "
                "do not keep traced values in globals, attributes or containers."
            )
        found = self._storage.cache.get(self._path)
        return self._run.read(self._storage, self._path) if found is None else found

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in C order, as far as the program knows."""
        return self._layout is None or layout.is_contiguous(self.shape, self._layout, self.itemsize)

    def _where(self) -> layout.Layout:
        return self._layout or layout.contiguous(self.shape, dtypes.itemsize(self._meta.dtype))

    def _view(self, op: ops.Op, attrs: dict[str, Any]) -> TracedTensor:
        """Return a view where NumPy returns one, else a fresh array (a reshape that must copy)."""
        source = self._id()
        meta = op.infer([self._meta], op.check_attrs(attrs))
        if meta.shape == self.shape and layout.is_identity(op.name, attrs):
            if self._scalar:
                return self.as_copy()
            return TracedTensor(self._run, self._storage, meta, self._path, self._layout)
        lay = None
        if not self._meta.weak and not self._scalar:
            lay = layout.viewed(self._where(), op.name, attrs, self.shape, meta.shape, self.itemsize)
        if lay is None:
            return fresh(self._run, self._run.emit(op.name, (source,), make_attrs(attrs)), scalar=False)
        path = indexing.extend_path(self._path, op.name, attrs, self.shape)
        view = TracedTensor(self._run, self._storage, meta, path, lay)
        view._id()
        return view

    def picked(self, indices: Sequence[TracedTensor], attrs: dict[str, Any]) -> TracedTensor:
        """Return the view at traced scalars along some axes: writing into it writes at that place."""
        ids = tuple(tensor_id(i) for i in indices)
        row = ops.get("gather")
        assert row is not None
        meta = row.infer([self._meta, *(i._meta for i in indices)], attrs)
        path = (*self._path, ("gather", make_attrs(attrs), self.shape, ids))
        view = TracedTensor(self._run, self._storage, meta, path)
        view._id()
        return view

    def _part(self, name: str) -> TracedTensor:
        """Return the real or imaginary part, which shares memory with the whole in NumPy: here it is read-only."""
        result: TracedTensor = self.call(name)
        result._storage.part = True
        return result

    def as_copy(self, scalar: bool = False) -> TracedTensor:
        """Return the same value in memory of its own; `scalar`: as NumPy's scalar where it has rank 0."""
        return fresh(self._run, self._id(), scalar=scalar)

    def _assign(self, value: TracedTensor, path: Path | None = None, shape: tuple[int, ...] | None = None) -> None:
        """Write into this tensor's memory, or into a view of it, by NumPy's rules of item assignment."""
        if self._scalar or self._meta.weak:
            raise ArgumentError(
                f"a scalar cannot be written into, at {user_line()}: {self._run.graph.describe(self._id())}. "
                "Assign the name instead: x = value."
            )
        self._id()
        warn_of_lost_part(value._meta.dtype, self._meta.dtype)
        new = tensor_id(value)
        own, other = self._meta.dtype, value._meta
        if other.weak and dtypes.is_integer(own) and dtypes.is_integer(other.dtype) and own != other.dtype:
            weak.check_fits(self._run, new, own)
        self._run.write(self._storage, self._path if path is None else path, new,
                        self.shape if shape is None else shape)

    def _assign_result(self, result: TracedTensor, name: str) -> None:
        """Write an operator's result as `x += y` and `out=x` do: same shape, same-kind cast."""
        if result.shape != self.shape:
            raise ShapeError(
                f"{name}: the result of shape {result.shape} does not fit the output of shape {self.shape}, "
                f"at {user_line()}"
            )
        source = result._meta.dtype
        if not dtypes.can_cast(source, self._meta.dtype):
            raise DTypeError(
                f"cannot cast {name}'s result from {source} to {self._meta.dtype} with casting rule 'same_kind', "
                f"at {user_line()}. Write x = x.astype({source}) first, or cast the right-hand side."
            )
        self._assign(result)

    # ------------------------------------------------------------------ Python looks
    def _look(self, what: str) -> Any:
        tensor = self._id()
        try:
            return known_value(self._run.session, tensor)
        except UnknownValueError:
            raise look_error(self._run.graph.describe(tensor), what) from None

    def __bool__(self) -> bool:
        return bool(self._look("bool()"))

    def __int__(self) -> int:
        return int(self._look("int()"))

    def __float__(self) -> float:
        return float(self._look("float()"))

    def __complex__(self) -> complex:
        return complex(self._look("complex()"))

    def __index__(self) -> int:
        return self._look("int()").__index__()  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        if not self._meta.weak and not self._scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._look("hash()"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._look("round()"), digits)

    def __format__(self, spec: str) -> str:
        return format(self._look("format()"), spec) if self._meta.weak else format(repr(self), spec)

    def __str__(self) -> str:
        return str(self._look("str()")) if self._meta.weak else repr(self)

    def __repr__(self) -> str:
        return f"<traced {self._meta}: {self._run.graph.describe(self._storage.value)}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._look("np.asarray()"), dtype)

    def item(self, *index: Any) -> Any:
        """Return the value as a Python scalar, where it is known while tracing."""
        return np.asarray(self._look("item()")).item(*index)

    def tolist(self) -> Any:
        """Return the values as nested lists, where they are known while tracing."""
        return np.asarray(self._look("tolist()")).tolist()

    def __len__(self) -> int:
        if not self.shape:
            raise look_error(self._run.graph.describe(self._id()), "len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise look_error(self._run.graph.describe(self._id()), "iter()")
        return iter([self[k] for k in range(self.shape[0])])

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Answer isinstance as the plain run would: float for a Python float, np.ndarray for an array."""
        if self._meta.weak:
            return _PYTHON_TYPE[self._meta.dtype]
        return dtypes.numpy_dtype(self._meta.dtype).type if self._scalar else np.ndarray

    def __getattr__(self, name: str) -> Any:
        if self._meta.weak and not name.startswith("__") and hasattr(_PYTHON_TYPE[self._meta.dtype], name):
            return getattr(self._look(name), name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedAttributeError(
            f"traced arrays have no attribute {name!r}, at {user_line()}. "
            f"{numpy_protocol.alternatives(name)}"
        )

    # ------------------------------------------------------------------ items and NumPy
    def __getitem__(self, index: Any) -> Any:
        module = gathering if gathering.is_advanced(index) else indexing
        return module.get_item(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if gathering.is_advanced(index) and not indexing.is_mask(index):
            gathering.set_item(self, index, value)
        else:
            indexing.set_item(self, index, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_protocol.array_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return numpy_protocol.array_function(func, args, kwargs)


# ---------------------------------------------------------------- making tensors
def fresh(run: Recorder, tensor: int, scalar: bool = True) -> TracedTensor:
    """Return a tensor of its own storage; rank 0 is an immutable scalar unless told otherwise."""
    meta = run.graph.metas[tensor]
    return TracedTensor(run, Storage(tensor, meta, region=run.session.region), meta, scalar=scalar and not meta.shape)


def from_feed(run: Recorder, feed: Feed) -> TracedTensor:
    """Return the tensor of a feed; arrays share the feed's storage in this run."""
    scalar = not isinstance(feed.value, np.ndarray)
    return TracedTensor(run, run.feed_storage(feed), feed.meta, lay=feed.layout, scalar=scalar)


def lift(run: Recorder, value: Any) -> TracedTensor:
    """Return a Python scalar as a weak constant, a NumPy scalar, array or nested list as a strong one."""
    if isinstance(value, TracedTensor):
        return value
    kind = type(value)
    if kind is float or kind is int or kind is bool or kind is complex:
        return fresh(run, run.literal(value))
    if isinstance(value, np.generic):
        return fresh(run, run.scalar(value, dtype_name(value.dtype, "scalar")))
    value = unwrapped(value)
    if isinstance(value, np.ndarray):
        return fresh(run, run.constant(value), scalar=False)
    if isinstance(value, list | tuple):
        return stack_nested(run, value)
    if isinstance(value, bool | int | float | complex):
        base: Any = next(k for k in (bool, int, float, complex) if isinstance(value, k))
        return fresh(run, run.literal(base(value)))
    raise ArgumentError(f"{kind.__name__} is no array or number, at {user_line()}")


def stack_nested(run: Recorder, value: Sequence[Any]) -> TracedTensor:
    """Return a nested list of numbers and traced values as one array, as np.array does."""
    if not _holds_traced(value):
        return fresh(run, run.constant(np.array(value)), scalar=False)
    parts = [stack_nested(run, v) if isinstance(v, list | tuple) else lift(run, v) for v in value]
    strong = [p.call("astype", dtype=p._meta.dtype) if p.weak else p for p in parts]
    shapes = {p.shape for p in strong}
    if len(shapes) > 1:
        raise ShapeError(f"a nested list has parts of shapes {', '.join(map(str, sorted(shapes)))}, at {user_line()}")
    rows = [p.call("reshape", shape=(1, *p.shape)) for p in strong]
    return rows[0].call("concat", *rows[1:], axis=0)  # type: ignore[no-any-return]


def _holds_traced(value: Any) -> bool:
    if type(value) is TracedTensor:
        return True
    return isinstance(value, list | tuple) and any(_holds_traced(v) for v in value)


def tensor_id(value: Any) -> int:
    """Return the id that a traced tensor holds now."""
    assert type(value) is TracedTensor, type(value)
    return value._id()


def plain(value: Any) -> Any:
    """Return an attribute with traced scalars replaced by their values, which become guards."""
    if type(value) is TracedTensor:
        found = value._look("int()")
        return found.item() if isinstance(found, np.generic) else found
    if type(value) in (tuple, list):
        return tuple(plain(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value


def _pow(self: TracedTensor, other: Any) -> Any:
    """Return a power; 2 squares an array of bools in int8, where NumPy makes int64 of any other Python int."""
    weak_int = type(other) is TracedTensor and other.weak and other.dtype == "int64"
    squared = self.dtype == "bool" and not self._scalar and not self.weak and (type(other) is int or weak_int)
    return self.call("square") if squared and plain(other) == 2 else _power(self, other)


_power: Callable[[TracedTensor, Any], Any] = getattr(AbstractTensor, "__pow__")  # noqa: B009 -- made by the op table
setattr(TracedTensor, "__pow__", _pow)  # noqa: B010


def _inplace(name: str) -> Callable[[TracedTensor, Any], Any]:
    def operator(self: TracedTensor, other: Any) -> Any:
        try:
            result = self.call(name, other)
        except ArgumentError:
            return NotImplemented
        if self._scalar or self._meta.weak:
            return result
        self._assign_result(result, name)
        return self

    return operator


for _dunder, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "matmul": "matmul",
}.items():
    setattr(TracedTensor, f"__i{_dunder}__", _inplace(_name))
