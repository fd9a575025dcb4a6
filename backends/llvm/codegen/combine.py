"""What reductions compute: their identities, how two parts combine, how lanes fold into one value.

Owns: the table of combine functions, and `Part`, one value under reduction. Does not own loops or memory.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jitfuse.backends.llvm.builder import lanes
from jitfuse.backends.llvm.codegen.types import ITEMSIZE, KIND, LARGEST, SMALLEST
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.ir.kernel import SUM_DEPTH, Reduction, sum_lanes

_COMBINES: Final = ("sum", "min", "max", "any", "all")


@dataclass(frozen=True)
class Part:
    """One value under reduction: which number its result has, and what is reduced (None in a final phase)."""

    number: int
    combine: str
    dtype: str
    value: int | None
    reduction: Reduction

    @property
    def tree(self) -> bool:
        """Whether the order matters: float sums."""
        return self.combine == "sum" and KIND[self.dtype] == "float"

    @property
    def row(self) -> int:
        """W, the number of virtual lanes."""
        return sum_lanes(ITEMSIZE[self.dtype])

    @property
    def block(self) -> int:
        """Return the number of elements in a block of the tree."""
        return SUM_DEPTH * self.row

    @property
    def identity(self) -> float | int | bool:
        """Return what changes no bit of what it is combined with."""
        if self.combine in ("any", "all"):
            return self.combine == "all"
        if self.combine == "sum":
            return -0.0 if self.tree else 0
        smallest = self.combine == "max"
        kind = KIND[self.dtype]
        if kind == "bool":
            return not smallest
        if kind == "float":
            return -math.inf if smallest else math.inf
        return SMALLEST[self.dtype] if smallest else LARGEST[self.dtype]

    def join(self, a: Batch, b: Batch) -> Batch:
        """Combine two parts, the older on the left."""
        return _JOIN[self.combine, KIND[self.dtype]](a, b)

    def absorb(self, accumulators: Batch, x: Batch) -> Batch:
        """Combine the accumulators with a multiple of as many vectors: one group after the other in a tree,
        else by the shortest chain.
        """
        n = len(accumulators.values)
        groups = [x.context.batch(x.values[k : k + n]) for k in range(0, len(x.values), n)]
        if self.tree:
            for g in groups:
                accumulators = self.join(accumulators, g)
            return accumulators
        while len(groups) > 1:
            pairs = [self.join(a, b) for a, b in zip(groups[::2], groups[1::2], strict=False)]
            groups = pairs + groups[2 * len(pairs) :]
        return self.join(accumulators, groups[0])

    @property
    def _float_extreme(self) -> bool:
        return self.combine in ("min", "max") and KIND[self.dtype] == "float"

    def opened(self, accumulators: Batch) -> tuple[Batch, ...]:
        """Return what a loop carries to `gather` into: `accumulators`; the signs too for float min and max."""
        return (accumulators, accumulators.bits()) if self._float_extreme else (accumulators,)

    def closed(self, carried: tuple[Batch, ...]) -> Batch:
        """Return the accumulators after a loop."""
        if not self._float_extreme:
            return carried[0]
        extremes, signs = carried
        return extremes.copysign(signs.from_bits())

    def gather(self, carried: tuple[Batch, ...], x: Batch) -> tuple[Batch, ...]:
        """Combine with a multiple of as many vectors as `absorb` does, by shorter chains for float min and max.

        They compare, which leaves zeros in any order, and put in NaN, which then stays. The result has the sign
        that all elements have in common, else the one that wins.
        """
        if not self._float_extreme:
            return (self.absorb(carried[0], x),)
        extremes, signs = carried
        n = len(extremes.values)
        maximum = self.combine == "max"
        for k in range(0, len(x.values), n):
            group = x.context.batch(x.values[k : k + n])
            extremes = group.where(group.compare("ogt" if maximum else "olt", extremes), extremes)
            extremes = group.where(group.is_nan(), extremes)
            signs = signs & group.bits() if maximum else signs | group.bits()
        return extremes, signs

    def fold(self, x: Batch) -> Batch:
        """Return one scalar: lane l with lane l + half, and so on, over all vectors of the batch."""
        f, context = x.context.f, x.context
        while len(x.values) > 1:
            half = len(x.values) // 2
            x = self.join(context.batch(x.values[:half]), context.batch(x.values[half:]))
        while lanes(x.type) > 1:
            v, half = x.values[0], lanes(x.type) // 2
            if half == 1:
                a, b = f.extract(v, 0), f.extract(v, 1)
            else:
                rest = f.undef(v.type)
                a, b = (f.shuffle(v, rest, range(at, at + half)) for at in (0, half))
            x = self.join(context.batch([a]), context.batch([b]))
        return self.finished(x)

    def finished(self, x: Batch) -> Batch:
        """Return the result of folded lanes: a sum of nothing or of negative zeros is 0.0, as in NumPy."""
        return x + 0.0 if self.tree else x


def _intrinsic(name: str) -> Callable[[Batch, Batch], Batch]:
    return lambda a, b: a.zip(lambda x, y: a.context.f.intrinsic(name, x.type, x, y), b)


def _or(a: Batch, b: Batch) -> Batch:
    return a | b


def _and(a: Batch, b: Batch) -> Batch:
    return a & b


# minimum and maximum are those of IEEE 754-2019: NaN wins, -0.0 is below 0.0, and so the order cannot matter
_JOIN: Final[dict[tuple[str, str], Callable[[Batch, Batch], Batch]]] = {
    ("sum", "float"): lambda a, b: a + b, ("sum", "int"): lambda a, b: a + b, ("sum", "bool"): _or,
    ("min", "float"): _intrinsic("minimum"), ("max", "float"): _intrinsic("maximum"),
    ("min", "int"): _intrinsic("smin"), ("max", "int"): _intrinsic("smax"),
    ("min", "bool"): _and, ("max", "bool"): _or, ("any", "bool"): _or, ("all", "bool"): _and,
}


def parts(reductions: Sequence[tuple[int, Reduction]]) -> list[Part]:
    """Return the values under reduction of a stage, one for each component."""
    result = []
    for number, r in reductions:
        assert r.combine in _COMBINES, r.combine
        values: tuple[int | None, ...] = r.values or (None,)
        result += [Part(number + k, r.combine, r.dtype, v, r) for k, v in enumerate(values)]
    return result
