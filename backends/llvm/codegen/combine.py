"""What reductions compute: their identities, how two parts combine, how lanes fold into one value.

Owns: the table of combine functions, and `Reduced`, one value under reduction. An accumulator is a `State`, a
tuple of batches. Does not own loops or memory, or reductions that find a position (`positions`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, KIND, LARGEST, SMALLEST, is_tree
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Value, lanes
from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import SUM_DEPTH, sum_lanes

State = tuple[Batch, ...]
Constant = Callable[[str, "float | int | bool"], Batch]
"""Makes a batch of a constant of a dtype."""


class Positions(NamedTuple):
    """The position of a group's first lane among the inner points, in row-major order, and a source of all lanes'."""

    first: Value
    lanes: Callable[[], Batch]



def identity(combine: str, dtype: str) -> float | int | bool:
    """Return the value that changes no bit of a value that it is combined with."""
    kind = KIND[dtype]
    if combine in ("any", "all"):
        return combine == "all"
    if combine == "sum":
        return -0.0 if kind == "float" else 0
    if combine == "prod":
        return 1
    smallest = combine in ("max", "argmax")
    if kind == "bool":
        return not smallest
    if kind == "float":
        return -math.inf if smallest else math.inf
    return SMALLEST[dtype] if smallest else LARGEST[dtype]


class Reduced(Record, frozen=True):
    """One value under reduction: the number of its result, and the number of its operand (None in a final phase)."""

    number: int
    combine: str
    dtype: str
    value: int | None
    reduction: Reduction

    @property
    def tree(self) -> bool:
        """Whether the order matters."""
        return is_tree(self.combine, self.dtype)

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
        """Return the value that changes no bit of a value that it is combined with."""
        return identity(self.combine, self.dtype)

    # ------------------------------------------------------------------ states
    def start(self, constant: Constant) -> State:
        """Return the state of an empty reduction."""
        return (constant(self.dtype, self.identity),)

    def of_element(self, x: Batch, position: int) -> State:
        """Return the state of single elements at a position along the inner axes."""
        return (x,)

    def merge(self, a: State, b: State) -> State:
        """Combine two states, the older on the left."""
        return (self.join(a[0], b[0]),)

    def absorb(self, state: State, x: Batch, positions: Positions) -> State:
        """Combine a state with one or more groups of as many vectors: in order in a tree, else by a short chain."""
        accumulators = state[0]
        groups = _groups(x, len(accumulators.values))
        if self.tree:
            for g in groups:
                accumulators = self.join(accumulators, g)
            return (accumulators,)
        while len(groups) > 1:
            pairs = [self.join(a, b) for a, b in zip(groups[::2], groups[1::2], strict=False)]
            groups = pairs + groups[2 * len(pairs) :]
        return (self.join(accumulators, groups[0]),)

    def join(self, a: Batch, b: Batch) -> Batch:
        """Combine two parts of a reduction whose state is one batch, the older on the left."""
        return _JOIN[self.combine, KIND[self.dtype]](a, b)

    @property
    def _float_extreme(self) -> bool:
        return self.combine in ("min", "max") and KIND[self.dtype] == "float"

    def opened(self, state: State) -> State:
        """Return the carried values into which `gather` combines: the state, and for float min and max the signs."""
        return (state[0], state[0].bits()) if self._float_extreme else state

    def closed(self, carried: State) -> State:
        """Return the state after a loop."""
        if not self._float_extreme:
            return carried
        extremes, signs = carried
        return (extremes.copysign(signs.from_bits()),)

    def gather(self, carried: State, x: Batch, positions: Positions) -> State:
        """Combine with groups of vectors as `absorb` does, by shorter chains for float min and max.

        Comparisons leave the order of 0.0 and -0.0 open, so the signs are combined separately: for min the result is
        negative where any element is, for max where all are. NaN is put in, and stays.
        """
        if not self._float_extreme:
            return self.absorb(carried, x, positions)
        extremes, signs = carried
        maximum = self.combine == "max"
        for group in _groups(x, len(extremes.values)):
            extremes = group.where(group.compare("ogt" if maximum else "olt", extremes), extremes)
            extremes = group.where(group.is_nan(), extremes)
            signs = signs & group.bits() if maximum else signs | group.bits()
        return extremes, signs

    def fold(self, state: State) -> Batch:
        """Return the result as one scalar."""
        return self.finished(self.folded(state))

    def folded(self, state: State) -> State:
        """Return a state of scalars: lane l with lane l + half, and so on, over all vectors of the batches."""
        while len(state[0].values) > 1:
            state = self.merge(*_vector_halves(state))
        while lanes(state[0].type) > 1:
            state = self.merge(*_lane_halves(state))
        return state

    def finished(self, state: State) -> Batch:
        """Return the result of folded lanes: a sum of nothing or of negative zeros is 0.0, as in NumPy."""
        return state[0] + 0.0 if self.tree and self.combine == "sum" else state[0]


def _groups(x: Batch, count: int) -> list[Batch]:
    return [x.context.batch(x.values[k : k + count]) for k in range(0, len(x.values), count)]


def _vector_halves(state: State) -> tuple[State, State]:
    half = len(state[0].values) // 2
    older = [x.context.batch(x.values[:half]) for x in state]
    return tuple(older), tuple([x.context.batch(x.values[half:]) for x in state])


def _lane_halves(state: State) -> tuple[State, State]:
    older, younger = [], []
    for x in state:
        f, v, half = x.context.f, x.values[0], lanes(x.type) // 2
        if half == 1:
            a, b = f.extract(v, 0), f.extract(v, 1)
        else:
            rest = f.undef(v.type)
            a, b = (f.shuffle(v, rest, range(at, at + half)) for at in (0, half))
        older.append(x.context.batch([a]))
        younger.append(x.context.batch([b]))
    return tuple(older), tuple(younger)


def _intrinsic(name: str) -> Callable[[Batch, Batch], Batch]:
    return lambda a, b: a.zip(lambda x, y: a.context.f.intrinsic(name, x.type, x, y), b)


def _or(a: Batch, b: Batch) -> Batch:
    return a | b


def _and(a: Batch, b: Batch) -> Batch:
    return a & b


# minimum and maximum are those of IEEE 754-2019: NaN wins, -0.0 is below 0.0, and so the order cannot matter
_JOIN: Final[dict[tuple[str, str], Callable[[Batch, Batch], Batch]]] = {
    ("sum", "float"): lambda a, b: a + b, ("sum", "int"): lambda a, b: a + b, ("sum", "bool"): _or,
    ("prod", "float"): lambda a, b: a * b, ("prod", "int"): lambda a, b: a * b, ("prod", "bool"): _and,
    ("min", "float"): _intrinsic("minimum"), ("max", "float"): _intrinsic("maximum"),
    ("min", "int"): _intrinsic("smin"), ("max", "int"): _intrinsic("smax"),
    ("sum", "uint"): lambda a, b: a + b, ("prod", "uint"): lambda a, b: a * b,
    ("min", "uint"): _intrinsic("umin"), ("max", "uint"): _intrinsic("umax"),
    ("min", "bool"): _and, ("max", "bool"): _or, ("any", "bool"): _or, ("all", "bool"): _and,
}
