"""Calls of torch's functions that have no operators: a graph break, at which torch itself gets real tensors.

Such a call must leave everything as it was. When it is first made, torch's dispatcher shows whether it writes into what
it is given or draws random numbers, and the generator and the bits of its tensors are compared. Results are tensors:
numbers and texts of a tensor (`data_ptr`, `stride`) are those of another one at the next call.

Owns what torch gets and returns. Does not own graph breaks at calls (`jitfuse.tracing.numpy_like.library_calls`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from jitfuse.errors import VolatileError
from jitfuse.tracing.numpy_like import library_calls
from jitfuse.tracing.record.foreign import Foreign, array_as_tensor, host_array, is_torch_constant
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.real_tensors import met

Back = Callable[[Any], Any]
"""Turns what a call at a graph break gets into what torch gets: an array into a tensor."""


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of torch's functions or methods; returns traced tensors, not yet as torch's.

    Raises VolatileError where Python has to run the traced function in every call.
    """
    name = name_of(function)
    if kwargs.get("out") is not None:
        raise refusal(name, "writes into its argument out=")
    given, backs = _handed(list(args))
    named, named_backs = _handed(dict(kwargs))
    known = False

    def real(*arrays: Any, **options: Any) -> Any:
        nonlocal known
        positional, by_name = backs(list(arrays)), named_backs(options)
        if known:
            return _as_arrays(function(*positional, **by_name), name)
        with _lazily_conjugating():
            found = _as_arrays(_Watched(function, name)(*positional, **by_name), name)
        known = True
        return found

    return library_calls.call(real, name, tuple(given), named, of_torch=True)


def name_of(function: Any) -> str:
    """Return the name of one of torch's functions, methods or operators, as users write it."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.{function.overloadpacket.__name__}"
    return resolve_name(function) or f"torch.{getattr(function, '__name__', function)}"


def refusal(name: str, what: str) -> VolatileError:
    """Return the error for a call that leaves something changed, by which Python runs in every call."""
    return VolatileError(f"{name} {what}, at {user_line()}: jitfuse does not see that, so that Python runs in every "
                         "call. Call it outside.")


# ---------------------------------------------------------------- arguments
def _handed(value: Any) -> tuple[Any, Back]:
    """Return an argument as `library_calls` takes it, with traced arrays for tensors, and the way back."""
    if isinstance(value, Foreign):
        return value.tensor, array_as_tensor
    if isinstance(value, torch.Tensor):
        return met(value), array_as_tensor
    if is_torch_constant(value) or isinstance(value, torch.layout | torch.memory_format):
        return repr(value), lambda _: value
    if type(value) is dict:
        items = {key: _handed(item) for key, item in value.items()}
        return {key: item for key, (item, _) in items.items()}, lambda real: {
            key: items[key][1](item) for key, item in real.items()}
    if type(value) in (list, tuple):
        parts = [_handed(item) for item in value]
        kind = type(value)
        return kind(item for item, _ in parts), lambda real: kind(
            back(item) for (_, back), item in zip(parts, real, strict=True))
    return value, lambda real: real


# ---------------------------------------------------------------- results
def _as_arrays(value: Any, name: str) -> Any:
    """Return a result with arrays in place of its tensors; raise VolatileError for one that holds anything else."""
    if type(value) is torch.Tensor and value.layout is torch.strided and value.device.type == "cpu" and not (
            value.requires_grad or value.is_conj() or value.is_neg()):
        return host_array(value)
    if value is None:
        return None
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return type(value)([_as_arrays(item, name) for item in value])
    raise refusal(name, f"returns a {type(value).__module__}.{type(value).__qualname__}, which is no plain tensor")


# ---------------------------------------------------------------- the first call
class _Watched(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed
    """Carries out a call; raises VolatileError if it writes into its tensors or draws."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__()
        self._function, self._name = function, name
        self._storages: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, for seconds

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = list(tensors_in((args, kwargs)))
        self._storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        before, state = [host_array(tensor).copy(order="K") for tensor in tensors], torch.get_rng_state()
        with self:
            found = self._function(*args, **kwargs)
        if not torch.equal(torch.get_rng_state(), state):
            torch.set_rng_state(state)
            raise refusal(self._name, "draws random numbers")
        for tensor, kept in zip(tensors, before, strict=True):
            now = host_array(tensor)
            if now.tobytes() != kept.tobytes():
                now[...] = kept
                raise refusal(self._name, "writes into its arguments")
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise refusal(self._name, "draws random numbers")
        schema = func._schema
        for argument, value in [*zip(schema.arguments, args, strict=False), *(
                (a, kwargs[a.name]) for a in schema.arguments if a.name in kwargs)]:
            if argument.alias_info is not None and argument.alias_info.is_write and any(
                    tensor.untyped_storage().data_ptr() in self._storages for tensor in tensors_in(value)):
                raise refusal(self._name, "writes into its arguments")
        with _lazily_conjugating():
            return func(*args, **kwargs)


def _lazily_conjugating() -> Any:
    """Return a context in which torch reads lazy conjugations and negations.

    Below its dispatcher's Python key, torch 2.13 leaves them out: pinv of complex matrices is wrong there.
    """
    left_out = torch._C._dispatch_tls_local_exclude_set()
    for key in (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative):
        left_out = left_out.remove(key)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), left_out)


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in lists, tuples and dicts, traced ones too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
