"""Whole programs as tables of records, beside loops over indices: what is kept, given back, scaled and of a batch."""
from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from factors.ir.executor import run
from factors.ir.random_programs import Drawn, draw_program
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.factors.assembly import Layout, assemble
from jitfuse.factors.heap import ALIGNED, Heap, Packed
from jitfuse.factors.ir.dataflow import dataflow
from jitfuse.factors.ir.schema import Instruction, OpCode, Program, SlotKey
from jitfuse.factors.native import run_table
from jitfuse.factors.rewrites.free_early import working
from jitfuse.factors.semirings import PROBABILITY


def tables_alone(drawn: Drawn) -> tuple[Program, dict[int, np.ndarray]]:
    """Return a program that loads selectors and slots of others as factors, and all of these; scales are read as 1."""
    factors: dict[Any, np.ndarray] = dict(drawn.factors)
    numbers: dict[Any, int] = {}
    steps = []
    for step in drawn.program.instructions:
        outside: Any = None
        if step.op is OpCode.LOAD_SELECTOR and step.spec is not None:
            outside, table = (step.args["selector_id"], step.spec), np.eye(*step.spec.shape)
        elif step.op is OpCode.LOAD_SLOT and step.args["slot"] in drawn.slots:
            outside, table = step.args["slot"], drawn.slots[step.args["slot"]]
        elif step.op is OpCode.LOAD_SLOT and step.args["slot"][0] == "scale":
            step = Instruction(OpCode.UNIT, step.dst, {}, step.spec)
        if outside is not None:
            factors[numbers.setdefault(outside, len(drawn.factors) + len(numbers))] = table
            step = Instruction(OpCode.LOAD_FACTOR, step.dst, {"factor_id": numbers[outside]}, step.spec)
        steps.append(step)
    return Program(tuple(steps)), factors


def stacked(tables: Mapping[int, np.ndarray], batched: Mapping[int, bool]) -> tuple[list[np.ndarray], dict[int, Any]]:
    """Return tables of one shape as rows of an array, and where each is. A batch, in front, becomes the last axis."""
    groups: dict[Any, list[int]] = {}
    for number, table in tables.items():
        groups.setdefault((batched[number], table.shape), []).append(number)
    places = {number: (stack, row) for stack, group in enumerate(groups.values()) for row, number in enumerate(group)}
    return [np.ascontiguousarray(np.moveaxis(np.stack([tables[n] for n in group]), 1, -1) if own else
                                 np.stack([tables[n] for n in group])) for (own, _), group in groups.items()], places


@given(st.integers(0, 1 << 32), st.sampled_from([0, 1, 3, 8]), st.booleans())
def test_programs_as_tables(seed: int, batch: int, all_slots: bool) -> None:
    """Slots that nobody wants give their memory back; others have the same numbers, for each of a batch."""
    program, factors = tables_alone(draw_program(seed))
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    batched = {number: bool(batch) and rng.random() < 0.5 for number in factors}
    tables = {number: np.stack([draw.permutation(table.reshape(-1)).reshape(table.shape) for _ in range(batch)])
              if batched[number] else table for number, table in factors.items()}
    stacks, places = stacked(tables, batched)
    own = [any(batched[n] for n, place in places.items() if place[0] == stack) for stack in range(len(stacks))]
    table = assemble(dataflow(working(program)), Layout(places.__getitem__, own, max(batch, 1)),
                     lambda key: all_slots or key[-1] % 2 == 0)
    found, least = run_table(table, PROBABILITY, stacks, np.float64)
    assert least > 0
    for k in range(max(batch, 1)):
        wanted = run(program, {n: tables[n][k] if batched[n] else tables[n] for n in factors}, {})
        assert found.keys() == wanted.keys() if all_slots else found.keys() <= wanted.keys()
        scales = scales_of(program)
        for key, value in found.items():
            one = value[k] if value.ndim > wanted[key].ndim else value
            if key[0] == "scale":
                assert one == 2.0 ** np.floor(np.log2(one))
            elif key not in scales:
                assert np.allclose(one, wanted[key], rtol=1e-12, atol=0), key
            else:  # divided by a power of two, not by its largest element
                assert np.allclose(one / one.max(), wanted[key] / wanted[key].max(), rtol=1e-12, atol=0), key


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 60), max_size=3))
def test_what_runs_again_reads_what_earlier_records_left(seed: int, places_drawn: list[int]) -> None:
    program, factors = tables_alone(draw_program(seed))
    stacks, places = stacked(factors, dict.fromkeys(factors, False))
    count = sum(step.op is not OpCode.FREE for step in program.instructions)
    begins = sorted([0, *(min(place, count) for place in places_drawn)])
    table = assemble(dataflow(working(program)), Layout(places.__getitem__, [False] * len(stacks), 1),
                     lambda key: key[-1] % 2 == 0, begins=begins)
    memory = np.full(table.workspace, np.nan), np.full(table.size, np.nan)
    whole, _ = run_table(table, PROBABILITY, stacks, np.float64, memory=memory)
    for word, before in reversed(table.starts):
        part = table.replace(code=table.code[word:], count=table.count - before)
        again, _ = run_table(part, PROBABILITY, stacks, np.float64, memory=memory)
        assert all(np.array_equal(again[key], value) for key, value in whole.items())


