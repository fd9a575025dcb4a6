"""torch's dtypes and promotion over traced tensors: `torch.result_type`, and operators in the promoted dtype.

A tensor with axes wins over a tensor of rank 0 of the same category, and both win over Python numbers. Arithmetic of
16-bit floats with a Python number takes the number in float32, as torch's kernels do.
"""
from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import torch

from jitfuse.base.later import Later
from jitfuse.dtypes import is_narrow, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.tracing.record.foreign import Foreign, bare
from jitfuse.tracing.record.layout import torch_order
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, plain
from jitfuse.tracing.torch_like.real_tensors import met, run_of_trace

derivatives = Later("jitfuse.tracing.control.own_derivatives")

NAMES: Final[dict[Any, str]] = {
    torch.bool: "bool", torch.uint8: "uint8", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32",
    torch.int64: "int64", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32",
    torch.float64: "float64", torch.complex64: "complex64", torch.complex128: "complex128",
    **{getattr(torch, n): n for n in ("uint16", "uint32", "uint64") if hasattr(torch, n)},
}
"""torch's dtypes and their names in programs."""
TORCH: Final[dict[str, Any]] = {name: dtype for dtype, name in NAMES.items()}
_CATEGORY: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}


def dtype_named(dtype: Any) -> str:
    """Return the name of a dtype given as torch's, NumPy's or by name; raises DTypeError for others."""
    if dtype in NAMES:
        return NAMES[dtype]
    if isinstance(dtype, type) and dtype in (float, int, bool, complex):  # NumPy's dtypes equal some of these
        return {float: default_float(), int: "int64", bool: "bool", complex: default_complex()}[dtype]
    name = str(np.dtype(str(dtype)))
    if name not in TORCH:
        raise DTypeError(f"torch has no dtype {dtype}, at {user_line()}")
    return name


def default_float() -> str:
    """Return the name of torch's default dtype."""
    return NAMES[torch.get_default_dtype()]


def default_complex() -> str:
    """Return the name of the complex dtype for torch's default dtype."""
    return "complex128" if default_float() == "float64" else "complex64"


@functools.lru_cache(maxsize=1024)
def _promoted(a: str, b: str) -> str:
    return NAMES[torch.promote_types(TORCH[a], TORCH[b])]


def _joined(names: list[str]) -> str | None:
    return functools.reduce(_promoted, names) if names else None


def _combined(higher: str | None, lower: str | None) -> str | None:
    """Return the dtype of a stronger and a weaker kind of operand; the weaker one only raises the category."""
    if higher is None or lower is None:
        return higher or lower
    if _CATEGORY[kind(lower)] <= _CATEGORY[kind(higher)]:
        return higher
    if kind(lower) == "complex" and kind(higher) == "float":
        return "complex128" if higher == "float64" else "complex64"
    return _promoted(higher, lower) if higher == "bool" or kind(lower) in ("float", "complex") else higher


def result_dtype(tensors: list[Tensor]) -> str:
    """Return the common dtype of operands; weak ones are Python numbers."""
    kinds = tuple([(t._meta.dtype, t._meta.weak, not t._meta.shape) if type(t) is TracedTensor else
                   (str(t.dtype), t.weak, not t.ndim) for t in tensors])
    return _common_dtype(kinds, torch.get_default_dtype())


@functools.lru_cache(maxsize=1024)
def _common_dtype(kinds: tuple[tuple[str, bool, bool], ...], default: Any) -> str:
    """Return the common dtype of (dtype, whether a Python number, whether of rank 0), for a default dtype of torch."""
    with_axes = [dtype for dtype, weak, scalar in kinds if not weak and not scalar]
    scalars = [dtype for dtype, weak, scalar in kinds if not weak and scalar]
    numbers = [{"float": default_float(), "complex": default_complex()}.get(kind(dtype), dtype)
               for dtype, weak, _ in kinds if weak]
    found = _combined(_joined(with_axes), _combined(_joined(scalars), _joined(numbers)))
    assert found is not None
    return found


# ---------------------------------------------------------------- operands and results
def operand(value: Any) -> Tensor:
    """Return a tensor, number, array or real torch tensor as a traced tensor."""
    if type(value) is TracedTensor:
        return value
    if isinstance(value, Foreign):
        return value.tensor
    if isinstance(value, torch.Tensor):
        return met(value)
    return lift(run_of_trace(), value)


