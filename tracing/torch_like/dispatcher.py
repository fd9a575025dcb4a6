"""torch's dispatcher over traced tensors: what torch's own functions leave to do once they have run.

A function without an entry in `jitfuse.tracing.torch_like.table` is torch's own. Its Python and C++ run on traced
tensors, which are tensors without memory, and each ATen operator that it comes to arrives here: after torch's
composite functions, its promotion of arguments and autocast. An operator is lowered by the entry of its name, else by
torch's decomposition into others, else torch itself computes it at a graph break.

Owns the way from an operator to its lowering, and the mode that sees operators over real tensors alone. Does not own
lowerings (`jitfuse.tracing.torch_like.lowerings` and the other modules of functions).
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jitfuse.errors import JitfuseError, UnsupportedError, VolatileError
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.value_reads import may_break
from jitfuse.tracing.tensor.traced import TracedTensor, plain
from jitfuse.tracing.torch_like import library_calls, table
from jitfuse.tracing.torch_like.promotion import assign, operand
from jitfuse.tracing.torch_like.real_tensors import known, run_of_trace

Function = Callable[..., Any]
LOWERINGS: Final[dict[str, Function]] = {}
"""ATen operators whose arguments are not those of torch's function of the name; with an overload or without."""
lowers: Final = table.registering(LOWERINGS)
_PREFIXES: Final = {"linalg_": torch.linalg, "special_": torch.special, "fft_": torch.fft}

_OF_NUMPY: Final = {"axis": "dim", "keepdims": "keepdim"}
"""NumPy's names of parameters, which torch takes too."""

_KNOWN: Final = frozenset({
    type(None), bool, int, float, complex, str, slice, type(...), torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Size})
"""Types of arguments that torch's own code may get beside tensors: none of them runs code of others."""


# ---------------------------------------------------------------- a function of torch's
def carry_out(func: Any, args: Any, kwargs: Any) -> Any:
    """Carry out one of torch's functions over traced tensors: by its entry, else by torch's own code over operators."""
    if isinstance(func, torch._ops.OpOverload):
        return lower(func, tuple(map(settled, args)), {name: settled(value) for name, value in kwargs.items()})
    return or_torch(table.by_object().get(func), func, args, kwargs)


def or_torch(function: Function | None, original: Function, args: Any, kwargs: Any) -> Any:
    """Carry out a function over traced tensors; where it lacks an option, by torch's own code."""
    ways = [] if function is None else [function]
    if is_composed(original):
        ways.append(functools.partial(through, original))
    return _by_first(ways, original, args, kwargs)


def _by_first(ways: Iterable[Function], original: Function, args: Any, kwargs: Any) -> Any:
    """Return what the first way gives that has all options, written into `out=`; else what torch itself does."""
    out = kwargs.get("out")
    options = {_OF_NUMPY.get(name, name): value for name, value in kwargs.items() if name != "out"}
    error: Exception | None = None
    for way in ways:
        try:
            made = way(*args, **options)
        except Exception as raised:
            if isinstance(raised, JitfuseError) and not isinstance(raised, UnsupportedError):
                raise
            error = error or raised
        else:
            return made if out is None else _written(out, made)
    return by_torch(original, args, kwargs, error or missing(library_calls.name_of(original)))


def _written(out: Any, made: Any) -> Any:
    """Write results into the tensors that `out=` gives."""
    if isinstance(out, tuple | list):
        return type(made)([_written(*pair) for pair in zip(out, made, strict=True)])
    if not isinstance(out, Foreign):
        raise VolatileError(f"out= is a tensor that no argument, name or attribute leads to, at {user_line()}: Python "
                            "runs in every call.")
    return assign(out, made, "out")


def by_torch(original: Function, args: Any, kwargs: Any, error: Exception) -> Any:
    """Call torch itself at a graph break; raises the error where there can be none."""
    if not may_break(run_of_trace()):
        raise error
    return table.wrap(library_calls.call(original, tuple(args), kwargs))


def missing(name: str) -> UnsupportedError:
    """Return the error for a function or method of torch's without an entry."""
    import difflib  # only errors need it

    table.loaded()
    close = difflib.get_close_matches(
        name.rpartition(".")[2], sorted({*table.FUNCTIONS, *table.METHODS}), n=3, cutoff=0.75)
    hint = f"Close to it and available: {', '.join(close)}." if close else (
        "Compute it outside the fused function, or write it with the functions in docs/torch.md.")
    return UnsupportedError(f"{name} is not available inside a fused function, at {user_line()}. {hint}")


