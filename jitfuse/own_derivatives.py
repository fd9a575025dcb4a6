"""Functions with derivatives that they define themselves: `jf.custom_vjp`, `jf.custom_jvp`; `jf.checkpoint` and
`jf.stop_gradient`.

Where nothing is differentiated they are the functions that they wrap. Owns how a function's arguments and rules become
trees of changes; the steps are made in `jitfuse.tracing.control.own_derivatives`.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from jitfuse.errors import DerivativeError
from jitfuse.gradients.values import is_smooth, zeros_like
from jitfuse.tracing.control.combinators import strong
from jitfuse.tracing.control.own_derivatives import checkpointed, custom
from jitfuse.tracing.record.foreign import Foreign, bare
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import Tree, tree_of
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor

__all__ = ["checkpoint", "custom_jvp", "custom_vjp", "stop_gradient"]


class _OwnDerivative:
    """A function with a derivative that rules define; where nothing is differentiated it is the function itself."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any) -> Any:
        """Return ``fun(*args)``."""
        run = active()
        if run is None and _torch_differentiates(args):
            from jitfuse.function.own_rules import by_own_rules

            return by_own_rules(self.fun, self._torch_rules, args)
        if run is None or not run.keeps_rules:
            return self.fun(*args)
        return self._recorded(run, args)

    def _recorded(self, run: Recorder, args: tuple[Any, ...]) -> Any:
        """Return the value in a trace that is differentiated."""
        raise NotImplementedError

    def _torch_rules(self, args: tuple[Any, ...]) -> tuple[Any, Callable[[Any], Any]] | None:
        """Return the value of torch's tensors and its backward rule, or None where none is defined."""
        raise NotImplementedError

    def _undefined(self, by: str) -> DerivativeError:
        return DerivativeError(f"{self.fun.__name__} has no derivative yet: call its {by}, at {user_line()}")


class custom_vjp(_OwnDerivative):  # noqa: N801 (a decorator)
    """A function with a reverse-mode derivative of its own: ``@jf.custom_vjp``, then ``f.defvjp(forward, backward)``.

    Args:
        fun: a function of arrays.

    ``forward(*args)`` returns (value, kept): the value as `fun` returns it, and a tree of what `backward` needs.
    ``backward(kept, cotangent)`` returns a tuple of a cotangent for each argument, None for one that has none. Second
    derivatives differentiate these. It has no forward mode.

    Example:
        >>> @jf.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda kept, g: (np.clip(g, -1, 1),))
        >>> jf.grad(lambda x: np.sum(clipped(x) * 5))(np.ones(2))
        array([1., 1.])
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)
        self.forward: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Define the derivative."""
        self.forward, self.backward = forward, backward

    def _recorded(self, run: Recorder, args: tuple[Any, ...]) -> Any:
        if self.forward is None or self.backward is None:
            raise self._undefined("defvjp")
        value, kept = self.forward(*args)
        trees, leaves = _moving(run, args)
        tree, backward = tree_of(value, "result"), self.backward

        def rule(cotangents: list[Any]) -> list[Any]:
            found = backward(kept, tree.filled(cotangents))
            if not isinstance(found, tuple) or len(found) != len(args):
                raise DerivativeError(f"the backward rule of {self.fun.__name__} at {user_line()} has to return a "
                                      f"tuple of {len(args)}, one cotangent for each argument")
            return [change for own, part in zip(trees, found) for change in _changes_of(run, own, part)]

        return custom(run, "custom_vjp", value, leaves, "value", rule)

    def _torch_rules(self, args: tuple[Any, ...]) -> tuple[Any, Callable[[Any], Any]] | None:
        if self.forward is None or self.backward is None:
            return None
        (value, kept), backward = self.forward(*args), self.backward
        return value, lambda cotangent: backward(kept, cotangent)


