"""Real torch tensors in a trace: arguments, globals, attributes, and parameters of modules.

A tensor with an access path is a feed, read again in each call. An `nn.Module` of torch's or another library runs its
code unchanged, so its whole state is guarded: parameters and buffers become feeds, everything else is compared. What
that code writes into its buffers is recorded, and what it stores in the module is undone. For the user's own modules,
attributes are guarded as they are read. Owns nothing else.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.user_code import is_user_class
from jitfuse.tracing.record.foreign import Foreign, tensor_as_array
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.torch_like import dispatcher
from jitfuse.tracing.torch_like.real_tensors import known, tensor_of
from jitfuse.tracing.torch_like.tensor import TracedTorchTensor, as_parameter, unwrap, wrap

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_TENSORS: Final = ("_parameters", "_buffers")
_DERIVED: Final = ("_flat_weights", "_flat_weight_refs")
"""Lists of their parameters that recurrent layers make; they are rebuilt where parameters have been replaced."""


def wrapped_module(run: Recorder, feed: Any) -> TracedTorchTensor:
    """Return a feed's tensor as torch's, the same object each time in a trace."""
    found: TracedTorchTensor | None = run.wrapped_modules.get(feed.id)
    if found is None:
        found = run.wrapped_modules[feed.id] = TracedTorchTensor(tensor_of(run, feed))
    return found


def read(run: Recorder, chain: Chain, tensor: Any) -> TracedTorchTensor:
    """Return the proxy of a real tensor with an access path; raises ArgumentError where it needs gradients."""
    session = run.session
    entry = session.met.get(id(tensor))
    if entry is None:
        array = tensor_as_array(tensor, keeps_gradients=run.keeps_gradients)
        feed = session.array_feed(chain, str(chain), array)
        session.feed_of_array[id(tensor)] = feed.id
        entry = session.met[id(tensor)] = tensor, feed
    session.torch = True
    made = wrapped_module(run, entry[1])
    return as_parameter(made) if isinstance(tensor, torch.nn.Parameter) else made


def over_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of jitfuse's to take and return torch's tensors, as its function arguments do."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrap(function(*map(_bare, args), **{k: _bare(v) for k, v in kwargs.items()}))

    return call


def _bare(value: Any) -> Any:
    if not callable(value) or isinstance(value, Foreign | type):
        return unwrap(value)

    def inner(*args: Any, **kwargs: Any) -> Any:
        return unwrap(value(*map(wrap, args), **{k: wrap(v) for k, v in kwargs.items()}))

    return inner


def guard(view: Any, chain: Chain, module: Any) -> None:
    """Make a module's tensors feeds, and guard the rest of its state and its submodules."""
    user, library = is_user_class(type(module)), _runs_library_code(module)
    if library:
        view.hooks.at_end.append(functools.partial(_reject_stored, view, chain, module, _state(module)))
        if any(buffer is not None for buffer in module._buffers.values()):
            _OfFeeds.enter(view)
    for name, value in list(vars(module).items()):
        step = chain.attr(name)
        if name in _TENSORS or name == "_modules":
            view.guard(step, "KEYS", tuple(value))
            for key, part in list(value.items()):
                view.read(step.key(key), part)
        elif isinstance(value, dict) and name.endswith("hooks"):
            view.guard(step, "LEN", len(value))
        elif (user and not library) or name in _DERIVED:
            continue
        elif isinstance(value, torch.Tensor):
            view.read(step, value)
        elif isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(v, _PLAIN) for v in value)):
            view.guard_value(step, value)
        elif not user:
            view.guard(step, "IS", value)


def _runs_library_code(module: Any) -> bool:
    """Tell whether the module's class is a library's, or derives from one beyond `nn.Module`."""
    return any(c is not torch.nn.Module and issubclass(c, torch.nn.Module) and not is_user_class(c)
               for c in type(module).__mro__)


# ---------------------------------------------------------------- what a library's module writes
class _OfFeeds(TorchFunctionMode):  # type: ignore[misc]  # torch is not typed
    """Gives torch's functions the traced tensors of feeds: a library's module has the real ones, which it may write."""

    @classmethod
    def enter(cls, view: Any) -> None:
        """See torch's functions until the run ends."""
        if torch._C._len_torch_function_stack() and isinstance(torch.overrides._get_current_function_mode(), cls):
            return
        mode = cls()
        mode.__enter__()
        view.hooks.at_end.append(functools.partial(mode.leave, view))

    def leave(self, view: Any) -> None:
        """Undo `enter`."""
        if torch.overrides._get_current_function_mode() is not self:
            view.guard_log.volatile.append("a mode of torch's begins before a module is read, and ends after it")
        self.__exit__(None, None, None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen, named = tuple(map(_of_feed, args)), {name: _of_feed(value) for name, value in (kwargs or {}).items()}
        if not any(isinstance(value, Foreign) for value in _leaves((*seen, *named.values()))):
            return func(*args, **(kwargs or {}))
        if seen and isinstance(seen[0], Foreign):
            if func.__name__ == "__get__":
                return getattr(seen[0], func.__self__.__name__)
            if getattr(torch.Tensor, func.__name__, None) == func:
                return getattr(seen[0], func.__name__)(*seen[1:], **named)
        return dispatcher.carry_out(func, seen, named)


def _of_feed(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_of_feed, value))
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return value
    kept = known(value)
    return value if kept is None else wrap(kept)


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if type(value) in (list, tuple):
            yield from _leaves(value)
        else:
            yield value


def _state(module: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the dicts that hold a module's attributes and tensors, each with a copy."""
    return [(held, dict(held)) for held in (vars(module), *(vars(module)[name] for name in _TENSORS))]


def _reject_stored(view: Any, chain: Chain, module: Any, before: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Give back what torch's own code has replaced by a traced tensor in a module; such a call is not cached."""
    for held, kept in before:
        for name, value in list(held.items()):
            if isinstance(value, Foreign):
                held.pop(name)
                held.update({name: kept[name]} if name in kept else {})
                view.guard_log.volatile.append(
                    f"{chain} is a {type(module).__name__} whose own code sets its attribute {name!r}")
