"""Decide which steps share a kernel: fusion as grouping, with a reason for every rejected merge.

*Anchors* are reductions, scans, and values that must lie in memory. They are taken in program order. Each joins an
earlier group if that is legal and worth it, else it opens a group. Everything between anchors is computed inside the
groups that need it. Owns how groups form, and which step may join which. Does not own the record of a group
(`jitfuse.plans.group`), what a value needs (`jitfuse.plans.probing`), bodies (`jitfuse.plans.body`) or costs
(`jitfuse.plans.score`).
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jitfuse import reasons
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.contraction import contraction_frame, sides
from jitfuse.plans.frame import Frame, MisalignedError, ValueKey, reduced_axes
from jitfuse.plans.group import (
    MAX_OPERANDS,
    Group,
    RefusedMerge,
    TouchedValues,
    is_few_and_long,
    is_of_long_columns,
    is_per_point,
    is_scan,
    may_reduce,
    moves,
    reduces,
    reframed,
    result_placing,
)
from jitfuse.plans.inlining import MAX_STEPS, RECOMPUTE_COST
from jitfuse.plans.layout import Lin
from jitfuse.plans.lifetimes import HELD_COST, Lifetimes
from jitfuse.plans.policy import DEFAULT, LoweringPolicy
from jitfuse.plans.probing import Probing
from jitfuse.plans.values import Values
from jitfuse.reasons import Reason

_WINDOW: Final = 24


class Grouping(Probing):
    """Groups the steps of a primitive program. `materialise` adds values that must be stored.

    `by_bytes` says whether groups will be ordered to hold little memory: only then can keeping values in separate
    groups save memory.
    """

    def __init__(
        self, program: FusedProgram, values: Values, materialise: Iterable[int] = (), policy: LoweringPolicy = DEFAULT,
        *, by_bytes: bool = True,
    ) -> None:
        super().__init__(program, values)
        self.policy = policy
        self.choices: set[str] = set()
        """The choices of a policy that make a difference to these groups."""
        self.groups: list[Group] = []
        self.refusals: list[RefusedMerge] = []
        self._reachable: list[int] = []
        """For each group the set of groups that must run before it, directly or not, as bits."""
        self._needed_by: list[set[int]] = []
        self._must = values.must | set(materialise)
        self._lifetimes = Lifetimes(program, values, self._must, self.order) if by_bytes else None
        self._last_reader: dict[int, int] = {}
        """The last group that reads a value from memory: another reader of it joins it, however many came since."""
        self._readers: dict[int, set[int]] = {head: set() for head, _, _ in values.windows.values()}
        """The groups that read an array that is updated in place, since its last update."""
        for step in program.steps:
            self._visit(step)
        self._store_what_others_read()

    def _store_what_others_read(self) -> None:
        for group in self.groups:
            for value in sorted({v for v, _ in group.leaves}):
                home = self.home.get(value)
                if home is not None and value not in self.groups[home].roots:
                    self.groups[home].roots.append(value)

    # ------------------------------------------------------------------ anchors
    def _visit(self, step: OpStep) -> None:
        op = ops.get(step.op_name)
        assert op is not None
        value = step.result_id
        if value in self.values.own:
            self._open_contraction(step)
            return
        if op.kind in ops.ON_HOST:
            frame = Frame(self.program.meta[value].shape, ())
            group = Group(len(self.groups), frame, host=step, roots=[*step.result_ids])
            for i in step.input_ids:
                self._need(group, self._homes([self.values.version(i)]))
                self._note_reader(group, self.values.base(i))
            for result in step.result_ids:
                if result in self.values.windows:  # the loop writes over its initial value
                    head = self.values.windows[result].base
                    self._need(group, self._readers[head] - {group.number})
                    self._readers[head].clear()
            self._add(group)
            return
        if value in self.values.windows:
            self._open_window(step)
            return
        is_reduction = reduces(step, self.values.inlining.unrolled)
        if is_reduction or value in self._must:
            self._place_anchor(step, is_reduction)

    def _place_anchor(self, step: OpStep, is_reduction: bool) -> None:
        reached, near = self._groups_reached(step)
        recent = range(max(len(self.groups) - _WINDOW, 0), len(self.groups))
        read = self.read_by(step.result_id)
        touched = {leaf for leaf, _ in read.leaves} | read.inlined
        for number in (*reversed(recent), *sorted(near.difference(recent), reverse=True)):
            group = self.groups[number]
            after = reached >> group.number & 1
            reason = reasons.BETWEEN if after else self._try_join(step, is_reduction, group, touched)
            if reason is None:
                return
            if reason is not reasons.UNRELATED:
                self.refusals.append(RefusedMerge(step.step_id, group.number, reason))
        self._open(step, is_reduction)

    def _groups_reached(self, step: OpStep) -> tuple[int, set[int]]:
        """Return the groups, as bits, that must run before a step's operands are in memory: it cannot join them.

        And those that were the last to read what the step reads from memory, or that make it.
        """
        leaves: set[int] = set()
        near: set[int] = set()
        seen, stack = set(step.input_ids), list(step.input_ids)
        while stack:
            value = stack.pop()
            if value in self._last_reader:
                near.add(self._last_reader[value])
            if value in self.home:
                leaves.add(value)
                near.add(self.home[value])
            elif value in self.program.producers and value not in self.values.memory:
                fresh = [i for i in self.program.producers[value].input_ids if i not in seen]
                seen.update(fresh)
                stack += fresh
        reached = 0
        for home in self._homes(leaves):
            reached |= self._reachable[home]
        return reached, near

    def _open(self, step: OpStep, is_reduction: bool) -> None:
        value = step.result_id
        if is_reduction:
            shape = self.program.meta[step.input_ids[0]].shape
            frame = Frame(shape, reduced_axes(self.program, step))
            group = Group(len(self.groups), frame, split=self._is_split(frame, step))
            probe = self.probe(frame, frozenset({value}), ValueKey(step.input_ids[0], frame.full_map()), group)
            group.reductions.append(step)
        else:
            frame = Frame(self.program.meta[value].shape, ())
            group = Group(len(self.groups), frame)
            probe = self.probe(frame, frozenset(), ValueKey(value, frame.full_map()), group)
        self._absorb(group, value, probe, result_placing(step) if is_reduction else "whole")
        self._add(group)

    def _open_window(self, step: OpStep) -> None:
        """Open the kernel that stores an update in place, after all groups that read the array before the update."""
        base, *read = step.input_ids
        head, _, layout = self.values.windows[step.result_id]
        group = Group(len(self.groups), Frame(layout.shape, ()), window=step)
        for value in read:
            self._absorb(group, step.result_id, self.read_by(value), "whole")
        self._need(group, (self._homes([base]) | self._readers[head]) - {group.number})
        self._readers[head].clear()
        self._add(group)

    def _note_reader(self, group: Group, base: int) -> None:
        if base in self._readers:
            self._readers[base].add(group.number)

    def _open_contraction(self, step: OpStep) -> None:
        """Open the kernel of a contraction, which also computes the operands."""
        frame = contraction_frame(self.program, step)
        group = Group(len(self.groups), frame, contraction=step)
        for key in sides(self.program, step, frame):
            probe = self.probe(frame, frozenset(), key, group)
            self._absorb(group, step.result_id, probe, "whole")
        self._add(group)

    def _add(self, group: Group) -> None:
        self.groups.append(group)
        for value in (*group.roots, *group.fused):
            self.home[value] = group.number

    def _absorb(self, group: Group, value: int, probe: TouchedValues, placing: str) -> None:
        if value in self._must and value not in group.roots:
            group.roots.append(value)
        group.placings[value] = placing
        group.leaves |= probe.leaves
        for leaf, _ in probe.leaves:
            self._note_reader(group, self.values.base(leaf))
            self._last_reader[leaf] = group.number
        group.inlined |= probe.inlined
        group.size += probe.size
        group.reach.update(probe.reach)
        group.depths[value] = probe.depth
        self._need(group, self._homes(v for v, _ in probe.leaves) - {group.number})
        self.home[value] = group.number

    def _need(self, group: Group, needs: set[int]) -> None:
        """Make groups run before a group, and so before all that need it."""
        while len(self._reachable) <= group.number:
            self._reachable.append(0)
            self._needed_by.append(set())
        reached = 0
        for n in needs - group.needs:
            reached |= self._reachable[n] | 1 << n
            self._needed_by[n].add(group.number)
        group.needs |= needs
        todo = {group.number}
        while todo:
            number = todo.pop()
            if reached | self._reachable[number] != self._reachable[number]:
                self._reachable[number] |= reached
                todo |= self._needed_by[number]

    def _homes(self, values: Iterable[int]) -> set[int]:
        return {self.home[v] for v in values if v in self.home}

    # ------------------------------------------------------------------ joining
    def _try_join(self, step: OpStep, is_reduction: bool, group: Group, touched: set[int]) -> Reason | None:
        """Have a step join a group, or return why not; `touched` is all that the step reads and computes."""
        if group.host is not None or group.window is not None:
            return reasons.UNRELATED
        value, reason = step.result_id, reasons.INDEX_SPACES
        for frame, key, placing in self._candidates(step, is_reduction, group):
            if not self._may_share(group, frame, touched):
                return reasons.UNRELATED
            fused = group.fused | ({value} if is_reduction else frozenset())
            try:
                probe = self.probe(frame, fused, key, group)
            except MisalignedError:
                reason = reasons.MISALIGNED
                continue
            if placing == "whole" and not is_reduction and is_per_point(frame, probe):
                continue
            leaves = group.leaves if frame == group.frame else reframed(group.leaves, group.frame, frame)
            refused = self._rejects(group, frame, leaves, probe, key, step if is_reduction else None)
            if refused is None and placing == "whole" and self._holds_more(group, value):
                refused = reasons.HELD_VALUES
            if refused is None:
                if frame != group.frame:
                    group.frame, group.leaves, group.reach = frame, leaves, {}
                if is_reduction:
                    group.reductions.append(step)
                self._absorb(group, value, probe, placing)
                return None
            reason = refused
        return reason

    def _may_share(self, group: Group, frame: Frame, touched: set[int]) -> bool:
        """Return whether a step that touches these values may share one with a group, without a look at index maps.

        Numbers do not count, unless the group reduced them: all kernels of an optimiser read its rates.
        """
        if not frame.shape or not touched.isdisjoint(group.roots) or not touched.isdisjoint(group.fused):
            return True
        shared = touched.intersection([leaf for leaf, _ in group.leaves]) | (touched & group.inlined)
        return any(self.program.meta[value].shape for value in shared)

    def _candidates(self, step: OpStep, is_reduction: bool, group: Group) -> Iterable[tuple[Frame, ValueKey, str]]:
        if is_reduction:
            shape = self.program.meta[step.input_ids[0]].shape
            frame = Frame(shape, reduced_axes(self.program, step))
            if shape == group.frame.shape and may_reduce(group, frame):
                yield frame, ValueKey(step.input_ids[0], frame.full_map()), result_placing(step)
        else:
            for placing, index in group.frame.maps(self.program.meta[step.result_id].shape):
                yield group.frame, ValueKey(step.result_id, index), placing

    def _rejects(
        self, group: Group, frame: Frame, leaves: set[tuple[int, Any]], probe: TouchedValues, key: ValueKey,
        reduction: OpStep | None,
    ) -> Reason | None:
        shared = (leaf for leaf in probe.leaves if leaf in leaves)
        if not probe.related and not any(moves(where) or not frame.shape for _, where in shared):
            return reasons.UNRELATED
        swept = any(a >= len(frame.grid_axes) for p in key.where if isinstance(p, Lin) for a, _ in p.terms)
        if swept and probe.depth and not group.split and (is_few_and_long(frame) or is_of_long_columns(frame)):
            self.choices.add("one_pass")
            if not self.policy.one_pass:
                return reasons.SWEPT_ROWS
        splits = reduction is not None and not group.reductions and self._is_split(frame, reduction)
        alone = reduction is not None and not is_scan(reduction) and not probe.depth
        if splits or (group.split and swept and not alone):
            return reasons.SPLIT_REDUCTION
        if group.split and reduction is None and not group.frame.reduced:
            return reasons.SPLIT_REDUCTION
        if self._makes_cycle(group, probe):
            return reasons.BETWEEN
        if len(leaves | probe.leaves) + len(group.roots) >= MAX_OPERANDS:
            return reasons.MANY_OPERANDS
        if group.size + probe.size > MAX_STEPS:
            return reasons.LARGE_KERNEL
        return None

    def _holds_more(self, group: Group, value: int) -> bool:
        """Return whether storing a value in a group would cost more in memory held than it saves in reads."""
        if self._lifetimes is None or not (held := self._lifetimes.held_longer(group, value)):
            return False
        wanted = {leaf for leaf, _ in self.read_by(value).leaves}
        return HELD_COST * held > self._lifetimes.saved_by(group, wanted)

    def _is_split(self, frame: Frame, step: OpStep) -> bool:
        """Return whether a reduction is split; scans, and reductions whose rows the kernel sweeps again, cannot be."""
        if is_scan(step) or not is_few_and_long(frame):
            return False
        self.choices.add("split")
        return self.policy.split and not (self.policy.one_pass and self.values.is_swept_again(step.result_id))

    def _makes_cycle(self, group: Group, probe: TouchedValues) -> bool:
        needed = self._homes(v for v, _ in probe.leaves)
        # memory written by this very group cannot be read in it
        return group.number in needed or any(self._reachable[g] >> group.number & 1 for g in needed)


def computed_twice(program: FusedProgram, grouping: Grouping) -> set[int]:
    """Return the dear values that several groups compute; of nested ones only the outermost."""
    costs = grouping.values.inlining.costs
    groups_of: dict[int, set[int]] = {}
    for group in grouping.groups:
        for value in group.inlined:
            if costs[value] >= RECOMPUTE_COST and value not in grouping.home:
                groups_of.setdefault(value, set()).add(group.number)
    shared = {v for v, gs in groups_of.items() if len(gs) > 1}
    return {
        v for v in shared
        if not all(c.result_id in shared for c in program.consumers.get(v, ()))
    }
