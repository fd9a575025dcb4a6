"""Find what computing a value in a kernel would touch: memory, steps, reductions.

Owns the walk from a value under an index map down to memory, as kernels under construction see it. Does not own what
follows for fusion (`jitfuse.plans.groups`) or the bodies themselves (`jitfuse.plans.body`).
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jitfuse.ir.program import FusedProgram
from jitfuse.plans.body import BodyBuilder, Locate
from jitfuse.plans.frame import Frame, MisalignedError, ValueKey, contiguous_layout
from jitfuse.plans.group import Group, Reach, TouchedValues, is_scan, moves, sweeps
from jitfuse.plans.inlining import DEAR
from jitfuse.plans.layout import Layout, Lin
from jitfuse.plans.values import Values


class Probing:
    """Probes values of a program; `home` maps each value that a kernel stores or reduces to its group."""

    def __init__(self, program: FusedProgram, values: Values) -> None:
        self.program = program
        self.values = values
        self.home: dict[int, int] = {}
        self.order = {r: k for k, s in enumerate(program.steps) for r in s.result_ids}

    def locator(self, own: Collection[int] = ()) -> Locate:
        """Return a function from values to their memory, for a kernel that computes the values in `own` itself."""

        def locate(value: int) -> tuple[Any, Layout] | None:
            if value in own:
                return None
            if value in self.values.memory:
                return self.values.memory[value]
            if value in self.home:
                return self.values.buffer(value), contiguous_layout(self.program.meta[value])
            return None

        return locate

    def probe(self, frame: Frame, fused: frozenset[int], key: ValueKey, group: Group) -> TouchedValues:
        """Return what computing a value in a group's kernel would touch, with the group under `frame`.

        `fused` are the reductions, scans and contractions that it computes. Raises MisalignedError if one of them, or a
        dear value that it stores, is needed at another index than the one that computes it.
        """
        own = set(group.roots)
        if key.value not in self.values.memory and key.value not in self.home:
            own.add(key.value)

        locate = self.locator(own | fused)
        builder = BodyBuilder(
            self.program, frame, locate, fused, self.values.inlining.unrolled, keep=False, contraction=group.contraction
        )
        builder.open_stage()
        roots = {r: frame.map_of(group.placings[r]) for r in group.roots}
        known = group.reach if frame == group.frame else {}
        probe, inner, stack = TouchedValues(), range(len(frame.grid_axes), len(frame.shape)), [key]
        met, computed = {key}, {}
        while stack:
            top = stack.pop()
            if top in known:  # the group computes it, with everything below
                probe.reach[top] = known[top]
                probe.related |= known[top].depth > 0 or moves(top.where) or not frame.shape
            elif locate(top.value) is not None:
                probe.leaves.add((top.value, top.where))
                probe.reach[top] = Reach(swept=sweeps(top.where, inner))
            elif top.value in fused:
                builder.dependencies(top)
                probe.related = True
                contracted = group.contraction is not None and top.value == group.contraction.result_id
                depth = group.depths.get(top.value, 0)
                swept = contracted or is_scan(self.program.producers[top.value])
                probe.reach[top] = Reach(0 if contracted else depth, swept=True) if swept else Reach(depth + 1)
            else:
                if top.value in roots:
                    self._meet(top, roots[top.value], probe)
                probe.inlined.add(top.value)
                for state in self.values.hidden_inputs(top.value):
                    probe.leaves.add((state, ()))
                parts = computed[top] = builder.dependencies(top)
                fresh = [d for d in parts if d not in met]
                met.update(fresh)
                stack += fresh
        probe.size = len(computed)
        # a complex value is visited after its parts
        for k in sorted(computed, key=lambda k: (self.order[k.value], k.part is None)):
            depth, swept = 0, False
            for d in computed[k]:
                below = probe.reach[d]
                depth, swept = max(depth, below.depth), swept or below.swept
            probe.reach[k] = Reach(depth, swept)
        probe.depth, probe.swept = probe.reach[key]
        return probe

    def read_by(self, value: int) -> TouchedValues:
        """Return what an unfused kernel would read and compute for a value, under whatever index maps."""
        probe, met, stack = TouchedValues(), {value}, [value]
        while stack:
            top = stack.pop()
            if top in self.values.memory or top in self.home:
                probe.leaves.add((top, None))
                continue
            probe.inlined.add(top)
            fresh = [i for i in self.program.producers[top].input_ids if i not in met]
            met.update(fresh)
            stack += fresh
        return probe

    def _meet(self, key: ValueKey, own: tuple[Lin, ...], probe: TouchedValues) -> None:
        """Record a stored value that is requested at its own index; reject a dear one requested elsewhere."""
        if key.where == own and key.mask is None:
            probe.related = True
        elif key.mask is not None or self.values.inlining.costs[key.value] >= DEAR:
            raise MisalignedError
