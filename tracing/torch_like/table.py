"""The look-up from torch's functions and methods to those over traced tensors.

Owns the table of names, the look-up by torch's own function objects, and the error for a function without an entry. A
name is that of a function of torch, torch.nn.functional and torch.special, and of a method; a dotted name is that of a
function in a module of torch.
"""
from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.promotion import narrowed, require_float

Function = Callable[..., Any]
FUNCTIONS: Final[dict[str, Function]] = {}
METHODS: Final[dict[str, Function]] = {}
"""Methods of tensors without a function of their name, or that differ from it."""
_MODULES: Final = ("elementwise", "arithmetic", "choices", "reductions", "ordering", "shapes", "joins", "indexing",
                   "products", "activations", "networks", "losses", "convolutions", "poolings", "resizing", "casts",
                   "attention", "recurrent", "fourier", "data_dependent", "in_place", "mathematics", "assembly",
                   "matrices",
                   "margins")


def implements(*names: str) -> Callable[[Function], Function]:
    """Register a function over traced tensors under names of torch's."""
    def register(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


def of_floats(*names: str) -> Callable[[Function], Function]:
    """Register a function whose first tensor is floating, and whose result has that tensor's dtype.

    16-bit floats are computed in float32 or float64. Integer tensors raise DTypeError, as in most torch functions.
    """
    def register(function: Function) -> Function:
        @functools.wraps(function)
        def call(input: Any, *args: Any, **kwargs: Any) -> Any:
            require_float(names[0], input)
            return narrowed(function(input, *args, **kwargs), input)

        for name in names:
            FUNCTIONS[name] = call
        return call

    return register


def method(*names: str) -> Callable[[Function], Function]:
    """Register a method of tensors."""
    def register(function: Function) -> Function:
        for name in names:
            METHODS[name] = function
        return function

    return register


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
            if callable(original):
                found.setdefault(original, function)
    for name, function in METHODS.items():
        original = getattr(torch.Tensor, name, None)
        if original is not None and callable(original):
            found[original] = function
    return found


def carry_out(func: Any, args: Any, kwargs: Any) -> Any:
    """Carry out one of torch's functions over traced tensors; raises UnsupportedError for those without an entry."""
    function = by_object().get(func)
    if function is None:
        name = getattr(func, "__name__", str(func))
        inplace = name[:-1] if name.endswith("_") and not name.endswith("__") else None
        if inplace in FUNCTIONS and args:
            return getattr(args[0], name)(*args[1:], **kwargs)
        raise missing(name)
    return function(*args, **kwargs)


def missing(name: str, what: str = "torch") -> UnsupportedError:
    """Return the error for a function or method of torch's without an entry."""
    import difflib  # only errors need it

    loaded()
    close = difflib.get_close_matches(name, sorted({*FUNCTIONS, *METHODS}), n=3, cutoff=0.75)
    hint = f"Close to it and available: {', '.join(close)}." if close else (
        "Compute it outside the fused function, or write it with the functions in docs/torch.md.")
    return UnsupportedError(f"{what}.{name} is not available inside a fused function, at {user_line()}. {hint}")
