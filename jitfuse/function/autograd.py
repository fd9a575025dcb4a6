"""Calls with torch tensors that require gradients: a compiled forward pass, and a node of torch's autograd behind it.

The forward pass is a fused function of its own, which also returns the values that the backward pass needs; that is
another one. Both come of one program (`jitfuse.tracing.control.autograd`). Second derivatives are torch's own, from the
arguments. Functions that cannot be differentiated so run as torch's own. Owns the node and the choice. torch is
imported here: only its tensors lead here.
"""
from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import optree
import torch

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import DerivativeError, UnsupportedError
from jitfuse.function.options import Options
from jitfuse.graph_breaks.limits import Limits
from jitfuse.tracing.control.autograd import Backward, Forward, ForwardPass, Output, Outside, Spliced

if TYPE_CHECKING:
    from jitfuse.function.parts import Parts


class Gradients:
    """The forward and backward passes of one fused function, by which arguments require gradients."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.limits = Limits(parts.definition.options.budget)
        """What leads to torch's own code for good."""
        self._forward: dict[tuple[bool, ...], tuple[ForwardPass, Any]] = {}
        self._backward: weakref.WeakKeyDictionary[Backward, dict[bool, Any]] = weakref.WeakKeyDictionary()
        self.reads_names = False
        """Whether tensors are read that are no arguments."""

    def are_wanted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Tell whether a call has to be differentiable."""
        return torch.is_grad_enabled() and (
            self.reads_names or any(tensor.requires_grad for tensor in tensors_in(args, kwargs)))

    @staticmethod
    def refuses() -> Exception | None:
        """Return why torch's own code has to answer calls made here."""
        if torch.is_autocast_enabled("cpu"):
            return UnsupportedError("torch.autocast around a fused function chooses the dtypes of its operators")
        return None

    def computed(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_last: bool = False) -> Computed:
        """Return a call's results outside torch's graph; raises JitfuseError where the function has no such passes."""
        wanted, transform, forward = self.forward_pass(args, kwargs)
        training = self._parts.definition.pop_mode(args, kwargs)[0]
        with transform.of(tensors_in(args, kwargs)), torch.no_grad():
            done = forward(*args, **kwargs)
        if any(tensor.requires_grad for tensor in done.others):  # a parameter that was frozen in the trace
            self._forward.pop(wanted, None)
            if is_last:
                raise UnsupportedError("a tensor that requires gradients is found in no argument")
            return self.computed(args, kwargs, is_last=True)
        made = transform.backward(done.token, training)
        if made is None:
            self._forward.pop(wanted, None)
            return self.computed(args, kwargs)
        self.reads_names = self.reads_names or made.reads_names
        call = _Call(self, made, training, args, kwargs, len(done.outputs), tuple(map(id, done.leaves)))
        return Computed(call, done)

    def forward_pass(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[bool, ...], ForwardPass, Any]:
        """Return which tensors of a call require gradients, and their transform and forward pass."""
        wanted = tuple([tensor.requires_grad for tensor in tensors_in(args, kwargs)])
        return wanted, *(self._forward.get(wanted) or self._new_forward_pass(wanted))

    def _new_forward_pass(self, wanted: tuple[bool, ...]) -> tuple[ForwardPass, Any]:
        definition = self._parts.definition
        transform = ForwardPass(
            may_print=definition.options.strict, limit=4 * definition.options.budget.subgraphs)
        options = definition.options.transformed(transform, f"forward pass of {definition.name}")
        made = self._forward[wanted] = transform, self._parts.make(definition.fn, options)
        return made

    def pull_back(self, made: Backward, training: bool) -> Any:
        """Return the backward pass as a fused function of kept values and cotangents."""
        known = self._backward.setdefault(made, {})
        found = known.get(training)
        if found is None:
            own = self._parts.definition.options
            options = Options(training, own.device, True, own.schedule, frozenset(), own.cache,
                              f"backward pass of {self._parts.definition.name}", own.budget, (Spliced(made.program),))
            found = known[training] = self._parts.make(_program, options)
        return found

    def again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the function's result by torch's own code."""
        return self._parts.definition.run_fallback(args, kwargs)


def _program(*tensors: Any) -> Any:
    """Stand for the program that the transform puts in its place."""


class Computed(NamedTuple):
    """What a forward pass has returned, before torch's graph has its node."""

    call: _Call
    done: Forward

    def joined(self) -> Any:
        """Return the call's result. Hooks of torch's may raise here, which ends `torch.utils.checkpoint`."""
        (call, done), tree = self, self.call.made.tree
        outputs = done.outputs
        if call.made.smooth:
            outputs = _Node.apply(call, done.kept, *outputs, *done.leaves)
        return tree.filled([
            outputs[leaf.number] if type(leaf) is Output else done.outside[leaf.number] if type(leaf) is Outside
            else leaf for leaf in tree.leaves])


