"""AbstractTensor: the one method surface that user code, programs and every backend share.

Owns the methods (one for each row of the op table, plus Python's operators and a few array conveniences) and
the normalisation of parameter aliases. A subclass supplies `shape`, `dtype`, `weak` and `_apply`, which
carries out one operator: a traced tensor records it, an eager tensor computes it. Does not own indexing and
assignment (`jitfuse.tracing.tensor.indexing`) or NumPy's protocols (`jitfuse.tracing.numpy_like.protocol`).
"""
from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.rules import shape_rules

ALIASES = {"dim": "axis", "keepdim": "keepdims", "ddof": "correction", "newshape": "shape"}
"""Parameter names that other libraries use, and the op table's name for the same thing."""


def normalize_attrs(op: ops.Op, attrs: dict[str, Any]) -> dict[str, Any]:
    """Return attributes under the table's names with defaults filled in; raises ArgumentError."""
    if "axis" in attrs:
        shape_rules.reject_bools(attrs["axis"])
    if attrs.keys() <= op.attrs.keys():
        return op.check_attrs(attrs)
    renamed: dict[str, Any] = {}
    for key, value in attrs.items():
        name = key if key in op.attrs else ALIASES.get(key, key)
        if name in renamed:
            raise ArgumentError(f"{op.name} got both {key!r} and its alias {name!r}")
        renamed[name] = value
    return op.check_attrs(renamed)


