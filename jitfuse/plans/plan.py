"""The plan hierarchy: a ProgramPlan lowers to CandidatePlans; the best specialises into PlanSteps.

A `ProgramPlan` is what to compute, and a lowering policy. A `CandidatePlan` is one way of computing it: an ordered
tuple of kernels and library calls. Plans compete by an estimate over the reference shape of a size class. `specialise`
gives the `RuntimePlan` of one shape: launches with kernel arguments, library calls, the arena, the final writes. Owns
the choice. Does not own grouping, bodies or forms.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple, Record, fresh
from jitfuse.dtypes import itemsize
from jitfuse.ir.program import Attrs, FusedProgram, OpStep
from jitfuse.plans.algebra import regrouped, vectors_summed
from jitfuse.plans.chain import chain
from jitfuse.plans.commits import Target, write_in_place
from jitfuse.plans.contraction import is_contraction
from jitfuse.plans.contraction_cost import CALL_NS, library_ns, size_class
from jitfuse.plans.equal_kernels import EqualKernels
from jitfuse.plans.frame import contiguous_layout
from jitfuse.plans.group import Group, RefusedMerge
from jitfuse.plans.groups import Grouping, computed_twice
from jitfuse.plans.kernels import build_commit, build_group, build_reservations, partial_bytes
from jitfuse.plans.launch import Launch
from jitfuse.plans.layout import Layout
from jitfuse.plans.memory import live_intervals, plan_arena
from jitfuse.plans.order import batched, execution_order
from jitfuse.plans.policy import DEFAULT, OF_PRODUCTS, LoweringPolicy, descend
from jitfuse.plans.score import Score, class_ns, reference_ns, score
from jitfuse.plans.structure import structure
from jitfuse.plans.updates import updated_in_place
from jitfuse.plans.values import BufferView, Commit, Values
from jitfuse.tracing.schedule.scheduler import BY_BYTES

LONG: Final = 500
"""Longer programs take the default of every choice but those of products: each choice costs one more planning."""
Buffer = tuple[str, int]
"""("feed", id), ("const", id), ("value", id), ("partial", id), ("positions", id) or ("reserved", id)."""


class HostOperand(NamedTuple):
    """An array that a library call reads or writes: a strided window into a buffer."""

    buffer: Buffer
    offset: int
    dtype: str
    layout: Layout


class HostCall(NamedTuple):
    """A library call, a loop or a branch: the operator's name and attributes, what it reads and writes, the user's
    line.

    Also the plans of the programs among its attributes, once `jitfuse.compile.planning` has made them."""

    name: str
    attrs: Attrs
    inputs: tuple[HostOperand, ...]
    outputs: tuple[HostOperand, ...]
    step: int
    source: str | None
    bodies: tuple[tuple[str, Any], ...] = ()


PlanStep = Launch | HostCall


class PlannedGroup(NamedTuple):
    """The values that one kernel or library call makes, stored or not."""

    name: str
    values: frozenset[int]


class RuntimePlan(NamedTuple):
    """Everything that a call of one shape does, in order."""

    program: FusedProgram
    kind: str
    steps: tuple[PlanStep, ...]
    commits: tuple[Launch, ...]
    outputs: tuple[int, ...]
    views: Mapping[int, BufferView]
    offsets: Mapping[Any, int]
    sizes: Mapping[Any, int]
    arena_bytes: int
    score: Score
    losers: tuple[tuple[str, Score], ...]
    refusals: tuple[RefusedMerge, ...]
    groups: tuple[PlannedGroup, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All kernel launches, those that write arguments and state last."""
        return (*(s for s in self.steps if isinstance(s, Launch)), *self.commits)