class _Call(Record, frozen=True, eq=False):
    """One call, for its backward pass; its arguments are kept for second derivatives."""

    gradients: Gradients
    made: Backward
    training: bool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int
    leaves: tuple[int, ...]
    """The ids of the leaves; those that are arguments live as long as the call."""

    def gradients_again(self, leaves: tuple[Any, ...], cotangents: list[Any]) -> tuple[Any, ...]:
        """Return the gradients of the leaves in torch's graph, by torch's own code.

        Arguments may depend on other leaves: gates in front of them keep each gradient to the function's own part.
        """
        if self.made.once:
            raise DerivativeError("a second derivative of a fused function that draws random numbers or writes: call "
                                  "the function without jf.fuse, or differentiate it with jf.grad")
        opened: list[bool] = []
        with torch.enable_grad():
            behind = {key: _Gate.apply(x, opened) for x in tensors_in(self.args, self.kwargs)
                      if (key := id(x)) in self.leaves}
            value = self.gradients.again(*_replaced((self.args, self.kwargs), behind))
        found = optree.tree_leaves(value, none_is_leaf=True)
        outputs = [x for x, leaf in zip(found, self.made.tree.leaves, strict=True) if type(leaf) is Output]
        pairs = [(outputs[k], c) for k, c in zip(self.made.smooth, cotangents, strict=True)
                 if c is not None and outputs[k].requires_grad]
        inputs = [behind.get(key, leaf) for key, leaf in zip(self.leaves, leaves, strict=True)]
        first = {key: k for k, key in reversed([*enumerate(self.leaves)])}  # two arguments may be one tensor
        wanted = [k for k, x in enumerate(inputs) if x.requires_grad and first[self.leaves[k]] == k]
        made: list[Any] = [None] * len(leaves)
        if pairs and wanted:
            for k, x in zip(wanted, torch.autograd.grad(
                    [x for x, _ in pairs], [inputs[k] for k in wanted], [c for _, c in pairs], create_graph=True,
                    allow_unused=True), strict=True):
                made[k] = x
        opened.append(True)
        return tuple(made)


class _Gate(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed
    """A tensor as it is; gradients pass once the list has an element."""

    @staticmethod
    def forward(ctx: Any, x: Any, opened: list[bool]) -> Any:
        """Return the tensor."""
        ctx.opened = opened
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        """Return the cotangent, or None."""
        return cotangent if ctx.opened else None, None


class _Node(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed
    """The node in torch's graph: (kept values, outputs, leaves) -> outputs."""

    @staticmethod
    def forward(ctx: Any, call: _Call, values: tuple[Any, ...], *tensors: Any) -> Any:
        """Return the outputs, which have been computed."""
        outputs = tuple([x.detach() for x in tensors[: call.count]])
        ctx.call, made = call, call.made
        ctx.set_materialize_grads(False)
        if len(made.smooth) < len(outputs):
            ctx.mark_non_differentiable(*[x for k, x in enumerate(outputs) if k not in made.smooth])
        kept = list(values)
        for k, output in made.shared.items():
            kept[k] = outputs[output]
        leaves = tensors[call.count :]
        ctx.likes = [(outputs[k].shape, outputs[k].dtype) for k in made.smooth]
        ctx.at = [k for k, value in enumerate(kept) if isinstance(value, torch.Tensor)]  # others are Python's numbers
        ctx.save_for_backward(*leaves, *[kept[k] for k in ctx.at])  # torch tells where one is written before it is read
        for k in ctx.at:
            kept[k] = None  # torch frees them after the backward pass
        ctx.kept, ctx.leaves = kept, len(leaves)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Return the gradients of the leaves."""
        call, saved = ctx.call, ctx.saved_tensors
        leaves, kept = saved[: ctx.leaves], list(ctx.kept)
        for k, value in zip(ctx.at, saved[ctx.leaves :], strict=True):
            kept[k] = value
        given = [cotangents[k] for k in call.made.smooth]
        reached = 0  # what is not has no gradient, which is not the same as zeros for an optimiser
        for x, bits in zip(given, call.made.reached, strict=True):
            reached |= 0 if x is None else bits
        found: Any = (None,) * len(leaves)
        if reached and torch.is_grad_enabled():
            found = call.gradients_again(leaves, given)
        elif reached:
            given = [torch.zeros(shape, dtype=dtype) if x is None else x
                     for x, (shape, dtype) in zip(given, ctx.likes, strict=True)]
            found = call.gradients.pull_back(call.made, call.training)(*kept, *given)
        return (None, None, *[None] * call.count, *[x if reached >> k & 1 else None for k, x in enumerate(found)])


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors in a call's arguments."""
    found: list[Any] = []
    _collect(args, found)
    if kwargs:
        _collect(kwargs.values(), found)
    return found


def _collect(values: Iterable[Any], found: list[Any]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):  # a union is slower
            _collect(value, found)
        elif isinstance(value, dict):
            _collect(value.values(), found)


def _replaced(value: Any, by: dict[int, Any]) -> Any:
    """Return a call's arguments with other tensors in them."""
    if isinstance(value, torch.Tensor):
        return by.get(id(value), value)
    if isinstance(value, tuple | list):
        parts = [_replaced(part, by) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        made = copy.copy(value)
        made.update({key: _replaced(part, by) for key, part in value.items()})
        return made
    return value
