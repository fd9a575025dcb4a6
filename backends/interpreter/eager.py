"""The base of the eager tensors: a value with AbstractTensor's methods, and typed errors.

Owns: the handling of `training` for mode-sensitive operators, and the conversion of an array library's exceptions to
typed errors. A subclass defines how values are held and computed.
"""
from __future__ import annotations

from typing import Any

from jitfuse.dtypes import WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ArgumentError, JitfuseError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.abstract import AbstractTensor, normalize_attrs


class EagerTensor(AbstractTensor):
    """A tensor that computes at once. `value` is the library's array, or a Python scalar, which is weak."""

    __slots__ = ("value",)
    __array_ufunc__ = None  # so that `array + tensor` calls the tensor's reflected operator
    value: Any

    def __init__(self, value: Any) -> None:
        """Hold a value of the library without a copy; raises ArgumentError or DTypeError for others."""
        raise NotImplementedError

    @classmethod
    def bind(cls, value: Any, meta: Meta | None) -> EagerTensor:
        """Return a feed as a tensor of this class; a rank-0 value becomes weak or strong as the meta says."""
        value = value.value if isinstance(value, EagerTensor) else value
        if meta is not None and meta.shape == ():
            if meta.weak and hasattr(value, "item") and value.ndim == 0 and cls(value).dtype == meta.dtype:
                value = value.item()
            elif not meta.weak and WEAK_DTYPE.get(type(value)) == meta.dtype:
                value = numpy_dtype(meta.dtype).type(value)
        return cls(value)

    def storage(self) -> object:
        """Return a key that is the same for values that share memory; None for a value that shares none."""
        raise NotImplementedError

    def fresh(self, taken: set[object]) -> Any:
        """Return the value, copied if its storage is in `taken`; otherwise add its storage to `taken`."""
        raise NotImplementedError

    @property
    def weak(self) -> bool:
        """Whether this is a Python scalar."""
        return type(self.value) in WEAK_DTYPE

    @property
    def device(self) -> str:
        """The device that holds the value."""
        return "cpu"

    @property
    def meta(self) -> Meta:
        """The metadata that a program has of this value."""
        return Meta(self.shape, self.dtype, self.device, self.weak)

    def call(self, op_name: str, *others: Any, **attrs: Any) -> Any:
        """Compute an operator; a mode-sensitive one takes `training=` too (False where not given)."""
        op = ops.get(op_name)
        if op is None:
            raise ArgumentError(f"there is no operator {op_name!r}")
        cls = type(self)
        inputs = (self, *[o if type(o) is cls else self._lift(o) for o in others])
        if op.mode_sensitive:
            training = attrs.pop("training", False)
            return self._apply(op, inputs, {**_normalized(op, attrs), "training": training})
        return self._apply(op, inputs, _normalized(op, attrs) if attrs or op.attrs else attrs)

    def _failure(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> JitfuseError | None:
        """Return the typed error that tells why operands or attributes do not fit, or None where they do."""
        try:
            op.result_meta([i.meta for i in inputs], {k: v for k, v in attrs.items() if k in op.attrs})
        except JitfuseError as error:
            return error
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        return int(self.value.__index__())


_NEEDED = {op.name: frozenset(a for a, v in op.attrs.items() if v is ops.REQUIRED) for op in ops.table()}


def _normalized(op: ops.Op, attrs: dict[str, Any]) -> dict[str, Any]:
    """Return complete attributes; names of the op table, the common case, skip the search for aliases."""
    full = {**op.attrs, **attrs}
    if len(full) == len(op.attrs) and _NEEDED.get(op.name, attrs.keys()) <= attrs.keys():
        return full
    return normalize_attrs(op, attrs)
