"""The choices that compete when a plan is lowered, and which of them a program has.

A `LoweringPolicy` is one way of lowering. Owns the names of the choices and the search over them. What a choice means
for groups is in `jitfuse.plans.groups`, what it costs in `jitfuse.plans.score`.
"""
from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Protocol, TypeVar

from jitfuse.base.records import NamedTuple


class LoweringPolicy(NamedTuple):
    """One way to lower a program.

    regroup   products are chained in their cheapest order; otherwise as written
    chain     a product of a product is one kernel, with a block of rows at a time between them; otherwise two
    own       contractions are kernels, with prologue and epilogue; otherwise a library computes them
    one_pass  values that need a row's reduction at every element share its kernel, which sweeps the row again;
              otherwise the reduction has its own kernel, and a second kernel maps over all elements
    split     reductions of few, long rows are split into partial ones over chunks, if no kernel sweeps their rows again
    store     dear values that several kernels or index maps read are stored once; otherwise each reader computes them
    unroll    reductions of two to four elements are unrolled; otherwise they are loops
    keep      dear values of a row that several stages need stay in a scratch row; otherwise each stage computes them
    """

    regroup: bool = True
    chain: bool = True
    own: bool = True
    one_pass: bool = True
    split: bool = True
    store: bool = True
    unroll: bool = True
    keep: bool = True

    def text(self, choices: Collection[str]) -> str:
        """Return as text what the policy says about the choices that a program has."""
        words = [_NAMES[f][not value] for f, value in zip(self._fields, self, strict=True) if f in choices]
        return ", ".join(["fused", *words])


_NAMES: Final[dict[str, tuple[str, str]]] = {
    "regroup": ("products regrouped", "products as written"),
    "own": ("own contractions", "contractions by a library"),
    "chain": ("products of products chained", "products of products stored between"),
    "one_pass": ("rows swept again in one kernel", "reductions first, then maps over their results"),
    "split": ("few long rows split", "rows whole"),
    "store": ("dear values stored once", "dear values computed by every reader"),
    "unroll": ("tiny reductions written out", "tiny reductions as loops"),
    "keep": ("dear row values kept", "row values computed again"),
}
DEFAULT: Final = LoweringPolicy()
OF_PRODUCTS: Final = ("regroup", "chain", "own")
"""The choices that come first. They may change bits of results; all others change only time and memory."""


class Lowered(Protocol):
    """What a policy makes of a program; `choices` names the choices that make a difference to it."""

    policy: LoweringPolicy
    choices: frozenset[str]


Candidate = TypeVar("Candidate", bound=Lowered)


def descend(
    lower: Callable[[LoweringPolicy], Candidate], cost: Callable[[Candidate, str], Any],
    competing: Collection[str] = LoweringPolicy._fields, known: LoweringPolicy | None = None, *, products: bool = True,
) -> list[Candidate]:
    """Return candidates, the best first: choice by choice, each is flipped if that costs less.

    `lower` makes the candidate of a policy; `cost` returns the cost of a candidate for one choice. Ties go to the
    earlier candidate. There is at most one candidate per competing choice, beside the default, so that planning takes a
    bounded multiple of one lowering. `known` is the best policy of a program of the same structure: its choices are
    taken over, except those of `products`, if there are any.
    """
    if known is not None and not products:
        return [lower(known)]
    best = lower(DEFAULT)
    losers: list[Candidate] = []
    for name in LoweringPolicy._fields:
        if name not in OF_PRODUCTS and known is not None and _agree(best.policy, known):
            return [best, *losers] if best.policy == known else [lower(known), best, *losers]
        if name not in best.choices or name not in competing:
            continue
        other = lower(best.policy._replace(**{name: not getattr(best.policy, name)}))
        if cost(other, name) < cost(best, name):
            best, other = other, best
        losers.append(other)
    return [best, *losers]


def _agree(policy: LoweringPolicy, other: LoweringPolicy) -> bool:
    """Return whether two policies make the same choices about products."""
    return all(getattr(policy, name) == getattr(other, name) for name in OF_PRODUCTS)
