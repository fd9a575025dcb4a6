"""What is made once for a structure: order, tree, programs, and the fused functions that run them.

Owns which semiring and which arithmetic answers a query. Does not own the model's values.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.factors import machine
from jitfuse.factors.emit import emit_downward_program, emit_finalize_program, emit_upward_program, joined
from jitfuse.factors.ir.schema import PARTITION, OpCode, Program, SlotKey, belief
from jitfuse.factors.orders.search import Ordered, best_order
from jitfuse.factors.rewrites.pipeline import rewritten
from jitfuse.factors.semirings import MAX, PROBABILITY, Array, Semiring
from jitfuse.factors.structure import Structure
from jitfuse.factors.tables import Place, Spreads
from jitfuse.factors.tree import NO_PARENT, Tree, bucket_tree
from jitfuse.fuse import fuse

ITEMSIZE: Final = 8
LIMIT_BYTES: Final = 4 << 30
"""What the messages of one query may take, unless told."""
SAFE: Final = 600.0
"""Products of probabilities whose logs lie at most this far apart neither overflow nor lose a bit in float64."""
_KEPT: Final = 256


class Question(NamedTuple):
    """What a plan is made for: a structure, where its tables lie, and the variables that stay in the result."""

    structure: Structure
    places: tuple[Place, ...]
    keep: tuple[int, ...] = ()
    limit_bytes: int = LIMIT_BYTES


class Plan:
    """The programs of one question, and the functions that they are compiled to."""

    def __init__(self, question: Question) -> None:
        self.question = question
        structure = question.structure
        clique = Structure(structure.sizes, (*structure.scopes, question.keep)) if question.keep else structure
        self.ordered: Ordered = best_order(clique, limit_bytes=question.limit_bytes, itemsize=ITEMSIZE)
        self.tree: Tree = bucket_tree(structure, self.ordered.order, question.keep)
        self._functions: dict[Any, Callable[..., Any]] = {}

    # ------------------------------------------------------------------ programs
    @cached_property
    def normalized(self) -> frozenset[int]:
        """The nodes whose messages are divided by their largest element where probabilities are multiplied."""
        return frozenset(p for p, node in enumerate(self.tree.nodes) if node.parent != NO_PARENT)

    @cached_property
    def upward(self) -> Program:
        """All messages to the root."""
        return rewritten(emit_upward_program(self.question.structure, self.tree)).program

    @cached_property
    def scaled_upward(self) -> Program:
        """The same with normalized messages."""
        return rewritten(emit_upward_program(self.question.structure, self.tree, self.normalized)).program

    @cached_property
    def partition_program(self) -> Program:
        """Both as one program, with registers numbered on."""
        return joined(self.upward, self.finalize)

    @cached_property
    def finalize(self) -> Program:
        """The partition function from the root's belief."""
        return emit_finalize_program(self.question.structure, self.tree)

    @cached_property
    def downward(self) -> Program:
        """All messages from the root, and the marginal of every variable as the belief of its node."""
        return self._downward(frozenset())

    @cached_property
    def scaled_downward(self) -> Program:
        """The same with normalized messages."""
        return self._downward(self.normalized)

    def _downward(self, normalized: frozenset[int]) -> Program:
        beliefs = {p: node.clique[:1] for p, node in enumerate(self.tree.nodes) if node.parent != NO_PARENT}
        return rewritten(emit_downward_program(self.question.structure, self.tree, beliefs, normalized)).program

    # ------------------------------------------------------------------ arithmetic
    def is_safe(self, spreads: Spreads, limit: float = SAFE) -> bool:
        """Whether normalized messages of probabilities lose nothing: no element that counts can underflow.

        A term of a message is a product of values of the factors below it, so their spreads together bound how far apart
        elements lie. Where no factor below is zero anywhere, the elements differ by the factors that the message's own
        variables touch, whatever the others are.
        """
        below, touching = self._bounds
        total = np.zeros(len(self.tree.nodes))
        positive = np.ones(len(self.tree.nodes), bool)
        for place, factors in enumerate(below):
            total[place] += spreads.logs[list(factors)].sum()
            positive[place] &= bool(spreads.positive[list(factors)].all())
            parent = self.tree.nodes[place].parent
            if parent != NO_PARENT:
                total[parent] += total[place]
                positive[parent] &= positive[place]
        near = np.array([spreads.logs[list(factors)].sum() for factors in touching])
        return bool((np.where(positive, np.minimum(near, total), total) <= limit).all())

    @cached_property
    def _bounds(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """For each node the factors that it loads, and those that touch its clique."""
        touched: list[list[int]] = [[] for _ in self.question.structure.sizes]
        for factor, scope in enumerate(self.question.structure.scopes):
            for v in scope:
                touched[v].append(factor)
        return ([node.factors for node in self.tree.nodes],
                [tuple({f for v in node.clique for f in touched[v]}) for node in self.tree.nodes])

    # ------------------------------------------------------------------ running
    def loader(self, stacks: Sequence[Array]) -> Callable[[int], Array]:
        """Return the function from a factor's number to its array, with axes in the order of elimination."""
        scopes, rank = self.question.structure.scopes, self.tree.rank

        def load(factor: int) -> Array:
            stack, row = self.question.places[factor]
            array, scope = stacks[stack][..., row, *(slice(None),) * len(scopes[factor])], scopes[factor]
            order = sorted(range(len(scope)), key=lambda i: rank[scope[i]])
            lead = array.ndim - len(scope)
            if order == list(range(len(scope))):
                return array
            return array.transpose(*range(lead), *[lead + i for i in order])

        return load

    def run(
        self, programs: Sequence[Program], semiring: Semiring, stacks: Sequence[Array], dtype: Any
    ) -> dict[SlotKey, Array]:
        """Run programs one after the other, and return all slots."""
        slots: dict[SlotKey, Array] = {}
        load = self.loader(stacks)
        for program in programs:
            machine.run(program, semiring, load, slots, dtype=dtype)
        return slots

    def compiled(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Return the fused function kept under a key, made anew if there is none."""
        if key not in self._functions:
            self._functions[key] = fuse(make())
        return self._functions[key]

    # ------------------------------------------------------------------ functions of stacks
    def partition(self, semiring: Semiring, stacks: Sequence[Array], dtype: Any) -> Array:
        """Return the root's result in a semiring: the partition function, or the joint table of what is kept."""
        return self._root(self.run([self.upward, *self._ending], semiring, stacks, dtype))

    def scaled_partition(self, semiring: Semiring, stacks: Sequence[Array], dtype: Any) -> tuple[Array, Array]:
        """Return the root's result of normalized messages, and all the numbers that they were divided by."""
        slots = self.run([self.scaled_upward, *self._ending], semiring, stacks, dtype)
        return self._root(slots), self.scales(self.scaled_upward, slots)

    @property
    def _ending(self) -> list[Program]:
        return [] if self.question.keep else [self.finalize]

    def _root(self, slots: Mapping[SlotKey, Array]) -> Array:
        return slots[belief(self.tree.root) if self.question.keep else PARTITION]

    def scales(self, program: Program, slots: Mapping[SlotKey, Array]) -> Array:
        """Return what a program's messages were divided by, as one array along a last axis."""
        found = [slots[step.args["scale"]] for step in program.instructions if step.op is OpCode.NORMALIZE]
        batch = max((scale.shape for scale in found), key=len, default=())
        return np.stack([np.broadcast_to(scale, batch) for scale in found], axis=-1) if found else np.ones(1)

    def marginals(self, semiring: Semiring, stacks: Sequence[Array], dtype: Any) -> list[Array]:
        """Return the unnormalized marginal of each variable."""
        scaled = semiring in (PROBABILITY, MAX)
        programs = [self.scaled_upward, self.scaled_downward] if scaled else [self.upward, self.downward]
        slots = self.run(programs, semiring, stacks, dtype)
        found: list[Array] = [None] * len(self.question.structure.sizes)
        for place, node in enumerate(self.tree.nodes[:-1]):
            found[node.clique[0]] = slots[belief(place)]
        return found

    def messages(self, semiring: Semiring, stacks: Sequence[Array], dtype: Any) -> list[Array]:
        """Return the message of each node but the root."""
        slots = self.run([self.upward], semiring, stacks, dtype)
        return [slots["msg", place, node.parent] for place, node in enumerate(self.tree.nodes[:-1])]


_PLANS: Final[OrderedDict[Question, Plan]] = OrderedDict()


def plan_for(question: Question) -> Plan:
    """Return the plan of a question: that of an equal one, if it is among the last ones asked."""
    plan = _PLANS.get(question)
    if plan is None:
        plan = _PLANS[question] = Plan(question)
    _PLANS.move_to_end(question)
    if len(_PLANS) > _KEPT:
        _PLANS.popitem(last=False)
    return plan