class ProgramPlan(Record, frozen=True, eq=False):
    """What to compute: a primitive program of one mode, the layouts of its array feeds, how its steps are ordered."""

    program: FusedProgram
    layouts: Mapping[int, Layout]
    schedule: str = "slack"
    in_place: bool = True
    """Whether long chains of updates may be stored in place."""
    donated: Mapping[int, int] = fresh(default_factory=dict)
    """Feeds whose memory an output may take, with the number of that output."""
    known: EqualKernels = fresh(default_factory=EqualKernels)
    batches: bool = True
    """Whether launches of one form may run as one."""
    chosen: dict[int, LoweringPolicy] | None = None
    """The best policies of other programs by their structure; new ones are added. None: all choices compete."""

    def lower(self, policy: LoweringPolicy = DEFAULT) -> CandidatePlan:
        """Return the plan of one policy; candidates are ordered by the quick scheduling methods alone."""
        return CandidatePlan(self, policy, "slack" if self.schedule == "ilp" else self.schedule)

    def candidates(self) -> list[CandidatePlan]:
        """Return the competing plans, the best first, by their cost over the reference shapes of their size class."""
        competing = LoweringPolicy._fields if len(self.program.steps) <= LONG else ("own",)
        name = None if self.chosen is None else structure(self.program, self.layouts)
        if self.chosen is None or name is None:
            return descend(self.lower, _cost, competing)
        products = any(map(is_contraction, self.program.steps))
        made = descend(self.lower, _cost, competing, self.chosen.get(name), products=products)
        self.chosen[name] = made[0].policy
        return made

    def written_by(self, policy: LoweringPolicy) -> tuple[FusedProgram, set[str]]:
        """Return the program with its products written as a policy says, and the choices that make a difference."""
        program, choices = self._updated, set()
        if self._regrouped is not program:
            choices.add("regroup")
        if policy.regroup:
            program = self._regrouped
        summed = self._with_vectors_summed if policy.regroup else vectors_summed(program)
        if summed is not program:
            choices.add("own")
        return summed if policy.own else program, choices

    @cached_property
    def _regrouped(self) -> FusedProgram:
        return regrouped(self._updated)

    @cached_property
    def _with_vectors_summed(self) -> FusedProgram:
        return vectors_summed(self._regrouped)

    @cached_property
    def _updated(self) -> FusedProgram:
        return updated_in_place(self.program, self.donated) if self.in_place else self.program

    def best(self) -> RuntimePlan:
        """Return the runtime plan of the best candidate."""
        winner, *losers = self.candidates()
        if self.schedule == "ilp":
            orders = [winner, *(CandidatePlan(self, winner.policy, method) for method in ("asap", "ilp"))]
            winner = min(orders, key=lambda plan: plan.arena_bytes)
        return winner.specialise(tuple((loser.kind, loser.score) for loser in losers))


