"""torch's samples of operators with gradients, as functions of the tensors by which they are differentiated."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from surface.op_db import as_user_code
from torch.testing._internal.common_methods_invocations import op_db, wrapper_set_seed


class Case(NamedTuple):
    """A sample as a function of the tensors by which it is differentiated; `draws` random numbers or not."""

    name: str
    function: Callable[..., Any]
    leaves: tuple[torch.Tensor, ...]
    draws: bool


def cases(samples: int, only: Sequence[str] = (), *, every: int = 1, first: int = 0) -> Iterator[Case]:
    """Yield the samples of operators with float64 autograd: of one in `every`."""
    for op in op_db[first::every]:
        if not op.supports_autograd or torch.float64 not in op.supported_dtypes("cpu"):
            continue
        if only and op.name not in only:
            continue
        torch.manual_seed(0)
        for count, sample in enumerate(op.sample_inputs("cpu", torch.float64, requires_grad=True)):
            if count == samples:
                break
            case = _case(op, sample)
            if case is not None:
                yield case


def _case(op: Any, sample: Any) -> Case | None:
    leaves: list[torch.Tensor] = []
    whole = _detached((sample.input, sample.args, sample.kwargs), leaves)
    if not leaves:
        return None
    called, wrapped, finished = (as_user_code(function, {wrapper_set_seed: _unseeded}) for function in (
        op.op, op.gradcheck_wrapper, sample.output_process_fn_grad))  # the second makes matrices Hermitian

    def function(*given: Any) -> Any:
        first, args, kwargs = _filled(whole, given)
        found = finished(wrapped(called, first, *args, **kwargs))
        parts = found if isinstance(found, (tuple, list)) else (found,)
        return tuple([p for p in parts if p is not None and (p.is_floating_point() or p.is_complex())])

    return Case(op.name, function, tuple(leaves), _draws(function, leaves))


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an operator; the seeds of torch's tests mean nothing to other generators."""
    return op(*args, **kwargs)


def _draws(function: Callable[..., Any], leaves: Sequence[torch.Tensor]) -> bool:
    before = torch.get_rng_state()
    with contextlib.suppress(Exception):  # which torch raises again where it is judged
        function(*(leaf.clone() for leaf in leaves))
    return not torch.equal(torch.get_rng_state(), before)


class Hole(NamedTuple):
    """The place of a leaf in the arguments."""

    number: int


def _detached(value: Any, leaves: list[torch.Tensor]) -> Any:
    """Return arguments with holes in place of the tensors that need gradients, which are collected."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            leaves.append(value.detach())
            return Hole(len(leaves) - 1)
        return value
    if type(value) in (list, tuple):
        return type(value)([_detached(v, leaves) for v in value])
    if type(value) is dict:
        return {k: _detached(v, leaves) for k, v in value.items()}
    return value


def _filled(value: Any, given: Any) -> Any:
    if type(value) is Hole:
        return given[value.number]
    if type(value) in (list, tuple):
        return type(value)([_filled(v, given) for v in value])
    if type(value) is dict:
        return {k: _filled(v, given) for k, v in value.items()}
    return value
