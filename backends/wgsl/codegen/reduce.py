"""Reductions over the inner elements of a grid point, by one invocation or by a workgroup.

The tree of float sums (`jitfuse.ir.kernels.form.sum_lanes`) is the perfect binary tree over blocks, padded with -0.0 to
a power of two. So each invocation may reduce a run of a power of two of blocks, and the runs fold pairwise. A single
invocation reduces the virtual lanes one after the other, in the order in which they fold, which is bit reversal.

Owns: loops of reduce stages and the exchange between invocations. Does not own bodies.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from jitfuse.backends.wgsl.codegen import memory
from jitfuse.backends.wgsl.codegen.body import Numbered, ShaderBody
from jitfuse.backends.wgsl.codegen.combine import ShaderReduced, parts
from jitfuse.backends.wgsl.codegen.positions import find, positions
from jitfuse.backends.wgsl.codegen.variant import ROWS
from jitfuse.ir.kernels.stages import POSITIONS, Reduction
from jitfuse.ir.kernels.sum_tree import SUM_DEPTH

_LEVELS = 32
"""Enough for 2**32 blocks."""
_LANE_LEVELS = 8

Element = Callable[[str], None]
"""Sets the inner position to an element."""


class Reducer:
    """The reduce stages of one kernel. `first` and `count` are the elements of the current grid point."""

    def __init__(self, body: ShaderBody, enter: Element, first: str, count: str) -> None:
        """Reduce over elements `first` up to `first` + `count`; `enter` sets the inner position to one."""
        self.body, self.text = body, body.text
        self.group = body.variant.group
        self.in_group = body.variant.mode == ROWS
        self.enter = enter
        self._first, self._count = first, count

    def _classes(self, parts: Sequence[ShaderReduced]) -> list[list[ShaderReduced]]:
        """Split parts by the loops that they need: one for each width of a tree; others join the first."""
        widths = sorted({p.lanes for p in parts if p.tree})
        found = [[p for p in parts if p.tree and p.lanes == w] for w in widths] or [[]]
        found[0] += [p for p in parts if not p.tree]
        return found

    def reduce(self, instructions: Numbered, reductions: Sequence[tuple[int, Reduction]], *, effects: bool) -> None:
        """Write all reductions of a stage; stores and kept rows are written once, with `effects`."""
        plain = [(n, r) for n, r in reductions if r.combine not in POSITIONS]
        reduced = parts(plain)
        if reduced and reduced[0].reduction.phase == "final":
            self.final(reduced)
        elif reduced and self.in_group:
            self.by_group(instructions, reduced, effects)
        elif reduced:
            self.by_point(instructions, reduced, effects)
        found = [p for n, r in reductions if r.combine in POSITIONS for p in positions(n, r)]
        for k, p in enumerate(found):
            at = self.text.fresh("element")
            start, step = ("local", f"{self.group}u") if self.in_group else ("0u", "1u")
            head = f"for (var {at} = {start}; {at} < {self._count}; {at} += {step})"
            find(self, instructions, p, head, at, effects=effects and not reduced and k == 0)

    # ------------------------------------------------------------------ pieces
    def _element(
        self, instructions: Numbered, at: str, parts: Sequence[ShaderReduced], names: Sequence[str], effects: bool
    ) -> None:
        """Write the body at an element and join its values."""
        self.enter(f"({self._first} + {at})")
        self.body.run(instructions, effects=effects)
        for p, name in zip(parts, names, strict=True):
            assert p.value is not None
            self.text.line(f"{name} = {p.join(name, self.body.value(p.value, p.type))};")

    def _variables(self, parts: Sequence[ShaderReduced], hint: str) -> list[str]:
        names = [self.text.fresh(hint) for _ in parts]
        for name, p in zip(names, parts, strict=True):
            self.text.line(f"var {name}: {p.type} = {p.identity};")
        return names

    def _levels(self, parts: Sequence[ShaderReduced], count: int) -> list[str]:
        names = [self.text.fresh("levels") for _ in parts]
        for name, p in zip(names, parts, strict=True):
            self.text.line(f"var {name}: array<{p.type}, {count}>;")
        return names

    def _push(self, number: str, parts: Sequence[ShaderReduced], values: Sequence[str], levels: Sequence[str]) -> None:
        """Merge values with as many finished groups as `number` has trailing one bits: a binary counter."""
        level = self.text.fresh("level")
        self.text.line(f"var {level} = 0u;")
        with self.text.block(f"while ((({number} >> {level}) & 1u) != 0u)"):
            for p, value, stack in zip(parts, values, levels, strict=True):
                self.text.line(f"{value} = {p.join(f'{stack}[{level}]', value)};")
            self.text.line(f"{level}++;")
        for value, stack in zip(values, levels, strict=True):
            self.text.line(f"{stack}[{level}] = {value};")

    def _power_above(self, x: str) -> str:
        """Return the smallest power of two that is at least a number."""
        return f"select(1u << (32u - countLeadingZeros({x} - 1u)), 1u, {x} <= 1u)"

    def _block(self, instructions: Numbered, block: str, lane: str, trees: Sequence[ShaderReduced],
        names: Sequence[str],
               others: Sequence[ShaderReduced], other_names: Sequence[str], effects: bool) -> None:
        """Write the sum of one virtual lane in one block."""
        depth, at = self.text.fresh("depth"), self.text.fresh("element")
        lanes = trees[0].lanes
        with self.text.block(f"for (var {depth} = 0u; {depth} < {SUM_DEPTH}u; {depth}++)"):
            self.text.line(f"let {at} = ({block} * {SUM_DEPTH}u + {depth}) * {lanes}u + {lane};")
            with self.text.block(f"if ({at} < {self._count})"):
                self._element(instructions, at, [*trees, *others], [*names, *other_names], effects)

    # ------------------------------------------------------------------ by one invocation
    def by_point(self, instructions: Numbered, parts: Sequence[ShaderReduced], effects: bool) -> None:
        """Reduce all inner elements in one invocation."""
        for k, some in enumerate(self._classes(parts)):
            trees, others = [p for p in some if p.tree], [p for p in some if not p.tree]
            names = self._variables(others, "total")
            tree_names = self._variables(trees, "sum")
            first = effects and k == 0
            with self.text.block(""):
                if trees:
                    self._lanes_in_turn(instructions, trees, tree_names, others, names, effects=first)
                else:
                    at = self.text.fresh("element")
                    with self.text.block(f"for (var {at} = 0u; {at} < {self._count}; {at}++)"):
                        self._element(instructions, at, others, names, first)
            for p, name in zip([*others, *trees], [*names, *tree_names], strict=True):
                self._finish(p, name)

    def _finish(self, part: ShaderReduced, value: str) -> None:
        name = self.text.fresh(f"v{part.number}")
        self.text.line(f"let {name} = {part.finished(value)};")
        self.body.define(part.number, name)

    def _lanes_in_turn(
        self, instructions: Numbered, trees: Sequence[ShaderReduced], totals: Sequence[str],
        others: Sequence[ShaderReduced],
        names: Sequence[str], *, effects: bool,
    ) -> None:
        t, lanes = self.text, trees[0].lanes
        used, turn, lane, blocks, block = (t.fresh(n) for n in ("used", "turn", "lane", "blocks", "block"))
        t.line(f"let {used} = min({lanes}u, {self._power_above(self._count)});")
        t.line(f"let {blocks} = {self._power_above(f'(({self._count} + {trees[0].block - 1}u) / {trees[0].block}u)')};")
        lane_levels = self._levels(trees, _LANE_LEVELS)
        levels = self._levels(trees, _LEVELS)
        with t.block(f"for (var {turn} = 0u; {turn} < {used}; {turn}++)"):
            t.line(f"let {lane} = select(reverseBits({turn}) >> (32u - countTrailingZeros({used})), 0u, {used} == 1u);")
            with t.block(f"for (var {block} = 0u; {block} < {blocks}; {block}++)"):
                sums = self._variables(trees, "sum")
                self._block(instructions, block, lane, trees, sums, others, names, effects)
                self._push(block, trees, sums, levels)
            lane_sums = [t.fresh("lane_sum") for _ in trees]
            for name, stack in zip(lane_sums, levels, strict=True):
                t.line(f"var {name} = {stack}[countTrailingZeros({blocks})];")
            self._push(turn, trees, lane_sums, lane_levels)
        for total, stack in zip(totals, lane_levels, strict=True):
            t.line(f"{total} = {stack}[countTrailingZeros({used})];")

    # ------------------------------------------------------------------ by a workgroup
    def by_group(self, instructions: Numbered, parts: Sequence[ShaderReduced], effects: bool) -> None:
        """Reduce all inner elements, or those of a chunk, in a workgroup."""
        for k, some in enumerate(self._classes(parts)):
            trees, others = [p for p in some if p.tree], [p for p in some if not p.tree]
            names = self._variables(others, "total")
            sums = self._variables(trees, "sum")
            first = effects and k == 0
            with self.text.block(""):
                if trees:
                    block_of = functools.partial(self._block_of_run, instructions, trees, others, names, first)
                    self._runs_of_blocks(trees, sums, block_of)
                else:
                    at = self.text.fresh("element")
                    with self.text.block(f"for (var {at} = local; {at} < {self._count}; {at} += {self.group}u)"):
                        self._element(instructions, at, others, names, first)
            for p, name in zip([*trees, *others], [*sums, *names], strict=True):
                self._fold(p, name)

    def _block_of_run(
        self, instructions: Numbered, trees: Sequence[ShaderReduced], others: Sequence[ShaderReduced],
        other_names: Sequence[str],
        effects: bool, block: str, lane: str, names: Sequence[str],
    ) -> None:
        self._block(instructions, block, lane, trees, names, others, other_names, effects)

    def final(self, parts: Sequence[ShaderReduced]) -> None:
        """Combine the rows of partial results, lane by lane, then fold the lanes."""
        for p in parts:
            names = self._variables([p], "sum")

            def row(block: str, lane: str, values: Sequence[str], part: ShaderReduced = p) -> None:
                (o,) = part.reduction.load_from
                with self.text.block(f"if ({block} < {self._count})"):
                    self.enter(block)
                    at = self.text.fresh("at")
                    size = 128 // part.lanes
                    self.text.line(f"let {at} = {self.body.address(o)} + {lane} * {size}u;")
                    element = memory.load(self.body.buffer(o), at, part.reduction.dtype, part.type)
                    self.text.line(f"{values[0]} = {part.join(values[0], element)};")

            with self.text.block(""):
                self._runs_of_blocks([p], names, row)
            self._fold(p, names[0])

    def _runs_of_blocks(
        self, parts: Sequence[ShaderReduced], totals: Sequence[str], block_of: Callable[[str, str, Sequence[str]], None]
    ) -> None:
        """Give each set of lanes of the workgroup a run of a power of two of blocks."""
        t, lanes = self.text, parts[0].lanes
        whole = parts[0].block if parts[0].reduction.phase != "final" else 1
        runs = self.group // lanes
        blocks, run, lane, k, block = (t.fresh(n) for n in ("blocks", "run", "lane", "k", "block"))
        t.line(f"let {blocks} = ({self._count} + {whole - 1}u) / {whole}u;")
        t.line(f"let {run} = {self._power_above(f'(({blocks} + {runs - 1}u) / {runs}u)')};")
        t.line(f"let {lane} = local % {lanes}u;")
        levels = self._levels(parts, _LEVELS)
        with t.block(f"for (var {k} = 0u; {k} < {run}; {k}++)"):
            t.line(f"let {block} = local / {lanes}u * {run} + {k};")
            sums = self._variables(parts, "sum")
            block_of(block, lane, sums)
            self._push(k, parts, sums, levels)
        for total, stack in zip(totals, levels, strict=True):
            t.line(f"{total} = {stack}[countTrailingZeros({run})];")

    def _fold(self, part: ShaderReduced, value: str) -> None:
        """Combine the values of the invocations of a workgroup: runs pairwise, then lanes by halves."""
        t, shared = self.text, f"shared_{part.shared_type}"
        final_lanes = part.lanes if part.reduction.phase == "partial" else 1
        t.line(f"{shared}[local] = {part.shared(value)};")
        in_order = part.tree or part.reduction.phase == "final"
        step = part.lanes
        while in_order and step < self.group:
            self._fold_step(part, f"(local / {part.lanes}u) % {2 * step // part.lanes}u == 0u", step)
            step *= 2
        half = (part.lanes if in_order else self.group) // 2
        while half >= final_lanes:
            self._fold_step(part, f"local < {half}u", half)
            half //= 2
        t.line("workgroupBarrier();")
        if part.reduction.phase == "partial":
            self._store_row(part, shared)
        else:
            name = t.fresh("folded")
            t.line(f"let {name} = {part.unshared(f'{shared}[0]')};")
            self._finish(part, name)
        t.line("workgroupBarrier();")

    def _fold_step(self, part: ShaderReduced, condition: str, distance: int) -> None:
        shared = f"shared_{part.shared_type}"
        a, b = part.unshared(f"{shared}[local]"), part.unshared(f"{shared}[local + {distance}u]")
        self.text.line("workgroupBarrier();")
        with self.text.block(f"if ({condition})"):
            self.text.line(f"{shared}[local] = {part.shared(part.join(a, b))};")

    def _store_row(self, part: ShaderReduced, shared: str) -> None:
        (o,) = part.reduction.store_to
        dtype = part.reduction.dtype
        with self.text.block(f"if (local < {part.lanes}u)"):
            at = self.text.fresh("at")
            self.text.line(f"let {at} = {self.body.address(o)} + local * {128 // part.lanes}u;")
            value = part.unshared(f"{shared}[local]")
            for line in memory.store(self.body.buffer(o), at, dtype, value, part.type):
                self.text.line(line)
