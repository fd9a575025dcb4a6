"""What is made once for a structure: order, tree, programs, and the tables of records and functions that run them.

Owns which of them answers a query. Does not own the model's values.
"""
from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.runtime.threads import thread_count
from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.factors.array_records import ArrayRecords
from jitfuse.factors.assembly import Assembled, Layout, assemble
from jitfuse.factors.emit import emit_partition_program
from jitfuse.factors.heap import Heap, Packed
from jitfuse.factors.ir.dataflow import Dataflow, dataflow
from jitfuse.factors.layout import laid_out
from jitfuse.factors.native import run_table, traced_table
from jitfuse.factors.nesting import Modes, Nested, nested
from jitfuse.factors.orders.search import Ordered, best_order
from jitfuse.factors.programs import Programs
from jitfuse.factors.queries import QUERIES
from jitfuse.factors.rewrites.free_early import working
from jitfuse.factors.rewrites.pipeline import Rewritten, rewritten
from jitfuse.factors.schemes import Scheme, schemes_of
from jitfuse.factors.semirings import Array, Semiring
from jitfuse.factors.structure import Structure
from jitfuse.factors.tables import Place
from jitfuse.factors.tree import Tree
from jitfuse.factors.work import ITEMSIZE
from jitfuse.fuse import fuse
from jitfuse.ir.semirings.tables import CARRIERS
from jitfuse.tracing.abstract import AbstractTensor

LIMIT_BYTES: Final = 4 << 30
"""What the messages of one query may take, unless told."""
MOST_OPERATIONS: Final = 1 << 36
"""Products of numbers, of all slices together, that are not too many: some minutes."""
MOST_COMPILED: Final = 1_200
"""Records up to which the steps of arrays are compiled; of more NumPy runs each, which takes microseconds."""
LARGE: Final = 1 << 24
"""Numbers of messages from which on it is worth a second look how they are placed."""
MOST_TOGETHER: Final = 256
CACHED_BYTES: Final = 1 << 23
"""Models of a batch that run at the same time, and bytes of their messages, at most."""
_KEPT: Final = 256


_threads = cache(thread_count)


class Question(NamedTuple):
    """What a plan is made for: a structure, where its tables lie, the variables that stay in the result, the bytes that
    messages may take, whether all messages are kept, and the libraries that are asked for orders too.
    """

    structure: Structure
    places: tuple[Place, ...]
    keep: tuple[int, ...] = ()
    limit_bytes: int = LIMIT_BYTES
    all_messages: bool = False
    libraries: tuple[str, ...] = ()


