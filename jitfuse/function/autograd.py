"""Calls with torch tensors that require gradients: a compiled forward pass, and a node of torch's autograd behind it.

The forward pass is a fused function of its own, which also returns the values that the backward pass needs; that is
another one. Both come of one program (`jitfuse.tracing.control.autograd`). Second derivatives are torch's own, from the
arguments. Functions that cannot be differentiated so run as torch's own. Owns the node and the choice. torch is
imported here: only its tensors lead here.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from jitfuse.base.records import Record
from jitfuse.errors import DerivativeError
from jitfuse.function.options import Options
from jitfuse.tracing.control.autograd import Backward, ForwardPass, Output, Outside, Spliced

if TYPE_CHECKING:
    from jitfuse.function.parts import Parts


class Gradients:
    """The forward and backward passes of one fused function, by which arguments require gradients."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._forward: dict[tuple[bool, ...], tuple[ForwardPass, Any]] = {}
        self._backward: dict[tuple[Backward, bool], Any] = {}
        self._reads_names = False

    def are_wanted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Tell whether a call has to be differentiable."""
        return torch.is_grad_enabled() and (
            self._reads_names or any(tensor.requires_grad for tensor in _tensors((args, kwargs))))

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call by results in torch's graph; raises JitfuseError where the function has no such passes."""
        given = tuple(_tensors((args, kwargs)))
        wanted = tuple([tensor.requires_grad for tensor in given])
        transform, forward = self._forward.get(wanted) or self._forward_pass(wanted)
        training = self._parts.definition.pop_mode(args, kwargs)[0]
        before, transform.given.tensors = transform.given.tensors, given
        try:
            with torch.no_grad():
                done = forward(*args, **kwargs)
        finally:
            transform.given.tensors = before
        if any(tensor.requires_grad for tensor in done.others):  # a parameter that was frozen in the trace
            self._forward.pop(wanted, None)
            return self.answer(args, kwargs)
        made = transform.backward(done.token, training)
        self._reads_names = self._reads_names or made.reads_names
        call = _Call(self, made, training, args, kwargs, len(done.outputs), done.kept)
        outputs = _Node.apply(call, *done.outputs, *done.leaves) if made.smooth else done.outputs
        leaves = [outputs[leaf.number] if type(leaf) is Output else done.outside[leaf.number] if type(leaf) is Outside
                  else leaf for leaf in made.tree.leaves]
        return made.tree.filled(leaves)

    def _forward_pass(self, wanted: tuple[bool, ...]) -> tuple[ForwardPass, Any]:
        definition, transform = self._parts.definition, ForwardPass()
        options = definition.options.transformed(transform, f"forward pass of {definition.name}")
        made = self._forward[wanted] = transform, self._parts.make(definition.fn, options)
        return made

    def pull_back(self, made: Backward, training: bool) -> Any:
        """Return the backward pass as a fused function of kept values and cotangents."""
        found = self._backward.get((made, training))
        if found is None:
            own = self._parts.definition.options
            options = Options(training, own.device, True, own.schedule, frozenset(), own.cache,
                              f"backward pass of {self._parts.definition.name}", own.budget, (Spliced(made.program),))
            found = self._backward[made, training] = self._parts.make(_program, options)
        return found

    def again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the function's result by torch's own code."""
        return self._parts.definition.run_fallback(args, kwargs)


def _program(*tensors: Any) -> Any:
    """Stand for the program that the transform puts in its place."""


class _Call(Record, frozen=True, eq=False):
    """One call, for its backward pass; its arguments are kept for second derivatives."""

    gradients: Gradients
    made: Backward
    training: bool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int
    kept: tuple[Any, ...]

    def results_again(self, leaves: tuple[Any, ...]) -> list[Any]:
        """Return the outputs by torch's own code, as functions of the leaves."""
        if self.made.once:
            raise DerivativeError("a second derivative of a fused function that draws random numbers or writes: call "
                                  "the function without jf.fuse, or differentiate it with jf.grad")
        with torch.enable_grad():
            value = self.gradients.again(self.args, self.kwargs)
        import optree

        found = optree.tree_leaves(value, none_is_leaf=True)
        return [x for x, leaf in zip(found, self.made.tree.leaves, strict=True) if type(leaf) is Output]


class _Node(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed
    """The node in torch's graph: (outputs, leaves) -> outputs."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        """Return the outputs, which have been computed."""
        outputs = tuple([x.detach() for x in tensors[: call.count]])
        ctx.call, made = call, call.made
        if len(made.smooth) < len(outputs):
            ctx.mark_non_differentiable(*[x for k, x in enumerate(outputs) if k not in made.smooth])
        kept = list(call.kept)
        for k, output in made.shared.items():
            kept[k] = outputs[output]
        leaves = tensors[call.count :]
        ctx.at = [k for k, value in enumerate(kept) if isinstance(value, torch.Tensor)]  # others are Python's numbers
        ctx.save_for_backward(*leaves, *[kept[k] for k in ctx.at])  # torch tells where one is written before it is read
        ctx.leaves = len(leaves)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Return the gradients of the leaves."""
        call, saved = ctx.call, ctx.saved_tensors
        leaves, kept = saved[: ctx.leaves], list(call.kept)
        for k, value in zip(ctx.at, saved[ctx.leaves :], strict=True):
            kept[k] = value
        given = [cotangents[k] for k in call.made.smooth]
        if torch.is_grad_enabled():
            outputs = call.results_again(leaves)
            found = torch.autograd.grad([outputs[k] for k in call.made.smooth], leaves, given, create_graph=True,
                                        allow_unused=True)
        else:
            found = call.gradients.pull_back(call.made, call.training)(*kept, *given)
        return (None, *[None] * call.count, *found)


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors in a call's arguments."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
