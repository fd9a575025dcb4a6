"""Direct functions of arrays over torch tensors: implementations of namespace functions over torch tensors alone.

An operator that the interpreter maps to one torch function is that function, if operands have the dtype that the
operator computes in; this is decided once per dtype. The other functions here are written in torch; they take float32
and float64 only where torch's rules for other dtypes are not NumPy's. A function that is missing here, or returns
NotImplemented, may go through NumPy (`jitfuse.arrays.direct`). Importing this module imports torch.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.array_api import functions
from jitfuse.arrays.direct import OPERATORS, is_quotient_numpys
from jitfuse.arrays.torch_linear import FLOATS, LINEAR, product
from jitfuse.backends.interpreter import torch_functions
from jitfuse.backends.interpreter.torch_tensor import NAMES, TORCH_DTYPES, refuse_wrapping
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.dtype_name import dtype_name

Function = Callable[..., Any]
Tensor = Any
_tensor: Final = torch.Tensor


def over_tensors(name: str, function: Function) -> Function | None:
    """Return the implementation of a namespace function over tensors, or None."""
    if name in _OWN:
        return _OWN[name]
    return operator(OPERATORS.get(name, name)) if function.__module__ == "jitfuse.array_api.namespace" else None


def operator(name: str, in_place: bool = False) -> Function | None:
    """Return an operator of the table over tensors and Python numbers, or None if torch has no such function.

    With `in_place` it writes its result into the first operand, whose dtype the result has.
    """
    if name == "floor_divide":
        return _floor_divide_in_place if in_place else None
    op = ops.get(name)
    if op is None or name not in torch_functions.NATIVE or op.loop is None or op.attrs or op.arity > 2:
        return None
    if in_place:
        return _binary(op, _IN_PLACE[name]) if name in _IN_PLACE else None
    function = torch_functions.function_of(name)
    return _unary(op, function) if op.arity == 1 else _binary(op, function)


def _power_in_place(a: Tensor, b: Tensor) -> Tensor:
    return a.pow_(b) if a.dtype.is_floating_point else a.copy_(torch_functions.function_of("power")(a, b))


_IN_PLACE: Final[dict[str, Function]] = {
    "add": torch.Tensor.add_, "subtract": torch.Tensor.sub_, "multiply": torch.Tensor.mul_,
    "divide": torch.Tensor.div_, "bitwise_and": torch.Tensor.bitwise_and_, "bitwise_or": torch.Tensor.bitwise_or_,
    "bitwise_xor": torch.Tensor.bitwise_xor_, "power": _power_in_place,
}


# ---------------------------------------------------------------- operators
def _fits(op: ops.Op, metas: list[Meta], dtype: str) -> bool:
    assert op.loop is not None
    loop = op.loop(op.name, metas)
    return all(d == dtype for d in loop.inputs) and torch_functions.is_native(op.name, TORCH_DTYPES[dtype])


def _unary(op: ops.Op, function: Function) -> Function:
    plans = dict[Any, bool]()

    def unary(x: Tensor, /) -> Any:
        dtype = x.dtype
        fits = plans.get(dtype)
        if fits is None:
            fits = plans[dtype] = _fits(op, [Meta((), NAMES[dtype])], NAMES[dtype])
        return function(x) if fits else NotImplemented

    return unary


_constants: dict[tuple[type, Any, Any], Tensor] = {}


def constant(value: Any, dtype: Any) -> Tensor:
    """Return a Python number as a shared tensor of rank 0; raises if the dtype does not hold it."""
    key = (type(value), value or str(value), dtype)  # 0.0 and -0.0 are equal
    found = _constants.get(key)
    if found is None:
        refuse_wrapping(value, dtype)
        if len(_constants) > 1024:
            _constants.clear()
        found = _constants[key] = torch.tensor(value, dtype=dtype)
    return found


def _binary(op: ops.Op, function: Function) -> Function:
    same, mixed = dict[Any, bool](), dict[Any, bool]()

    def binary(a: Any, b: Any, /) -> Any:
        first = type(a) is torch.Tensor
        if first and type(b) is torch.Tensor:
            dtype = a.dtype
            if dtype is not b.dtype:
                return NotImplemented
            fits = same.get(dtype)
            if fits is None:
                fits = same[dtype] = _fits(op, [Meta((), NAMES[dtype])] * 2, NAMES[dtype])
            return function(a, b) if fits else NotImplemented
        dtype, number = (a.dtype, b) if first else (b.dtype, a)
        key = (dtype, type(number), first)
        fits = mixed.get(key)
        if fits is None:
            fits = mixed[key] = _fits_number(op, *key)
        if not fits:
            return NotImplemented
        return function(a, constant(b, dtype)) if first else function(constant(a, dtype), b)

    return binary


def _fits_number(op: ops.Op, dtype: Any, number: type, first: bool) -> bool:
    if number not in WEAK_DTYPE:
        return False
    metas = [Meta((), NAMES[dtype]), Meta((), WEAK_DTYPE[number], weak=True)]
    return _fits(op, metas if first else metas[::-1], NAMES[dtype])


def _floor_divide_in_place(x: Tensor, y: Any, /) -> Any:
    if x.dtype not in FLOATS:
        return NotImplemented
    if type(y) is torch.Tensor:
        return x.floor_divide_(y) if is_quotient_numpys(x.numpy(), y.numpy()) else NotImplemented
    return x.floor_divide_(constant(y, x.dtype)) if is_quotient_numpys(x.numpy(), y) else NotImplemented


def _where(condition: Tensor, a: Any, b: Any, /) -> Any:
    dtype = (a if type(a) is _tensor else b).dtype
    if condition.dtype is not torch.bool or dtype not in FLOATS:
        return NotImplemented
    if type(a) is not _tensor:
        a = constant(a, dtype) if type(a) in _REAL else None
    elif type(b) is not _tensor:
        b = constant(b, dtype) if type(b) in _REAL else None
    return torch.where(condition, a, b) if a.dtype is b.dtype else NotImplemented


_REAL: Final = frozenset({int, float})


def _clip(x: Tensor, /, min: Any = None, max: Any = None) -> Any:
    plain = x.dtype in FLOATS and type(min) in _REAL and type(max) in _REAL and min <= max
    return torch.clamp(x, min, max) if plain else NotImplemented


def _round(x: Tensor, /, decimals: int = 0) -> Any:
    return torch.round(x) if x.dtype in FLOATS and type(decimals) is int and not decimals else NotImplemented


def _real(x: Tensor, /) -> Any:
    return (x.real if x.is_complex() else x).clone()


def _imag(x: Tensor, /) -> Any:
    return x.imag.clone() if x.is_complex() else torch.zeros_like(x)


def _conj(x: Tensor, /) -> Any:
    return torch.conj_physical(x) if x.is_complex() else x


# ---------------------------------------------------------------- reductions
def _reduction(function: Function, dtypes: frozenset[Any] = FLOATS) -> Function:
    """Return a reduction over one axis or all."""
    def reduce(x: Tensor, /, axis: Any = None, *, keepdims: bool = False) -> Any:
        if x.dtype not in dtypes or not x.numel():
            return NotImplemented
        if axis is None and not keepdims:
            return function(x)
        return function(x, dim=axis, keepdim=keepdims) if type(axis) is int and x.ndim else NotImplemented

    return reduce


_TRUTHS: Final = FLOATS | {torch.bool}


def _moment(function: Function) -> Function:
    def reduce(x: Tensor, /, axis: Any = None, *, correction: float = 0, keepdims: bool = False) -> Any:
        one = (axis is None and not keepdims) or type(axis) is int
        count = x.numel() if axis is None else x.shape[axis]
        if x.dtype not in FLOATS or not one or not count > correction >= 0 or not x.numel():
            return NotImplemented
        if axis is not None and not keepdims and (correction == 0 or correction == 1):
            return function(x, axis, correction == 1)  # this overload is half a microsecond faster
        return function(x, dim=axis, correction=correction, keepdim=keepdims)

    return reduce


def _count_nonzero(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Any:
    one = (axis is None or type(axis) is int) and not keepdims
    return torch.count_nonzero(x, axis) if one and x.numel() else NotImplemented


def _diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    plain = prepend is append is None and type(n) is int and n > 0 and x.dtype in FLOATS and x.numel()
    return torch.diff(x, n, axis) if plain else NotImplemented


# ---------------------------------------------------------------- positions and sets
_PLACES: Final = frozenset({torch.int64, torch.int32})


def _take(x: Tensor, indices: Tensor, /, *, axis: Any = None, mode: Any = "raise") -> Any:
    if mode != "raise" or indices.dtype not in _PLACES:
        return NotImplemented
    if axis is None:
        return torch.take(x, indices) if x.ndim == 1 and indices.dtype is torch.int64 else NotImplemented
    plain = type(axis) is int and x.ndim and indices.ndim == 1
    return torch.index_select(x, axis, indices) if plain else NotImplemented  # raises for negative indices


_COUNTED: Final = FLOATS | _PLACES
_FEW: Final = 64
"""For sets of at most so many elements NumPy is faster than torch."""


def _unique_counts(x: Tensor, /) -> Any:
    if x.dtype not in _COUNTED or x.requires_grad or x.numel() <= _FEW:
        return NotImplemented
    return functions.UniqueCounts(*torch.unique(x, return_counts=True))


def _unique_inverse(x: Tensor, /) -> Any:
    if x.dtype not in _COUNTED or x.requires_grad:
        return NotImplemented
    return functions.UniqueInverse(*_unique(x, return_inverse=True)[:2])


def _torchs_unique() -> Function:
    """Return the function inside `torch.unique`, a microsecond faster, or `torch.unique` itself if it is missing."""
    return torch._unique2 if hasattr(torch, "_unique2") else torch.unique  # type: ignore[no-any-return]


_unique: Final = _torchs_unique()


# ---------------------------------------------------------------- shapes
def _expand_dims(a: Tensor, axis: Any) -> Any:
    return torch.unsqueeze(a, axis) if type(axis) is int else NotImplemented


def _squeeze(a: Tensor, axis: Any = None) -> Any:
    return torch.squeeze(a, axis) if type(axis) is int and a.shape[axis] == 1 else NotImplemented


def _flip(m: Tensor, axis: Any = None) -> Any:
    if axis is None:
        return torch.flip(m, tuple(range(m.ndim)))
    return torch.flip(m, (axis,)) if type(axis) is int and m.ndim else NotImplemented


def _broadcast_to(array: Tensor, shape: Any) -> Any:
    return torch.broadcast_to(array, shape) if type(shape) is tuple and -1 not in shape else NotImplemented


def _broadcast_arrays(*args: Tensor) -> Any:
    return torch.broadcast_tensors(*args)


def _reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Any:
    plain = copy is None and type(shape) is tuple and bool not in map(type, shape) and x.numel()
    return torch.reshape(x, shape) if plain else NotImplemented


def _permute_dims(a: Tensor, axes: Any = None) -> Any:
    return torch.permute(a, axes) if type(axes) is tuple else NotImplemented


def _matrix_transpose(x: Tensor, /) -> Any:
    return x.mT if x.ndim > 1 else NotImplemented


def _moveaxis(a: Tensor, source: Any, destination: Any) -> Any:
    return torch.movedim(a, source, destination) if a.ndim else NotImplemented


def _joined(function: Function) -> Function:
    def join(arrays: Any, /, axis: int = 0) -> Any:
        if type(axis) is not int:
            return NotImplemented
        dtype, ndim = arrays[0].dtype, arrays[0].ndim
        for a in arrays:
            if a.dtype is not dtype or a.ndim != ndim or not a.numel():
                return NotImplemented
        return function(arrays, axis)

    return join


def _triangle(function: Function) -> Function:
    def triangle(m: Tensor, k: int = 0) -> Any:
        return function(m, k)

    return triangle


def _roll(a: Tensor, shift: Any, axis: Any = None) -> Any:
    return torch.roll(a, shift, axis) if type(shift) is int else NotImplemented


def _unstack(x: Tensor, /, *, axis: int = 0) -> Any:
    return torch.unbind(x, axis)


# ---------------------------------------------------------------- creation
def _like(function: Function) -> Function:
    def like(x: Tensor, /, dtype: Any = None, *, device: str | None = None) -> Any:
        if device is not None:
            return NotImplemented
        own = x.dtype if dtype is None else TORCH_DTYPES[dtype_name(dtype)]
        return function(x, dtype=own, memory_format=torch.contiguous_format)

    return like


def _full_like(x: Tensor, /, fill_value: Any, dtype: Any = None, *, device: str | None = None) -> Any:
    if dtype is not None or device is not None or x.dtype not in FLOATS or type(fill_value) not in _REAL:
        return NotImplemented
    return torch.full_like(x, fill_value, memory_format=torch.contiguous_format)


_OWN: Final[dict[str, Function | None]] = {
    **LINEAR, "where": _where, "clip": _clip, "copysign": product(torch.copysign), "round": _round, "real": _real,
    "imag": _imag, "conj": _conj, "expm1": operator("expm1"), "tanh": operator("tanh"),
    "sum": _reduction(torch.sum), "max": _reduction(torch.amax), "min": _reduction(torch.amin),
    "mean": _reduction(torch.mean), "any": _reduction(torch.any, _TRUTHS),
    "all": _reduction(torch.all, _TRUTHS),
    "count_nonzero": _count_nonzero, "diff": _diff, "var": _moment(torch.var), "std": _moment(torch.std),
    "expand_dims": _expand_dims, "squeeze": _squeeze, "flip": _flip, "broadcast_to": _broadcast_to,
    "broadcast_arrays": _broadcast_arrays, "reshape": _reshape, "permute_dims": _permute_dims,
    "matrix_transpose": _matrix_transpose, "linalg.matrix_transpose": _matrix_transpose, "moveaxis": _moveaxis,
    "concat": _joined(torch.cat), "stack": _joined(torch.stack), "tril": _triangle(torch.tril),
    "triu": _triangle(torch.triu), "roll": _roll, "unstack": _unstack,
    **dict.fromkeys(("zeros_like", "empty_like"), _like(torch.zeros_like)), "ones_like": _like(torch.ones_like),
    "full_like": _full_like, "take": _take, "unique_counts": _unique_counts, "unique_inverse": _unique_inverse,
    "nextafter": product(torch.nextafter),
}
