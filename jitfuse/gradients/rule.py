"""What a rule is, how rules are entered and found, and the kinds that most of them are of.

A rule says how changes of an operator's operands change its results (`forward`), how cotangents of its results become
cotangents of its operands (`reverse`), or both; `jitfuse.gradients.modes` makes the second of the first. Rules are
written over tensors' methods, like decompositions, so that they hold in programs under construction, and derivatives of
derivatives are derivatives of their steps.

Cotangents of complex numbers are those of the inner product Re(conj(a) * b), as in torch: a step against the gradient
of a real function descends.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import DerivativeError
from jitfuse.gradients.values import Tensor, choose, conjugate, fitted, scaled, zeros_like
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.schema import ProgramData

Parts = Sequence[Any]
"""A tensor for each operand or result, or None for zero."""


class Call(NamedTuple):
    """One step as a rule sees it.

    wanted   for each operand, whether its cotangent is wanted
    masked   whether a choice (`where`, a clip) has set cotangents to zero, beside infinities that count for nothing
    """

    op_name: str
    xs: tuple[Tensor, ...]
    ys: tuple[Tensor, ...]
    attrs: dict[str, Any]
    wanted: tuple[bool, ...]
    masked: bool = False

    @property
    def x(self) -> Tensor:
        """The first operand."""
        return self.xs[0]

    @property
    def y(self) -> Tensor:
        """The first result."""
        return self.ys[0]


class Rule(Record, frozen=True):
    """How an operator is differentiated.

    forward   (call, tangents of operands) -> tangents of results; linear in the tangents
    transposed  the same for the reverse mode without a rule of its own, where `forward` has steps that are not linear
    reverse   (call, cotangents of results) -> cotangents of operands
    through   (operands, attributes) -> the results by simpler operators, which are differentiated in its place
    reason    why there is none of these
    masks     whether it sets cotangents to zero, element by element
    constant  whether the results do not change where they are differentiable
    note      what the support table says of it
    """

    forward: Callable[[Call, Parts], Parts] | None = None
    reverse: Callable[[Call, Parts], Parts] | None = None
    transposed: Callable[[Call, Parts], Parts] | None = None
    through: Callable[..., Any] | None = None
    reason: str = ""
    masks: bool = False
    constant: bool = False
    note: str = ""


RULES: Final[dict[str, Rule]] = {}
CONSTANT: Final = Rule(constant=True)
"""The rule of operators whose results do not change where they are differentiable."""
_FAMILY: Final = {name: family for family, names in FAMILIES.items() for name in names}


def rule_of(op_name: str) -> Rule:
    """Return an operator's rule."""
    if op_name not in RULES:
        import_module(f"jitfuse.gradients.rules.{_FAMILY[op_name]}")
    return RULES[op_name]


def chooses(program: ProgramData) -> bool:
    """Tell whether a step of a program, or of those in its steps, may set cotangents to zero."""
    return any(
        rule_of(step.op_name).masks or rule_of(step.op_name).through is not None or any(
            isinstance(value, ProgramData) and chooses(value) for _, value in step.attrs)
        for step in program.steps)


# ---------------------------------------------------------------- kinds of rules
def constant(*names: str) -> None:
    """Enter operators whose results are integers, truths, or constant between jumps."""
    for name in names:
        RULES[name] = CONSTANT


def without(reason: str, *names: str) -> None:
    """Enter operators that have no rule."""
    for name in names:
        RULES[name] = Rule(reason=reason)


def composite(*names: str, through: Callable[..., Any] | None = None) -> None:
    """Enter operators that are differentiated as simpler ones: `through`, or the decomposition of their row."""
    for name in names:
        RULES[name] = Rule(through=through or _decomposed(name))


def _decomposed(name: str) -> Callable[..., Any]:
    def through(*xs: Tensor, **attrs: Any) -> Any:
        from jitfuse.ir.operators import ops

        row = ops.get(name)
        assert row is not None and row.decompose is not None, name
        return row.decompose(*xs, **attrs)

    return through


def linear(*names: str, of: Sequence[int] = (0,), masks: bool = False) -> Callable[[Callable[..., Any]], None]:
    """Enter operators that are linear in the operands `of` together, by ``transposed(call, cotangent)``.

    It returns the cotangents of these operands, or of the only one.
    """
    def enter(transposed: Callable[[Call, Tensor], Any]) -> None:
        for name in names:
            RULES[name] = Rule(_same_operator(of), _spread(transposed, of), masks=masks)

    return enter