class CandidatePlan:
    """One way of computing an ProgramPlan."""

    def __init__(self, plan: ProgramPlan, policy: LoweringPolicy, schedule: str) -> None:
        self.plan = plan
        self.policy = policy
        self.program, algebra = plan.written_by(policy)
        self.grouping = grouping = _grouping(self.program, plan, policy)
        program, keeps_rows = self.program, False
        self.outputs = _output_buffers(program, grouping.values)
        self.steps: list[PlanStep] = [*build_reservations(program, grouping)]
        self._groups: list[PlannedGroup] = []
        written = [grouping.values.base(c.value) for c in grouping.values.commits]
        kernels = 0
        for number in execution_order(grouping, self._arena_values(), written, schedule):
            group = grouping.groups[number]
            self._groups.append(_planned(group, kernels))
            kernels += group.host is None
            if group.host is not None:
                self.steps.append(_host_call(program, grouping.values, group.host))
                continue
            launches, kept = build_group(program, grouping, group, plan.known, keep=policy.keep)
            keeps_rows |= kept
            self.steps += [launch for launch in launches if not launch.empty]
        commits = [(c, build_commit(program, grouping, c)) for c in grouping.values.commits]
        commits = [(c, launch) for c, launch in commits if not launch.empty]
        self.commits = [launch for _, launch in commits]
        chains = self._chain()
        if plan.in_place and commits:
            targets = [self._target(c) for c, _ in commits]
            self.steps, done = write_in_place(self.steps, self._touched(self.steps), targets)
            self.commits = [launch for k, (_, launch) in enumerate(commits) if k not in done]
        sizes = self._temporaries()
        if plan.batches:
            self.steps = batched(self.steps, self._touched(self.steps), sizes)
            self.commits = batched(self.commits, self._touched(self.commits), sizes)
        self.offsets, self.sizes, self.arena_bytes = self._plan_memory(sizes)
        rows = {"keep"} if keeps_rows or not policy.keep else set()
        found = algebra | ({"chain"} if chains else set())
        self.choices = frozenset(grouping.choices | grouping.values.choices | rows | found)

    @property
    def kind(self) -> str:
        """A text that distinguishes this plan from others of its program."""
        return self.policy.text(self.choices)

    def _arena_values(self) -> dict[int, int]:
        """Return the bytes of the values in the arena: all that groups store except results."""
        meta = self.program.meta
        return {
            value: meta[value].size * itemsize(meta[value].dtype)
            for group in self.grouping.groups for value in group.roots
            if value not in self.outputs and value not in self.grouping.values.windows
        }

    def _chain(self) -> bool:
        """Chain contractions if the policy says so; return whether there are any to chain."""
        delivered = {("value", v) for v in self.outputs}
        late = {b for c in self.commits for b, _ in c.buffers}
        made = chain(self.steps, self._touched(self.steps), delivered | late)
        found = len(made) < len(self.steps)
        if self.policy.chain:
            self.steps = made
        return found

    @staticmethod
    def _touched(steps: Sequence[PlanStep]) -> list[set[Any]]:
        return [{b for b, _ in buffers_of(s)} for s in steps]

    def _target(self, commit: Commit) -> Target | None:
        """Return what a commit writes where it is a plain copy of a whole temporary value into a whole argument."""
        values, meta, value = self.grouping.values, self.program.meta, commit.value
        plain = value not in values.views and value not in values.memory and value not in self.outputs
        whole = not commit.offset and commit.layout == contiguous_layout(meta[value]) and (
            meta[value].dtype == meta[commit.feed].dtype)
        return Target(("value", value), ("feed", commit.feed)) if plain and whole else None

    def _temporaries(self) -> dict[Any, int]:
        """Return the bytes of each buffer in the arena."""
        program = self.program
        sizes: dict[Any, int] = {}
        for step in self.steps:
            if isinstance(step, Launch):
                sizes.update(partial_bytes(step))
        for feed in self.grouping.values.reserved:
            sizes["reserved", feed] = program.meta[feed].size * itemsize(program.meta[feed].dtype)
        sizes.update({("value", value): nbytes for value, nbytes in self._arena_values().items()})
        return sizes

    def _plan_memory(self, sizes: Mapping[Any, int]) -> tuple[dict[Any, int], dict[Any, int], int]:
        touched: list[list[Any]] = []
        for step in (*self.steps, *self.commits):
            if not (isinstance(step, Launch) and step.batched):
                touched.append([])
            touched[-1] += [b for b, _ in buffers_of(step)]
        intervals = live_intervals(sizes, touched)
        offsets, total = plan_arena(intervals)
        return offsets, {b: i.size for b, i in intervals.items()}, total

    @cached_property
    def score(self) -> Score:
        """The plan's cost over size classes."""
        return score(self.launches, self._libraries, self.arena_bytes, list(self.sizes.values()))

    @property
    def _libraries(self) -> list[int]:
        """Return the estimated nanoseconds of each library call."""
        return [_library_ns(s) for s in self.steps if isinstance(s, HostCall)]

    def cost_ns(self, choice: str) -> int:
        """Return the estimated time by which a choice is made, over the reference shapes of the launches.

        Choices about products depend on sizes, and so do the others beside products: they are compared over extents
        rounded up to powers of two.
        """
        sized = choice in OF_PRODUCTS or self._libraries or any(launch.form.contracted for launch in self.launches)
        return class_ns(self.launches, self._libraries) if sized else self.reference_ns

    @cached_property
    def reference_ns(self) -> int:
        """The estimated time over the reference shapes of the launches."""
        return reference_ns(self.launches, max((m.size for m in self.program.meta.values()), default=1))

    @property
    def launches(self) -> list[Launch]:
        """All kernel launches, those that write arguments and state last."""
        return [*(s for s in self.steps if isinstance(s, Launch)), *self.commits]

    def specialise(self, losers: tuple[tuple[str, Score], ...]) -> RuntimePlan:
        """Return the runtime plan for the call's shapes."""
        grouping = self.grouping
        return RuntimePlan(
            self.program, self.kind, tuple(self.steps), tuple(self.commits), self.outputs,
            grouping.values.views, self.offsets, self.sizes, self.arena_bytes, self.score, losers,
            tuple(grouping.refusals), tuple(self._groups),
        )