class Plan:
    """The programs of one question, and the functions that they are compiled to."""

    def __init__(self, question: Question) -> None:
        self.question = question
        structure = question.structure
        clique = Structure(structure.sizes, (*structure.scopes, question.keep)) if question.keep else structure
        self.ordered: Ordered = best_order(
            clique, limit_bytes=question.limit_bytes, keep=question.all_messages,
            most_operations=MOST_OPERATIONS, libraries=question.libraries)
        self.schemes: list[Scheme] = self.ways()
        self.tree: Tree = laid_out(next(s.tree for s in self.schemes if not s.modes), structure.sizes)
        self.programs = Programs(structure, self.tree)
        self._tables: dict[Any, Assembled] = {}
        self._nested: dict[Any, Nested] = {}
        self._functions: dict[Any, tuple[ArrayRecords, Callable[..., Any], Callable[..., Any]]] = {}

    def ways(self, *, every: bool = False) -> list[Scheme]:
        """Return the ways to sum, the best first; `every`: also those that are only shown."""
        question = self.question
        return schemes_of(question.structure, self.ordered, question.keep, question.limit_bytes,
                          kept=question.all_messages, every=every)

    @cached_property
    def partition_passes(self) -> Rewritten:
        """The best scheme as one program, all messages to the root and the partition function, and what each pass did.

        Where it conditions on variables their modes have one value, and the program runs once for each of their states.
        """
        best = self.schemes[0]
        tree, modes = best.tree if best.modes else self.tree, dict.fromkeys(best.modes, 1)
        return rewritten(emit_partition_program(self.question.structure, tree, modes))

    # ------------------------------------------------------------------ what runs
    def loader(self, stacks: Sequence[Array]) -> Callable[[int], Array]:
        """Return the function from a factor's number to its table, with axes in the order of its scope."""
        places, scopes = self.question.places, self.question.structure.scopes
        return lambda f: stacks[places[f].stack][(..., places[f].row, *(slice(None),) * len(scopes[f]))]

    def batched(self, stacks: Sequence[Array]) -> tuple[bool, ...]:
        """Return for each stack whether it has a batch axis in front."""
        return tuple([stack.ndim > 1 + rank for stack, rank in zip(stacks, self.ranks)])

    def ask(self, query: str, semiring: Semiring, stacks: Sequence[Array], dtype: Any) -> Any:
        """Return the answer to a query in any semiring, by steps of the trace that is on or by a compiled function.

        In a trace that has the tables, it is one step where the semiring has derivatives in native code (`CARRIERS`).

        Args:
            query: one of `QUERIES`, without scales.
            semiring: what product and sum are.
            stacks: the tables, an array for each shape; a batch axis may be in front.
            dtype: that of ones.
        """
        batched = self.batched(stacks)
        batch = max([len(stack) for stack, own in zip(stacks, batched) if own], default=1)
        table = self.table(query, batched, batch)
        ready = [np.moveaxis(stack, 0, -1) if own else stack for stack, own in zip(stacks, batched)]
        traced = next((stack for stack in ready if isinstance(stack, AbstractTensor)), None)
        if traced is not None and semiring.carrier in CARRIERS:
            return QUERIES[query].read(self, traced_table(table, semiring.carrier, ready))
        key = query, semiring, np.dtype(dtype), batched, batch
        if key not in self._functions:
            steps = ArrayRecords(table, tuple([stack.size for stack in ready]))

            def answer(stacks: Sequence[Array], offsets: Array) -> Any:
                return QUERIES[query].read(self, steps.run(semiring, stacks, offsets, dtype))

            self._functions[key] = steps, answer, fuse(answer)
        steps, plain, compiled = self._functions[key]
        if traced is not None:
            return plain(ready, traced._lift(steps.offsets))
        if len(steps.steps) <= MOST_COMPILED:
            return compiled(ready, steps.offsets)
        with np.errstate(all="ignore"):
            return plain(ready, steps.offsets)

    def run(
        self, query: str, semiring: Semiring, stacks: Sequence[np.ndarray], dtype: Any, *, modulus: int = 0
    ) -> tuple[Any, float]:
        """Return the answer to a query, from native code, and the smallest number but 0 of all normalized messages,
        their scales and one over these.

        Args:
            query: one of `QUERIES`.
            semiring: one with a carrier.
            stacks: the tables, an array for each shape; a batch axis may be in front.
            dtype: float64 or float32.
            modulus: that of residues.
        """
        batched = self.batched(stacks)
        whole = max([len(stack) for stack, own in zip(stacks, batched) if own], default=0)
        found, least = [], math.inf
        for start in range(0, max(whole, 1), self._together):
            size = min(self._together, whole - start)
            # a batch runs along the last axes
            ready = [np.ascontiguousarray(np.moveaxis(s[start : start + size], 0, -1) if own else s, dtype)
                     for s, own in zip(stacks, batched)]
            table = self.table(query, batched, size if whole else 1, threads=_threads())
            slots, smallest = run_table(table, semiring, ready, dtype, modulus=modulus)
            found.append(slots)
            least = min(least, smallest)
        slots = found[0] if len(found) == 1 else {key: np.concatenate([part[key] for part in found]) if (
            found[0][key].ndim > tensor.spec.ndim) else found[0][key] for key, tensor in table.slots.items()}
        return QUERIES[query].read(self, slots), least

    @cached_property
    def _together(self) -> int:
        """How many models of a batch run at the same time: their messages stay in a cache, and below the limit."""
        bytes_of_one = max(1, self.ordered.cost.bytes(keep=True))
        return max(1, min(MOST_TOGETHER, min(CACHED_BYTES, self.question.limit_bytes) // bytes_of_one))

    def table(
        self, query: str, batched: tuple[bool, ...], batch: int, *, reuses: bool = True, threads: int = 1
    ) -> Assembled:
        """Return the records of a query, for stacks with and without a batch of this size.

        `reuses`: what nothing reads any more gives its memory to others. `threads`: how many share branches out, unless
        their memory, which is apart, would pass the limit.
        """
        key = query, batched, batch, reuses, threads
        if key not in self._tables:
            heap = Heap(reuses=reuses)
            table = self._assembled(query, batched, batch, heap, threads if reuses else 1)
            passes = (table.workspace + table.size) * ITEMSIZE > self.question.limit_bytes
            if reuses and passes and threads > 1:
                table = self.table(query, batched, batch)
            elif reuses and threads == 1 and (passes or table.workspace >= LARGE):
                table = self._assembled(query, batched, batch, Packed(heap.lives), 1)
            self._tables[key] = table
        return self._tables[key]

    def _assembled(
        self, query: str, batched: tuple[bool, ...], batch: int, heap: Heap, threads: int
    ) -> Assembled:
        layout = Layout(self.question.places.__getitem__, batched, batch)
        with PAUSED:
            return assemble(self._flow(query), layout, QUERIES[query].has, heap=heap, threads=threads)

    def nested(self, query: str, modes: Modes, sizes: tuple[int, ...]) -> Nested:
        """Return the records of a query for all states of modes in turn.

        Args:
            query: one of `QUERIES`.
            modes: those of each factor.
            sizes: number of states of each mode.
        """
        key = query, modes, sizes
        if key not in self._nested:
            layout = Layout(self.question.places.__getitem__, (False,) * len(self.ranks), 1)
            self._nested[key] = nested(self._flow(query), modes, sizes, layout, QUERIES[query].has,
                                       self.question.limit_bytes)
        return self._nested[key]

    def _flow(self, query: str) -> Dataflow:
        names = [name for name in QUERIES[query].programs if not (name == "finalize" and self.question.keep)]
        return dataflow(*[working(self.programs.program(name, scaled=QUERIES[query].scaled)) for name in names])

    @cached_property
    def ranks(self) -> list[int]:
        """The number of axes of the tables of each stack."""
        found = dict(zip((p.stack for p in self.question.places), map(len, self.question.structure.scopes)))
        return [found[k] for k in range(len(found))]


_PLANS: Final[OrderedDict[Question, Plan]] = OrderedDict()


def plan_for(question: Question) -> Plan:
    """Return the plan of a question: that of an equal one, if it is among the last ones asked."""
    plan = _PLANS.get(question)
    if plan is None:
        with PAUSED:
            plan = _PLANS[question] = Plan(question)
    try:
        _PLANS.move_to_end(question)
    except KeyError:  # another thread needed the room
        _PLANS[question] = plan
    if len(_PLANS) > _KEPT:
        _PLANS.popitem(last=False)
    return plan