class AbstractTensor:
    """An array whose methods are operators of the op table; subclasses carry them out."""

    __slots__ = ("__weakref__",)
    __array_priority__: ClassVar[float] = 1000.0

    # ------------------------------------------------------------------ what a subclass supplies
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as plain ints."""
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        raise NotImplementedError

    @property
    def weak(self) -> bool:
        """Whether this is a Python scalar's value, which takes the other operand's dtype in promotion."""
        return False

    def _apply(self, op: ops.Op, inputs: tuple[AbstractTensor, ...], attrs: dict[str, Any]) -> Any:
        """Carry out one operator over tensors of this class; attributes are complete and normalised."""
        raise NotImplementedError

    def _lift(self, value: Any) -> AbstractTensor:
        """Return a Python scalar or array as a tensor of this class; raises ArgumentError for other kinds."""
        raise NotImplementedError

    # ------------------------------------------------------------------ derived
    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        return self.call("transpose", axes=tuple(range(self.ndim))[::-1])

    def call(self, op_name: str, *others: Any, **attrs: Any) -> Any:
        """Carry out an operator by name with this tensor as its first operand."""
        op = ops.get(op_name)
        if op is None:
            raise ArgumentError(f"there is no operator {op_name!r}")
        lifted = [o if isinstance(o, AbstractTensor) else self._lift(o) for o in others] if others else ()
        return self._apply(op, (self, *lifted), normalize_attrs(op, attrs) if attrs or op.attrs else attrs)

    def create(self, op_name: str, **attrs: Any) -> Any:
        """Carry out a creation operator on this tensor's device and in its trace."""
        op = ops.get(op_name)
        assert op is not None and op.kind == ops.CREATION, op_name
        return self._apply(op, (), normalize_attrs(op, attrs))

    def literal(self, value: float | int | bool) -> Any:
        """Return a Python scalar as a weak constant beside this tensor."""
        return self._lift(value)

    def extent(self, *, value: float | int, dtype: str | None = None) -> Any:
        """Return a number derived from shapes as a weak constant beside this tensor."""
        return self.create("extent", value=value, dtype=dtype or ("int64" if isinstance(value, int) else "float64"))

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `jitfuse`, the namespace of the Python array API standard; raises ArgumentError for later versions."""
        namespace = sys.modules[__name__.partition(".")[0]]
        known = namespace.ARRAY_API_VERSIONS
        if api_version is not None and api_version not in known:
            raise ArgumentError(f"version {api_version!r} of the array API standard; there are {', '.join(known)}")
        return namespace

    # ------------------------------------------------------------------ shape conveniences
    def reshape(self, *shape: Any, **attrs: Any) -> Any:
        """Return the elements in row-major order with another shape; one extent may be -1."""
        asked = shape or attrs.pop("shape", ())
        new = _extents(asked)
        return self.call("reshape", shape=shape_rules.reshape_shape("reshape", self.shape, new), **attrs)

    def transpose(self, *axes: Any, **attrs: Any) -> Any:
        """Permute the axes; reverse them where none are given."""
        asked = attrs.pop("axes", None) or (axes if axes != (None,) else ())
        given = _extents(asked) if asked else tuple(range(self.ndim))[::-1]
        return self.call("transpose", axes=tuple(shape_rules.normalize_axis("transpose", a, self.ndim) for a in given))

    def flatten(self) -> Any:
        """Return all elements as one axis."""
        return self.reshape((-1,)) if self.size else self.reshape((0,))

    def expand_dims(self, axis: int) -> Any:
        """Insert an axis of extent 1."""
        at = shape_rules.normalize_axis("expand_dims", axis, self.ndim + 1)
        return self.reshape((*self.shape[:at], 1, *self.shape[at:]))

    def squeeze(self, axis: Any = None) -> Any:
        """Drop axes of extent 1: all of them, or those given."""
        shape_rules.reject_bools(axis)
        drop = (
            [k for k, n in enumerate(self.shape) if n == 1] if axis is None
            else shape_rules.normalize_axes("squeeze", axis, self.ndim)
        )
        wrong = [k for k in drop if self.shape[k] != 1]
        if wrong:
            raise ShapeError(f"squeeze: axis {wrong[0]} of {self.shape} has extent {self.shape[wrong[0]]}, not 1")
        return self.reshape(tuple(n for k, n in enumerate(self.shape) if k not in drop))


def _extents(given: Any) -> tuple[int, ...]:
    """Return extents or axes that are given one by one or as a sequence; raises ArgumentError for bools."""
    if isinstance(given, Sequence) and len(given) == 1 and isinstance(given[0], Sequence):
        given = given[0]
    shape_rules.reject_bools(given)
    return tuple(map(shape_rules.whole, given if isinstance(given, Sequence) else (given,)))


# ---------------------------------------------------------------- methods from the table
_FIRST_ATTR_POSITIONAL = {"astype", "broadcast_to"}


def _method(name: str) -> Callable[..., Any]:
    def method(self: AbstractTensor, *operands: Any, **attrs: Any) -> Any:
        if operands and (first := _first_attribute(name)) is not None:
            attrs[first], operands = operands[0], operands[1:]
        return self.call(name, *operands, **attrs)

    method.__name__ = name
    method.__qualname__ = f"AbstractTensor.{name}"
    method.__doc__ = f"Carry out the operator {name} of the op table (`jitfuse.ir.operators.ops`)."
    return method


def _first_attribute(name: str) -> str | None:
    """Return the attribute that an operator's method takes by position, or None."""
    op = ops.get(name)
    assert op is not None
    positional = op.kind in (ops.REDUCTION, ops.SCAN) or name in _FIRST_ATTR_POSITIONAL
    return next(iter(op.attrs), None) if positional else None


def _where(self: AbstractTensor, a: Any, b: Any) -> Any:
    """Return `a` where this tensor is true, else `b`."""
    return self.call("where", a, b)


for _name in ops.names():
    if not hasattr(AbstractTensor, _name) and _name not in FAMILIES["creation"]:
        setattr(AbstractTensor, _name, _where if _name == "where" else _method(_name))

BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}
COMPARISONS: Final = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}
UNARY: Final = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _operator(name: str, reflected: bool) -> Callable[..., Any]:
    def operator(self: AbstractTensor, other: Any) -> Any:
        try:
            right = other if isinstance(other, AbstractTensor) else self._lift(other)
        except ArgumentError:
            return NotImplemented
        return right.call(name, self) if reflected else self.call(name, right)

    return operator


for _dunder, _name in {**BINARY, **COMPARISONS}.items():
    setattr(AbstractTensor, f"__{_dunder}__", _operator(_name, reflected=False))
for _dunder, _name in BINARY.items():
    setattr(AbstractTensor, f"__r{_dunder}__", _operator(_name, reflected=True))
for _dunder, _name in UNARY.items():
    setattr(AbstractTensor, f"__{_dunder}__", (lambda n: lambda self: self.call(n))(_name))
AbstractTensor.__hash__ = object.__hash__  # type: ignore[method-assign]
