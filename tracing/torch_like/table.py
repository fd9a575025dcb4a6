"""The look-up from torch's functions and methods to those over traced tensors.

Owns the table of names, the look-up by torch's own function objects, and the error for a function without an entry. A
name is that of a function of torch, torch.nn.functional and torch.special, and of a method; a dotted name is that of a
function in a module of torch.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.dtypes import is_narrow
from jitfuse.tracing.torch_like.promotion import cast, narrowed, operand, require_float

Function = Callable[..., Any]
wrap: Any = None
"""`jitfuse.tracing.torch_like.tensor.wrap`, handed in: tensors look up their methods here, so they stand above."""
FUNCTIONS: Final[dict[str, Function]] = {}
METHODS: Final[dict[str, Function]] = {}
"""Methods of tensors without a function of their name, or that differ from it."""
PURE: Final = frozenset({
    "Size", "Tensor", "broadcast_shapes", "can_cast", "device", "dtype", "enable_grad", "finfo", "get_default_dtype",
    "iinfo", "inference_mode", "is_autocast_enabled", "is_complex", "is_floating_point", "is_grad_enabled",
    "is_storage", "is_tensor", "layout", "memory_format", "no_grad", "numel", "promote_types", "result_type",
})
"""torch's functions without an entry, and its classes, that depend on their arguments alone."""
_MODULES: Final = ("elementwise", "arithmetic", "reductions", "ordering", "shapes", "joins", "indexing", "products",
                   "factorisations", "networks", "embeddings", "losses", "convolutions", "poolings", "resizing",
                   "casts", "recurrent", "fourier", "data_dependent", "lowerings")


def registering(entries: dict[str, Function]) -> Callable[..., Callable[[Function], Function]]:
    """Return a decorator that enters a function under names."""
    def named(*names: str) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            entries.update(dict.fromkeys(names, function))
            return function

        return register

    return named


implements: Final = registering(FUNCTIONS)
method: Final = registering(METHODS)


def of_floats(*names: str) -> Callable[[Function], Function]:
    """Register a function whose first tensor is floating, and whose result has that tensor's dtype.

    16-bit floats are computed in float32. Integer tensors raise DTypeError, as in most torch functions.
    """
    def register(function: Function) -> Function:
        computed = in_float32(function)

        @functools.wraps(function)
        def call(input: Any, *args: Any, **kwargs: Any) -> Any:
            require_float(names[0], input)
            return computed(input, *args, **kwargs)

        return implements(*names)(call)

    return register


def in_float32(function: Function) -> Function:
    """Return a function that takes 16-bit floats as float32, and rounds its result: torch rounds no step between."""
    @functools.wraps(function)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_narrow(str(operand(input).dtype)):
            return function(input, *args, **kwargs)
        wide, *others = (_widened(value) for value in (input, *args))
        return narrowed(function(wide, *others, **{name: _widened(v) for name, v in kwargs.items()}), input)

    return call


def _widened(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_widened, value))
    if not isinstance(value, torch.Tensor) or not is_narrow(str(operand(value).dtype)):
        return value
    return wrap(cast(operand(value), "float32"))


@functools.cache
def loaded() -> None:
    """Import every module of functions."""
    for name in _MODULES:
        importlib.import_module(f"jitfuse.tracing.torch_like.{name}")


@functools.cache
def by_object() -> dict[Any, Function]:
    """Return a dict from torch's function objects to the functions here."""
    loaded()
    found: dict[Any, Function] = {}
    holders = (torch, torch.nn.functional, torch.special, torch.Tensor)
    for name, function in FUNCTIONS.items():
        for holder in holders:
            try:
                original = operator.attrgetter(name)(holder)
            except AttributeError:
                continue
            if callable(original) and not (holder is torch and _differs(name, original)):
                found.setdefault(original, function)
    for name, function in METHODS.items():
        original = getattr(torch.Tensor, name, None)
        if original is not None and callable(original):
            found[original] = function
    return found


def _differs(name: str, original: Any) -> bool:
    """Tell whether torch's function takes other arguments than torch.nn.functional's, which has the entry."""
    other = getattr(torch.nn.functional, name, None)
    if not isinstance(other, types.FunctionType) or other is original or not isinstance(
            original, types.BuiltinFunctionType):
        return False
    packet = getattr(torch.ops.aten, name, None)
    named = list(inspect.signature(other).parameters)
    return packet is not None and all(
        [a.name for a in getattr(packet, overload)._schema.arguments][1:] != named[1 : len(
            getattr(packet, overload)._schema.arguments)] for overload in packet.overloads())


@functools.cache
def without_entry() -> frozenset[Any]:
    """Return torch's functions over tensors that have no function here: the built-in ones, which dispatch."""
    return frozenset(
        value for holder in (torch, torch.linalg, torch.special, torch.fft, torch.nn.functional)
        for name, value in vars(holder).items()
        if isinstance(value, types.BuiltinFunctionType) and name not in PURE and not name.startswith("has_torch") and (
            not name.startswith("_") or hasattr(torch.ops.aten, name))
    ) - by_object().keys()
