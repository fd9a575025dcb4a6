"""The table of namespace functions over torch tensors: torch's function where its results are the namespace's.

An operator that the interpreter maps to one torch function is that function, if operands have the dtype that the
operator computes in; this is decided once per combination of dtypes. The other rows take float32 and float64 only where
torch's rules for other dtypes are not NumPy's. What a row does not decide it leaves to NumPy's table or to the
namespace function: it returns NotImplemented or raises. Importing this module imports torch.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.arrays.numpy_table import OPERATORS
from jitfuse.backends.interpreter import torch_functions
from jitfuse.backends.interpreter.torch_tensor import NAMES, reject_wrapping
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.numpy_like.data_dependent import UniqueCounts, UniqueInverse

Function = Callable[..., Any]
_Tensor: Final = torch.Tensor
_FLOATS: Final = frozenset({torch.float32, torch.float64})


def over_tensors(name: str) -> Function | None:
    """Return the implementation of a namespace function or operator over tensors and Python numbers, or None."""
    return _ROWS.get(name) or _operator(OPERATORS.get(name, name))


# ---------------------------------------------------------------- operators
def _operator(name: str) -> Function | None:
    op, dtypes = ops.get(name), dict[Any, Any]()
    if op is None or name not in torch_functions.NATIVE or op.loop is None or op.attrs or op.arity > 2:
        return None
    function = torch_functions.function_of(name)

    def unary(x: Any, /) -> Any:
        if x.dtype not in dtypes:
            dtypes[x.dtype] = _dtype_of(op, (x.dtype,))
        return NotImplemented if dtypes[x.dtype] is None else function(x)

    def binary(a: Any, b: Any, /) -> Any:
        first, second = type(a), type(b)
        kinds = a.dtype if first is _Tensor else first, b.dtype if second is _Tensor else second
        if kinds not in dtypes:
            dtypes[kinds] = _dtype_of(op, kinds)
        dtype = dtypes[kinds]
        if dtype is None:
            return NotImplemented
        return function(a if first is _Tensor else _constant(a, dtype), b if second is _Tensor else _constant(b, dtype))

    return unary if op.arity == 1 else binary


def _dtype_of(op: ops.Op, kinds: tuple[Any, ...]) -> Any:
    """Return the one dtype of operands (dtypes, or types of Python numbers) that torch computes in, or None."""
    dtypes = {kind for kind in kinds if kind in NAMES}
    if len(dtypes) != 1 or any(kind not in dtypes and kind not in WEAK_DTYPE for kind in kinds):
        return None
    (dtype,) = dtypes
    assert op.loop is not None
    loop = op.loop(op.name, [Meta((), NAMES[k]) if k is dtype else Meta((), WEAK_DTYPE[k], weak=True) for k in kinds])
    fits = all(d == NAMES[dtype] for d in loop.inputs) and torch_functions.is_native(op.name, dtype)
    return dtype if fits else None


_constants: dict[tuple[type, Any, Any], Any] = {}


def _constant(value: Any, dtype: Any) -> Any:
    """Return a Python number as a shared tensor of rank 0; raises if the dtype does not hold it."""
    key = (type(value), value or str(value), dtype)  # 0.0 and -0.0 are equal
    found = _constants.get(key)
    if found is None:
        reject_wrapping(value, dtype)
        if len(_constants) > 1024:
            _constants.clear()
        found = _constants[key] = torch.tensor(value, dtype=dtype)
    return found


# ---------------------------------------------------------------- other functions
_OPTIONS: Final = {
    "axis": ("dim", int), "axes": ("dims", int), "n": ("n", int), "correction": ("correction", int),
    "keepdims": ("keepdim", bool), "invert": ("invert", bool),
}
"""The namespace's name of an option -> torch's, and the type of its values."""


def _floats(function: Function) -> Function:
    """Return a function of tensors with elements, all in float32 or all in float64; its options are `_OPTIONS`."""
    def over(*tensors: Any, **options: Any) -> Any:
        dtype = tensors[0].dtype
        for x in tensors:
            if dtype not in _FLOATS or x.dtype is not dtype or not x.numel():
                return NotImplemented
        if not options:
            return function(*tensors)
        given = {}
        for name, value in options.items():
            if value is not None:
                own, kind = _OPTIONS[name]  # raises for others
                if type(value) is not kind or not x.ndim:
                    return NotImplemented
                given[own] = value
        return function(*tensors, **given)

    return over


def _moment(function: Function) -> Function:
    def moment(x: Any, *, dim: int | None = None, correction: int = 0, keepdim: bool = False) -> Any:
        count = x.numel() if dim is None else x.shape[dim]
        plain = count > correction >= 0 and not (keepdim and dim is None)
        return function(x, dim=dim, correction=correction, keepdim=keepdim) if plain else NotImplemented

    return _floats(moment)


def _whole(value: Any) -> bool:
    return type(value) is int or (type(value) is tuple and all(type(v) is int for v in value))


def _arranged(function: Function) -> Function:
    """Return a function of one tensor of any dtype and of ints, or tuples of ints."""
    def over(x: Any, *given: Any, **option: Any) -> Any:
        if len(option) > 1:
            return NotImplemented
        given += tuple(option.values())
        plain = x.numel() and x.ndim and all(map(_whole, given))
        return function(x, *given) if plain else NotImplemented

    return over


def _vecdot(x1: Any, x2: Any, *, dim: int = -1) -> Any:
    return torch.linalg.vecdot(x1, x2, dim=dim) if x1.shape[dim] == x2.shape[dim] else NotImplemented


def _tensordot(a: Any, b: Any, *, dims: int = 2) -> Any:
    agree = dims > 0 and a.shape[a.ndim - dims :] == b.shape[:dims]  # torch broadcasts extents of 1
    return torch.tensordot(a, b, dims=dims) if agree else NotImplemented


def _distinct(kind: Any, option: str) -> Function:
    def distinct(x: Any, /) -> Any:
        if x.dtype not in _FLOATS or x.requires_grad:
            return NotImplemented
        return kind(*torch.unique(x, **{option: True}))

    return distinct


def _joined(function: Function) -> Function:
    def join(arrays: Any, /, axis: int = 0) -> Any:
        dtype, ndim = arrays[0].dtype, arrays[0].ndim
        same = all(a.dtype is dtype and a.ndim == ndim and a.numel() for a in arrays)
        return function(arrays, axis) if same and type(axis) is int else NotImplemented

    return join


def _flip(x: Any, axis: int | None = None) -> Any:
    return torch.flip(x, tuple(range(x.ndim)) if axis is None else (axis,)) if x.ndim else NotImplemented


def _squeeze(x: Any, axis: Any) -> Any:
    return torch.squeeze(x, axis) if x.shape[axis] == 1 else NotImplemented


def _broadcast_to(x: Any, shape: Any) -> Any:
    return torch.broadcast_to(x, shape) if -1 not in shape else NotImplemented


def _matrix_transpose(x: Any, /) -> Any:
    return x.mT if x.ndim > 1 else NotImplemented


_ROWS: Final[dict[str, Function]] = {
    "sum": _floats(torch.sum), "max": _floats(torch.amax), "min": _floats(torch.amin), "mean": _floats(torch.mean),
    "var": _moment(torch.var), "std": _moment(torch.std), "any": _floats(torch.any), "all": _floats(torch.all),
    "diff": _floats(torch.diff), "round": _floats(torch.round), "isin": _floats(torch.isin),
    "copysign": _floats(torch.copysign), "nextafter": _floats(torch.nextafter),
    "unique_counts": _distinct(UniqueCounts, "return_counts"),
    "unique_inverse": _distinct(UniqueInverse, "return_inverse"),
    "concat": _joined(torch.cat), "stack": _joined(torch.stack),
    "expand_dims": _arranged(torch.unsqueeze), "squeeze": _arranged(_squeeze), "reshape": _arranged(torch.reshape),
    "broadcast_to": _arranged(_broadcast_to), "permute_dims": _arranged(torch.permute), "flip": _arranged(_flip),
    "moveaxis": _arranged(torch.movedim), "unstack": _arranged(torch.unbind), "tril": _arranged(torch.tril),
    "triu": _arranged(torch.triu), "roll": _arranged(torch.roll),
    "broadcast_arrays": lambda *arrays: torch.broadcast_tensors(*arrays),
    "linalg.diagonal": _arranged(lambda x, offset=0: torch.diagonal_copy(x, offset, -2, -1)),
    **dict.fromkeys(("matrix_transpose", "linalg.matrix_transpose"), _matrix_transpose),
    **dict.fromkeys(("vecdot", "linalg.vecdot"), _floats(_vecdot)),
    **dict.fromkeys(("tensordot", "linalg.tensordot"), _floats(_tensordot)),
    **{f"linalg.{name}": _floats(getattr(torch.linalg, name)) for name in ("pinv", "matrix_norm", "vector_norm")},
    **{f"linalg.{name}": _floats(getattr(torch, name)) for name in ("outer", "matmul", "trace")},
    **{f"fft.{name}": _arranged(getattr(torch.fft, name)) for name in ("fftshift", "ifftshift")},
}