# ---------------------------------------------------------------- through torch's own code
class _Everything(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed
    """Hands over operators over real tensors alone too: factories, draws, and writes into buffers."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return lower(func, args, kwargs or {})


def through(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Run one of torch's functions on traced tensors; raises UnsupportedError for a result that is no tensor."""
    found = _composed(function, *map(settled, args), **{name: settled(value) for name, value in kwargs.items()})
    return _traced(found, function)


def is_composed(function: Function) -> bool:
    """Tell whether a function comes to the dispatcher, and does nothing else: torch's operators, and Python over them.

    What reads memory or changes a tensor's own state (`data_ptr`, `storage`, `share_memory_`) does not.
    """
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return getattr(function, "__self__", None) in (torch.Tensor.H, torch.Tensor.mH)
    module = getattr(function, "__module__", None) or ""
    if inspect.isfunction(function) and module.startswith(("torch.nn.functional", "torch.functional")):
        return True
    return not name.startswith("__") and any(
        hasattr(torch.ops.aten, prefix + name) for prefix in ("", *_PREFIXES))


def settled(value: Any) -> Any:
    """Return an argument with sizes that torch can read: those of a masked selection are read from its mask."""
    if isinstance(value, Foreign):
        shape = value.tensor.shape  # of a masked selection: a graph break
        with torch._C.DisableTorchFunctionSubclass():
            return value if torch.Tensor.size(value) == shape else table.wrap(value.tensor[...])
    if isinstance(value, TracedTensor):
        return plain(value)  # a Python number, which torch reads: a guard
    if type(value) in (list, tuple):
        return type(value)(map(settled, value))
    if type(value) in _KNOWN or type(value) in (torch.Tensor, torch.nn.Parameter):
        return value
    raise UnsupportedError(f"torch's function gets a {type(value).__qualname__} at {user_line()}, which may run code")


def _traced(value: Any, function: Function) -> Any:
    """Return a result with real tensors in it as traced ones."""
    if isinstance(value, Foreign) or value is None:
        return value
    if isinstance(value, torch.Tensor):
        return table.wrap(operand(value))
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return type(value)([_traced(part, function) for part in value])
    raise UnsupportedError(f"{library_calls.name_of(function)} returns a {type(value).__name__} of a traced tensor, at "
                           f"{user_line()}")


# ---------------------------------------------------------------- from an operator to its lowering
def lower(op: Any, args: Any, kwargs: Any) -> Any:
    """Carry out an ATen operator: by its entry, by torch's decomposition into others, or by torch itself."""
    return _by_first(_ways(op), op, args, kwargs)


@functools.cache
def _ways(op: Any) -> tuple[Function, ...]:
    """Return the ways to carry out an operator, the best first."""
    table.loaded()
    name = op._schema.name.removeprefix("aten::")
    lowering = LOWERINGS.get(f"{name}.{op._overloadname}") or LOWERINGS.get(name)
    own = lowering or _of_name(name)
    found = [] if own is None else [own]
    if op._schema.is_mutable:
        base = getattr(getattr(torch.ops.aten, name[:-1], None), op._overloadname, None)
        if base is not None and name.endswith("_") and torch.Tag.inplace_view not in op.tags:  # its memory stays
            found.append(functools.partial(_in_place, base, name[:-1]))
        return (*found, functools.partial(_refused, op))
    if lowering is not None:  # what it refuses is torch's
        return (lowering,)
    composed = torch._decomp.decomposition_table.get(op)
    if composed is not None and not (op.is_view and torch.Tag.core in op.tags):  # such views come back as they are
        found.append(functools.partial(_composed, composed))
    if op._can_decompose():
        found.append(functools.partial(_composed, op.decompose))
    return tuple(found)


def _of_name(name: str) -> Function | None:
    """Return the entry of the function of torch's that has an operator's arguments: a built-in one or a method."""
    prefixed = [(holder, name.removeprefix(prefix)) for prefix, holder in _PREFIXES.items() if name.startswith(prefix)]
    for holder, called in (*prefixed, (torch, name), (torch._C._nn, name), (torch.Tensor, name)):
        original = getattr(holder, called, None)
        if (inspect.isbuiltin(original) or inspect.ismethoddescriptor(original)) and original in table.by_object():
            return table.by_object()[original]
    return None


def _composed(function: Function, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass(), _Everything():
        found = function(*args, **kwargs)
    if found is NotImplemented:
        raise UnsupportedError(f"torch has no decomposition of {library_calls.name_of(function)}, at {user_line()}")
    return found


def _refused(op: Any, *args: Any, **kwargs: Any) -> Any:
    raise library_calls.refusal(library_calls.name_of(op), "writes into its arguments")


def _in_place(op: Any, name: str, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Write the result of an operator into its first argument, a buffer of a module too."""
    made = lower(op, (target, *args), kwargs)
    if isinstance(target, Foreign):
        return assign(target, made, name)
    kept = known(target)
    if kept is None:
        raise VolatileError(f"Tensor.{name}_ writes into a tensor that no argument, name or attribute leads to, at "
                            f"{user_line()}: Python runs in every call.")
    assign(table.wrap(kept), made, name)
    return target