class custom_jvp(_OwnDerivative):  # noqa: N801 (a decorator)
    """A function with a derivative of its own in both modes: ``@jf.custom_jvp``, then ``f.defjvp(rule)``.

    Args:
        fun: a function of arrays.

    ``rule(primals, tangents)`` takes tuples and returns (value, tangent); it is linear in the tangents, so that the
    reverse mode is its transpose.

    Example:
        >>> @jf.custom_jvp
        ... def log1pexp(x):
        ...     return np.log1p(np.exp(x))
        >>> log1pexp.defjvp(lambda xs, ts: (log1pexp(xs[0]), ts[0] / (1 + np.exp(-xs[0]))))
        >>> jf.grad(log1pexp)(1000.0)
        np.float64(1.0)
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)
        self.rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Define the derivative."""
        self.rule = rule

    def _recorded(self, run: Recorder, args: tuple[Any, ...]) -> Any:
        if self.rule is None:
            raise self._undefined("defjvp")
        (trees, leaves), own = _moving(run, args), self.rule

        def rule(tangents: list[Any]) -> Any:
            return own(args, tuple(_filled(run, trees, tangents, lambda leaf: 0.0)))[1]

        return custom(run, "custom_jvp", self.fun(*args), leaves, "leaves", rule)

    def _torch_rules(self, args: tuple[Any, ...]) -> tuple[Any, Callable[[Any], Any]] | None:
        if self.rule is None:
            return None
        from jitfuse.function.own_rules import transposed

        return self.fun(*args), transposed(self.rule, args)


def stop_gradient(x: Any) -> Any:
    """Return a tree of arrays as it is, a constant for derivatives.

    Args:
        x: a tree of arrays and numbers.

    Returns:
        The tree.

    Raises:
        ArgumentError: a leaf that is no array or number.

    Example:
        >>> jf.grad(lambda x: x * jf.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    run = active()
    if run is None:
        return x
    tree = tree_of(x, "x")
    return tree.filled([_stopped(run, leaf) for leaf in tree.leaves])


def _stopped(run: Recorder, leaf: Any) -> Any:
    x = bare(leaf)
    if not isinstance(x, TracedTensor):
        return leaf
    made = x.call("stop_gradient")
    return type(leaf)(made) if isinstance(leaf, Foreign) else made  # type: ignore[call-arg]


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose reverse-mode derivative keeps its arguments alone, and computes the rest again.

    Args:
        fun: a function of arrays.

    Returns:
        A function with the values and derivatives of `fun`.

    Raises:
        DerivativeError, in derivatives: an operator without one.

    Example:
        >>> jf.grad(lambda x: np.sum(jf.checkpoint(np.sin)(x)))(np.zeros(2))
        array([1., 1.])
    """
    @functools.wraps(fun)
    def function(*args: Any, **kwargs: Any) -> Any:
        run = active()
        if run is None or not run.keeps_rules:
            return fun(*args, **kwargs)
        if not run.has_gradients():  # under torch.no_grad
            return fun(*args, **kwargs)
        trees, leaves = _moving(run, args)
        return checkpointed(run, lambda given: fun(*_filled(run, trees, list(given), lambda x: x), **kwargs), leaves)

    return function


def _torch_differentiates(args: tuple[Any, ...]) -> bool:
    """Tell whether torch's autograd follows a call outside of traces, such as of what runs as plain Python."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    import optree

    leaves: list[Any] = optree.tree_leaves(args, none_is_leaf=True)  # type: ignore[arg-type]  # any tree
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def _moving(run: Recorder, args: tuple[Any, ...]) -> tuple[list[Tree], list[Any]]:
    """Return arguments as trees, and their leaves that have changes."""
    trees = [tree_of(arg, "args") for arg in args]
    return trees, [leaf for tree in trees for leaf in tree.leaves if _has_change(run, leaf)]


def _filled(run: Recorder, trees: list[Tree], values: list[Any], other: Callable[[Any], Any]) -> list[Any]:
    """Return arguments with values for the leaves that have changes; `other` makes those of the others."""
    rest = iter(values)
    return [tree.filled([next(rest) if _has_change(run, leaf) else other(leaf) for leaf in tree.leaves])
            for tree in trees]


def _has_change(run: Recorder, leaf: Any) -> bool:
    return is_smooth(lift(run, bare(leaf)))


def _changes_of(run: Recorder, tree: Tree, changes: Any) -> list[Any]:
    """Return changes for the smooth leaves of a tree; None: zeros."""
    given = tree_of(changes, "cotangent").leaves
    if not given:
        given = tuple([None] * len(tree.leaves))
    pairs = zip(tree.leaves, given, strict=True)
    return [zeros_like(strong(lift(run, bare(leaf)))) if change is None else change
            for leaf, change in pairs if _has_change(run, leaf)]