def scales_of(program: Program) -> set[SlotKey]:
    """Return the slots that depend on what was divided by a scale."""
    scaled: set[Any] = set()
    for step in program.instructions:
        slot = ("slot", step.args["slot"]) if "slot" in step.args else None
        if step.op is OpCode.NORMALIZE or any(register in scaled for register in step.reads) or (
                step.op is OpCode.LOAD_SLOT and slot in scaled):
            scaled.add(slot if step.op is OpCode.STORE_SLOT else step.dst)
    return {item[1] for item in scaled if isinstance(item, tuple)}


def test_memory_is_given_back_and_never_shared() -> None:
    rng, heap, held = random.Random(0), Heap(), dict[int, int]()
    for _ in range(3000):
        if held and rng.random() < 0.5:
            first = rng.choice([*held])
            heap.give(first, held.pop(first))
        else:
            size = rng.choice([0, 1, 5, 8, 9, 100])
            first = heap.take(size)
            assert first % ALIGNED == 0 and first + size <= heap.size
            assert all(first + max(size, 1) <= other or other + max(n, 1) <= first for other, n in held.items())
            held[first] = size
    for first, size in held.items():
        heap.give(first, size)
    whole = heap.size
    assert heap.take(whole) == 0 and heap.size == whole


def test_memory_packed_with_all_lifetimes_known() -> None:
    """Messages that grow and shrink again, of which two live at the same time, have room for two of the largest."""
    heap, sizes = Heap(), [8 << min(k, 10, 24 - k) for k in range(25)]
    rng, held = random.Random(1), list[int]()
    for k, size in enumerate(sizes):
        held.append(heap.take(size))
        if k:
            heap.give(held[k - 1], sizes[k - 1])
    packed = Packed(heap.lives)
    assert packed.size == 2 * 8 << 10 < heap.size
    heap, lives = Heap(), dict[int, tuple[int, int]]()
    for number in range(400):
        size = rng.choice([1, 8, 50, 1000])
        lives[number] = heap.take(size), size
        while len(lives) > 6:
            first, size = lives.pop(rng.choice([*lives]))
            heap.give(first, size)
    packed = Packed(heap.lives)
    places = [(packed.take(life.size), life) for life in heap.lives]
    for k, (first, life) in enumerate(places):
        assert first % ALIGNED == 0 and first + life.size <= packed.size
        assert not [other for at, other in places[:k] if other.begin < life.end and life.begin < other.end
                    and at < first + life.size and first < at + other.size]


@pytest.mark.parametrize("op", [OpCode.NORMALIZE, OpCode.CONTRACT, OpCode.LOAD_SLOT])
def test_drawn_programs_have_what_tables_treat_apart(op: OpCode) -> None:
    assert any(step.op is op for seed in range(20) for step in tables_alone(draw_program(seed))[0].instructions)