def _cost(plan: CandidatePlan, choice: str) -> tuple[Any, ...]:
    return plan.cost_ns(choice), plan.score[1:]


def _planned(group: Group, kernels: int) -> PlannedGroup:
    if group.host is not None:
        return PlannedGroup(f"library call: {group.host.op_name}", frozenset(group.host.result_ids))
    return PlannedGroup(f"kernel {kernels}", frozenset(group.inlined | group.fused | set(group.roots)))


def _grouping(program: FusedProgram, plan: ProgramPlan, policy: LoweringPolicy) -> Grouping:
    """Return the fusion groups; dear values that several groups would compute are stored once if that pays."""
    values = Values(program, plan.layouts, policy, plan.in_place, plan.donated)
    by_bytes = plan.schedule in BY_BYTES
    first = Grouping(program, values, policy=policy, by_bytes=by_bytes)
    twice = {v for v in computed_twice(program, first) if values.inlining.store(v)}
    return Grouping(program, values, twice, policy, by_bytes=by_bytes) if twice else first


def buffers_of(step: PlanStep) -> list[tuple[Any, int]]:
    """Return the (buffer, byte offset) pairs that a runtime step touches."""
    if isinstance(step, Launch):
        return list(step.buffers)
    return [(o.buffer, o.offset) for o in (*step.inputs, *step.outputs)]


def _output_buffers(program: FusedProgram, values: Values) -> tuple[int, ...]:
    """Return the values whose buffers become results, each once, in output order."""
    bases = dict.fromkeys(values.base(v) for v in program.outputs.values())
    return tuple(base for base in bases if base not in values.memory)


def _library_ns(step: HostCall) -> int:
    shape = step.outputs[0].layout.shape
    if step.name != "matmul":
        return CALL_NS + sum(math.prod(map(size_class, o.layout.shape)) for o in step.outputs)
    a, b = step.inputs
    left, right = a.layout.shape, b.layout.shape
    # NumPy makes the library form only half of a product of a matrix and its transpose
    same_window = a.buffer == b.buffer and a.offset == b.offset and len(left) == len(right) == 2
    symmetric = same_window and left == right[::-1] and a.layout.strides == b.layout.strides[::-1]
    rows, lanes = left[-2] if len(left) > 1 else 1, right[-1] if len(right) > 1 else 1
    batch = shape[: len(shape) - (len(left) > 1) - (len(right) > 1)]
    return library_ns(step.outputs[0].dtype, math.prod(batch), rows, lanes, left[-1], symmetric=symmetric)


def _host_call(program: FusedProgram, values: Values, step: OpStep) -> HostCall:
    inputs = tuple(_host_operand(program, values, i) for i in step.input_ids)
    outputs = tuple(_host_operand(program, values, i) for i in step.result_ids)
    source = program.sources.get(step.step_id)
    return HostCall(step.op_name, step.attrs, inputs, outputs, step.step_id, source)


def _host_operand(program: FusedProgram, values: Values, value: int) -> HostOperand:
    base, offset, layout = values.layout(value)
    buffer = values.buffer(base)
    return HostOperand(buffer, offset, program.meta[value].dtype, layout)