def strong(value: Any) -> Tensor:
    """Return an operand; a number gets the dtype that torch gives it."""
    t = operand(value)
    return t.call("astype", dtype=result_dtype([t])) if t.weak else t


def cast(t: Tensor, dtype: str) -> Tensor:
    """Return a traced tensor in a dtype, or itself if it has it."""
    if str(t.dtype) == dtype and not t.weak:
        return t
    return t.call("astype", dtype=dtype)


def floating(value: Any) -> Tensor:
    """Return an operand in a floating dtype; integers and bools become torch's default dtype."""
    t = strong(value)
    return t if kind(str(t.dtype)) in ("float", "complex") else cast(t, default_float())


def in_common(op_name: str, *values: Any, dtype: str | None = None, to_float: bool = False) -> Tensor:
    """Carry out an operator in the common dtype of its operands, a floating one with `to_float`."""
    tensors = [operand(v) for v in values]
    common = dtype or result_dtype(tensors)
    if to_float and kind(common) not in ("float", "complex"):
        common = default_float()
    loop = "float32" if is_narrow(common) and any(t.weak for t in tensors) else common
    cast_ = [cast(t, loop) for t in tensors]
    result: Tensor = cast_[0].call(op_name, *cast_[1:])
    return cast(result, common) if loop != common and str(result.dtype) == loop else result


def require_float(name: str, value: Any) -> None:
    """Raise DTypeError for tensors of integers and bools."""
    t = operand(value)
    if not t.weak and kind(str(t.dtype)) not in ("float", "complex"):
        raise DTypeError(f"{name} is not implemented for {t.dtype}, at {user_line()}. Cast with x.float().")


def require_cpu(device: Any) -> None:
    """Raise ArgumentError for devices other than the CPU."""
    if device is not None and torch.device(device).type != "cpu":
        raise ArgumentError(f"a tensor on {device}: fused functions of torch tensors run on the CPU, at {user_line()}")


def narrowed(result: Any, like: Any) -> Any:
    """Round wider float results to the dtype of a tensor of 16-bit floats; return any other as it is."""
    dtype = str(operand(like).dtype)
    if isinstance(result, tuple):
        return type(result)([narrowed(part, like) for part in result])
    wide = isinstance(result, Foreign) and str(result.tensor.dtype) in ("float32", "float64")
    if not is_narrow(dtype) or not wide:
        return result
    return type(result)(cast(result.tensor, dtype))


def memory(t: Tensor) -> Tensor:
    """Return a result as a writable array: torch has no immutable scalars."""
    return fresh(t._run, t._id(), scalar=False) if t._scalar or t.weak else t


def kept_order(t: Tensor, like: Tensor) -> Tensor:
    """Return a new tensor with its axes in memory in the order of another of its shape (torch.preserve_format)."""
    if type(like) is TracedTensor and like._lazy_layout is not None:
        t.laid_out(torch_order(like.shape, [(like.shape, like._where())]))
    return t


def numbers(value: Any) -> Any:
    """Replace traced numbers in a tree by their values, which become guards."""
    value = bare(value)
    if isinstance(value, list | tuple):
        return tuple(numbers(v) for v in value)
    return plain(value)


def assign(target: Foreign, result: Any, name: str) -> Foreign:
    """Write a result into a tensor as torch's in-place methods do; raises DTypeError and ShapeError."""
    new = operand(result)
    own, other = str(target.tensor.dtype), str(new.dtype)
    order = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}
    if not new.weak and order[kind(other)] > order[kind(own)]:
        raise DTypeError(f"{name}_: result type {TORCH[other]} can't be cast to the desired output type {TORCH[own]}, "
                         f"at {user_line()}")
    if not new.weak and new.shape != target.tensor.shape:
        raise ShapeError(f"{name}_: output with shape {target.tensor.shape} doesn't match the broadcast shape "
                         f"{new.shape}, at {user_line()}")
    run = run_of_trace()
    if run.differentiated and not run.has_gradients() and kind(own) in ("float", "complex"):  # its graph stays
        new = derivatives.custom(run, "custom_jvp", cast(new, own), [target.tensor], "leaves", lambda changes: changes)
    target.tensor._assign(cast(new, own))
    return target
