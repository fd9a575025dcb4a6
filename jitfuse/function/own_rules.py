"""Functions with derivatives of their own in plain torch code: nodes of torch's autograd that run the user's rules.

Owns nothing of compiled functions (`jitfuse.function.autograd`). torch is imported here: only its tensors lead here.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree
import torch

from jitfuse.errors import DerivativeError


class _OwnNode(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed
    """A function with a derivative of its own, by torch's code: leaves of its arguments -> tensors of its value."""

    @staticmethod
    def forward(ctx: Any, holder: _Own, *leaves: Any) -> Any:
        """Return the value's tensors."""
        ctx.holder = holder
        found = holder.rules(optree.tree_unflatten(holder.spec, leaves))
        if found is None:
            raise DerivativeError(f"{holder.name} has no derivative yet: call its defvjp or defjvp")
        value, ctx.backward_rule = found
        holder.found, holder.tree = optree.tree_flatten(value, none_is_leaf=True)
        given = {id(leaf) for leaf in leaves}
        tensors = [x for x in holder.found if isinstance(x, torch.Tensor)]
        return tuple([x.view_as(x) if id(x) in given else x for x in tensors])

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]  # what the rule keeps has no graph
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Return the cotangents of the leaves."""
        rest = iter(cotangents)
        filled = [next(rest) if isinstance(x, torch.Tensor) else None for x in ctx.holder.found]
        changes = ctx.backward_rule(optree.tree_unflatten(ctx.holder.tree, filled))
        trees = ctx.holder.spec.children()
        if not isinstance(changes, tuple) or len(changes) != len(trees):
            raise DerivativeError(f"the backward rule of {ctx.holder.name} has to return a tuple of {len(trees)}, one "
                                  "cotangent for each argument")
        found: list[Any] = []
        for tree, change in zip(trees, changes, strict=True):
            leaves = [None] * tree.num_leaves if change is None else optree.tree_leaves(change, none_is_leaf=True)
            found += leaves
        return (None, *[x if isinstance(x, torch.Tensor) else None for x in found])


class _Own:
    """A call of a function with a derivative of its own."""

    def __init__(self, name: str, rules: Callable[[Any], Any], spec: Any) -> None:
        self.name, self.rules, self.spec = name, rules, spec
        self.found: list[Any] = []
        self.tree: Any = None


def by_own_rules(fun: Callable[..., Any], rules: Callable[[Any], Any], args: tuple[Any, ...]) -> Any:
    """Call a function with a derivative of its own on torch's tensors; `rules` returns (value, backward rule) or None.

    It has no second derivatives.
    """
    leaves, spec = _flat(args)
    holder = _Own(getattr(fun, "__name__", "a function"), rules, spec)
    tensors = iter(_OwnNode.apply(holder, *leaves))
    return optree.tree_unflatten(
        holder.tree, [next(tensors) if isinstance(x, torch.Tensor) else x for x in holder.found])


def transposed(rule: Callable[[Any, Any], Any], args: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the backward rule of a rule for tangents, which is linear in them."""
    def backward(cotangent: Any) -> Any:
        leaves, spec = _flat(args)
        with torch.enable_grad():
            tangents = [torch.zeros_like(x).requires_grad_() if _is_smooth(x) else 0.0 for x in leaves]
            changes = optree.tree_leaves(rule(args, optree.tree_unflatten(spec, tangents))[1], none_is_leaf=True)
        given = optree.tree_leaves(cotangent, none_is_leaf=True)
        pairs = [(x, c) for x, c in zip(changes, given, strict=True) if _is_smooth(x) and x.requires_grad]
        wanted = [x for x in tangents if isinstance(x, torch.Tensor)]
        found = iter(torch.autograd.grad([x for x, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
                     if pairs else [None] * len(wanted))
        return optree.tree_unflatten(spec, [next(found) if isinstance(x, torch.Tensor) else None for x in tangents])

    return backward


def _flat(args: Any) -> tuple[list[Any], Any]:
    return optree.tree_flatten(args, none_is_leaf=True)


def _is_smooth(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
