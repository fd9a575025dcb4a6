"""Replacements of torch's creation functions in a trace: they make traced tensors and take traced values.

torch does not dispatch `torch.zeros` or `torch.tensor` to traced tensors. Random tensors raise, because their numbers
would be the same in every call. Owns the list of these functions.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError, UntraceableError
from jitfuse.tracing.interception.known import opaque
from jitfuse.tracing.numpy_like import creation
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh
from jitfuse.tracing.torch_like import library_calls
from jitfuse.tracing.torch_like.dispatcher import carry_out, or_torch
from jitfuse.tracing.torch_like.promotion import (
    NAMES,
    TORCH,
    cast,
    default_complex,
    default_float,
    dtype_named,
    numbers,
    operand,
    require_cpu,
)
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.shapes import extents
from jitfuse.tracing.torch_like.table import by_object, without_entry
from jitfuse.tracing.torch_like.tensor import unwrap, wrap

_OF_NUMBERS: Final = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window",
                      "logspace", "tril_indices", "triu_indices")
_RANDOM: Final = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like",
                  "randn_like", "randint_like", "manual_seed", "poisson", "empty_permuted", "seed")


def _filled(shape: tuple[int, ...], value: Any, dtype: Any, device: Any) -> Any:
    require_cpu(device)
    name = default_float() if dtype is None else dtype_named(dtype)
    run = run_of_trace()
    if isinstance(value, Foreign | TracedTensor):
        return wrap(creation.full(shape, cast(operand(value), name), name))
    return wrap(fresh(run, run.fit(run.literal(value), shape, name), scalar=False))


def _of_value(value: float) -> Callable[..., Any]:
    def function(*size: Any, dtype: Any = None, device: Any = None, out: Any = None, **options: Any) -> Any:
        shape = extents(size or (options.pop("size"),))
        return _filled(shape, value, dtype, device)

    return function


zeros, ones = _of_value(0), _of_value(1)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a tensor filled with one value, in the value's dtype unless another is given."""
    if dtype is None:
        dtype = _dtype_of_number(kind(str(operand(fill_value).dtype)))
    return _filled(extents((size,)), fill_value, dtype, device)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return numbers, nested lists and traced values as a tensor: floats in torch's default dtype."""
    require_cpu(device)
    name = _dtype_of(data) if dtype is None else dtype_named(dtype)
    return wrap(cast(lift(run_of_trace(), unwrap(data)), name).as_copy())


def _dtype_of(data: Any) -> str:
    """Return the dtype that torch gives to a tensor of numbers, tensors and lists of these."""
    if isinstance(data, list | tuple):
        names = [TORCH[_dtype_of(item)] for item in data]
        return NAMES[functools.reduce(torch.promote_types, names)] if names else default_float()
    x = operand(data) if isinstance(data, Foreign) else data
    if isinstance(x, TracedTensor) and not x.weak:
        return str(x.dtype)
    if not isinstance(x, TracedTensor) and hasattr(x, "dtype"):
        return dtype_named(x.dtype)
    return _dtype_of_number(kind(str(x.dtype)) if isinstance(x, TracedTensor) else type(x).__name__)


def _dtype_of_number(of: str) -> str:
    """Return the dtype that torch gives to a Python number of a kind."""
    return {"bool": "bool", "float": default_float(), "complex": default_complex()}.get(of, "int64")


def as_tensor(data: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a tensor itself, and anything else as a tensor."""
    if isinstance(data, Foreign):
        return wrap(data.tensor) if dtype is None else wrap(cast(data.tensor, dtype_named(dtype)))
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: Any) -> Any:
    """Return a traced array as torch's tensor."""
    return wrap(operand(array))


def arange(*bounds: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return start, start + step, ... below end: int64 for integers, else torch's default dtype."""
    require_cpu(device)
    given = [numbers(v) for v in bounds]
    given += [numbers(options[k]) for k in ("start", "end", "step")[len(given) :] if k in options]
    whole = all(isinstance(v, int) for v in given)
    start, end, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    if step == 0 or (end - start) * step < 0:
        raise ArgumentError(f"arange: from {start} to {end} by {step}: the step must be nonzero, and lead from the "
                            f"first bound to the second, at {user_line()}")
    name = dtype_named(dtype) if dtype is not None else "int64" if whole else default_float()
    if is_integer(name) and not whole:
        raise UnsupportedError(f"arange of {name} from floats is not available, at {user_line()}. Pass integers.")
    made = creation.arange(*given, dtype="int64" if whole else "float64")
    return wrap(cast(made, name))


def linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return evenly spaced numbers from start to end."""
    require_cpu(device)
    name = dtype_named(dtype) if dtype is not None else default_float()
    made = creation.linspace(unwrap(start), unwrap(end), int(numbers(steps)))
    return wrap(cast(made.call("trunc") if is_integer(name) else made, name))


def eye(n: Any, m: Any = None, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return ones on the diagonal."""
    require_cpu(device)
    name = dtype_named(dtype) if dtype is not None else default_float()
    if int(numbers(n)) < 0 or (m is not None and int(numbers(m)) < 0):
        raise ShapeError(f"eye: n and m must be greater or equal to 0, at {user_line()}")
    return wrap(creation.eye(int(numbers(n)), None if m is None else int(numbers(m)), dtype=name))


def _raising(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise UntraceableError(
            f"torch.{name} is called inside a fused function, at {user_line()}. Its numbers would be the same in every "
            "call. Draw outside and pass the numbers as an argument, or use dropout, which draws anew."
        )

    return function


def _dispatched(original: Any, here: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of torch's function that also traces real tensors and numbers among its operands."""
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return or_torch(here, original, args, kwargs)

    return function


def _by_torch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands in a trace for one of torch's functions over tensors without operators."""
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if next(library_calls.tensors_in([args, kwargs]), None) is None:
            raise opaque(original)  # it may set something
        return carry_out(original, args, kwargs)

    return function


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers that makes a constant by torch's own; the values of traced numbers are guards."""
    def made(*args: Any, **kwargs: Any) -> Any:
        constant = function(*map(numbers, args), **{name: numbers(value) for name, value in kwargs.items()})
        return wrap(operand(constant).as_copy())

    return made


_MAKERS: Final[dict[Any, Callable[..., Any]]] = {
    torch.zeros: zeros, torch.empty: zeros, torch.ones: ones, torch.full: full, torch.tensor: tensor,
    torch.as_tensor: as_tensor, torch.asarray: as_tensor, torch.from_numpy: from_numpy, torch.arange: arange,
    torch.linspace: linspace, torch.eye: eye,
}


def replacements() -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield (torch's function, its replacement in a trace)."""
    own = dict(_own_replacements())
    yield from own.items()
    for original in without_entry() - own.keys():
        yield original, _by_torch(original)


def _own_replacements() -> Iterator[tuple[Any, Callable[..., Any]]]:
    yield from _MAKERS.items()
    for name in _OF_NUMBERS:
        yield getattr(torch, name), _of_numbers(getattr(torch, name))
    for name in _RANDOM:
        if hasattr(torch, name):
            yield getattr(torch, name), _raising(name)
    for original, here in by_object().items():
        if getattr(original, "__objclass__", None) is None:  # traced tensors have the methods themselves
            yield original, _dispatched(original, here)