def _same_operator(of: Sequence[int]) -> Callable[[Call, Parts], Parts]:
    def forward(call: Call, tangents: Parts) -> Parts:
        operands = list(call.xs)
        for k in of or range(len(operands)):
            tangent = tangents[k]
            operands[k] = zeros_like(operands[k]) if tangent is None else tangent
        return [operands[0].call(call.op_name, *operands[1:], **call.attrs)]

    return forward


def _spread(transposed: Callable[[Call, Tensor], Any], of: Sequence[int]) -> Callable[[Call, Parts], Parts]:
    def reverse(call: Call, cotangents: Parts) -> Parts:
        found = transposed(call, cotangents[0])
        if not of:
            return list(found)
        made: list[Tensor | None] = [None] * len(call.xs)
        for k, cotangent in zip(of, found if isinstance(found, tuple) else (found,), strict=True):
            made[k] = cotangent
        return made

    return reverse


def by_tangents(*names: str) -> Callable[[Callable[..., Any]], None]:
    """Enter operators by ``forward(call, tangents)`` alone; the reverse mode transposes its steps."""
    def enter(forward: Callable[[Call, Parts], Parts]) -> None:
        for name in names:
            RULES[name] = Rule(forward=forward)

    return enter


# ---------------------------------------------------------------- functions of single elements
_ORDINALS: Final = ("first", "second", "third", "fourth")


class Over(NamedTuple):
    """The derivative 1 / `divisor`."""

    divisor: Tensor


class Times(NamedTuple):
    """The derivative `factor`, which is always finite: a plain number, or a tensor of such numbers."""

    factor: Any


class Bounded(NamedTuple):
    """The derivative `factor` of an operator that is `unbounded` in general: it is finite where the result is."""

    factor: Tensor


def elementwise(
    name: str, *partials: Callable[..., Any] | str | None, unbounded: bool = False, masks: bool = False
) -> None:
    """Enter an operator of single elements by its partial derivatives, functions of (operands..., result).

    Each returns a tensor, `Over`, `Times` or `Bounded`. In place of one, None says that it is 0, and a text why there
    is none. `unbounded`: it may be infinite where the operands are finite; then a change of 0 gives 0 there.
    """
    def factor(call: Call, k: int) -> Any:
        partial = partials[k]
        if isinstance(partial, str):
            raise DerivativeError(f"{name} has no derivative by its {_ORDINALS[k]} operand: {partial}")
        return None if partial is None else partial(*call.xs, call.y)

    def forward(call: Call, tangents: Parts) -> Parts:
        total = None
        for k, tangent in enumerate(tangents):
            d = None if tangent is None else factor(call, k)
            if d is not None:
                part = product(tangent, d, unbounded and not isinstance(d, Bounded))
                total = part if total is None else total.add(part)
        return [total if total is None else fitted(total, call.y)]

    def reverse(call: Call, cotangents: Parts) -> Parts:
        made: list[Tensor | None] = []
        for k, wanted in enumerate(call.wanted):
            d = factor(call, k) if wanted else None
            guarded = call.masked or (unbounded and not isinstance(d, Bounded))
            made.append(None if d is None else product(cotangents[0], _conjugate(d), guarded))
        return made

    RULES[name] = Rule(forward, reverse, masks=masks)


def _conjugate(d: Any) -> Any:
    if isinstance(d, Over):
        return Over(conjugate(d.divisor))
    if isinstance(d, Times | Bounded):
        return d if isinstance(d.factor, int | float) else type(d)(conjugate(d.factor))
    return conjugate(d)


def product(change: Tensor, d: Any, guarded: bool) -> Tensor:
    """Return a change times a derivative; `guarded`: 0 where the change is 0 and the derivative is not finite.

    A finite derivative counts there too: it is what the product itself changes by, as second derivatives ask.
    """
    if isinstance(d, Times):
        return scaled(change, d.factor)
    if isinstance(d, Over):
        divisor = d.divisor
        if guarded:
            divisor = _where_it_counts(change, divisor, divisor.call("abs").greater(0), 1)
        return change.divide(divisor)
    factor = d.factor if isinstance(d, Bounded) else d
    return change.multiply(_where_it_counts(change, factor, factor.call("isfinite"), 0) if guarded else factor)


def _where_it_counts(change: Tensor, x: Tensor, is_usable: Tensor, other: int) -> Tensor:
    return choose(change.equal(0).call("logical_and", is_usable.call("logical_not")), other, x)
