"""Random programs before and after each pass: the same bits in the same slots, by the same arithmetic.

The forbidden rewrites are those that change this arithmetic: another tree or order of products, a load before the
store of its slot, a sum before the product that makes its axes. Each is shown to be seen.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factors.ir.executor import run
from factors.ir.random_programs import Drawn, draw_program, drawn_programs
from hypothesis import given

from jitfuse.factors.ir.schema import OpCode, Program, SlotKey
from jitfuse.factors.ir.text import from_text
from jitfuse.factors.ir.verify import verify
from jitfuse.factors.rewrites.common_subexpressions import common_subexpressions
from jitfuse.factors.rewrites.dead_code import dead_code
from jitfuse.factors.rewrites.free_early import free_early
from jitfuse.factors.rewrites.levels import by_level, levels
from jitfuse.factors.rewrites.pipeline import PASSES, Pass, rewritten
from jitfuse.factors.rewrites.pooling import peak, pool


def all_passes(program: Program) -> Program:
    return rewritten(program).program


def all_passes_in_much_memory(program: Program) -> Program:
    return rewritten(program, limit=1 << 40).program


EVERY = (*PASSES, all_passes, all_passes_in_much_memory)


class Arithmetic:
    """The expressions of programs as numbers, equal where the expressions are."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, *expression: Any) -> int:
        return self.numbers.setdefault(expression, len(self.numbers))

    def slots(self, program: Program) -> dict[SlotKey, int]:
        """Return the expression of what each slot gets; layouts do not matter, fused steps are taken apart."""
        registers: dict[int, int] = {}
        keys: dict[int, frozenset[Any]] = {}
        stored: dict[SlotKey, int] = {}
        for step in program.instructions:
            if step.op is OpCode.STORE_SLOT:
                stored[step.args["slot"]] = registers[step.args["src"]]
            if step.dst is None or step.spec is None:
                continue
            made, kept = [registers[register] for register in step.reads], frozenset(step.spec.keys)
            if step.op is OpCode.CONTRACT:
                whole = frozenset[Any]().union(*(keys[register] for register in step.reads))
                found = self.summed(self.number("product", *made), whole, kept)
            elif step.op is OpCode.ELIMINATE:
                found = self.summed(*made, keys[step.reads[0]], kept)
            elif step.op is OpCode.NORMALIZE:
                stored[step.args["scale"]] = self.number("largest", *made)
                found = self.number("scaled", *made)
            else:
                slot = step.args.get("slot")
                found = self.number(step.op, stored.get(slot), *step.args.values(), frozenset(step.spec.axes))
            registers[step.dst], keys[step.dst] = found, kept
        return stored

    def summed(self, of: int, keys: frozenset[Any], kept: frozenset[Any]) -> int:
        return of if keys == kept else self.number("sum", of, kept)


def same_arithmetic(first: Program, second: Program) -> bool:
    arithmetic = Arithmetic()
    return arithmetic.slots(first) == arithmetic.slots(second)


@given(drawn=drawn_programs())
def test_passes_keep_results(drawn: Drawn) -> None:
    before = run(drawn.program, drawn.factors, drawn.slots)
    for rewrite in EVERY:
        changed = rewrite(drawn.program)
        assert verify(changed, **drawn.given) == (), rewrite
        assert same_arithmetic(drawn.program, changed), rewrite
        after = run(changed, drawn.factors, drawn.slots)
        assert before.keys() == after.keys(), rewrite
        assert all(np.array_equal(before[slot], after[slot]) for slot in before), rewrite


@pytest.mark.parametrize("rewrite", [free_early, dead_code, common_subexpressions, by_level])
@given(drawn=drawn_programs())
def test_a_pass_leaves_itself_nothing_to_do(rewrite: Pass, drawn: Drawn) -> None:
    changed = rewrite(drawn.program)
    assert rewrite(changed) == changed


def test_the_passes_find_something_to_do() -> None:
    changed = {step.name for seed in range(40) for step in rewritten(draw_program(seed).program, limit=1 << 40).steps
               if step.before != step.after}
    assert changed >= {"free_early", "dead_code", "common_subexpressions", "fuse_eliminations"}
    assert any(by_level(drawn) != free_early(drawn) for drawn in (draw_program(seed).program for seed in range(40)))


BASE = """
LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
LOAD_FACTOR dst=1 factor_id=1 spec=(v0:2, v1:2)
LOAD_FACTOR dst=2 factor_id=2 spec=(v0:2, v1:2)
CONTRACT dst=3 inputs=(0, 1) spec=(v0:2, v1:2)
CONTRACT dst=4 inputs=(3, 2) spec=(v0:2, v1:2)
ELIMINATE dst=5 src=4 keep_keys=(v0) spec=(v0:2)
STORE_SLOT slot=('a') src=5
LOAD_SLOT dst=6 slot=('a') spec=(v0:2)
STORE_SLOT slot=('b') src=6
FREE srcs=(0, 1, 2, 3, 4, 5, 6)
"""
FORBIDDEN = {
    "another tree of products": [
        ("dst=3 inputs=(0, 1)", "dst=3 inputs=(1, 2)"), ("dst=4 inputs=(3, 2)", "dst=4 inputs=(0, 3)")],
    "another order of inputs": [("inputs=(0, 1)", "inputs=(1, 0)")],
    "one product of three": [("inputs=(3, 2)", "inputs=(0, 1, 2)")],
    "a load before its store": [
        ("STORE_SLOT slot=('a') src=5\n", ""),
        ("STORE_SLOT slot=('b') src=6", "STORE_SLOT slot=('b') src=6\nSTORE_SLOT slot=('a') src=5")],
    "a sum before the product that makes its axes": [
        ("ELIMINATE dst=5 src=4 keep_keys=(v0) spec=(v0:2)\n", ""),
        ("CONTRACT dst=4", "ELIMINATE dst=5 src=4 keep_keys=(v0) spec=(v0:2)\nCONTRACT dst=4")],
    "a sum before the product": [
        ("dst=3 inputs=(0, 1) spec=(v0:2, v1:2)", "dst=3 inputs=(0, 1) spec=(v0:2)")],
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_rewrites_are_seen_and_no_pass_makes_them(name: str) -> None:
    text = BASE
    for old, new in FORBIDDEN[name]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    base, forbidden = from_text(BASE), from_text(text)
    assert verify(base) == ()
    assert verify(forbidden) != () or not same_arithmetic(base, forbidden)
    for rewrite in EVERY:
        assert same_arithmetic(base, rewrite(base))


@given(drawn_programs())
def test_levels_run_in_any_order_within(drawn: Drawn) -> None:
    groups = levels(drawn.program)
    assert sorted(number for group in groups for number in group) == [*range(len(drawn.program.instructions))]
    assert all(groups)
    for order in (1, -1):
        shuffled = Program(tuple(drawn.program.instructions[n] for group in groups for n in group[::order]))
        assert verify(shuffled, **drawn.given) == () and same_arithmetic(drawn.program, shuffled)


@given(drawn_programs())
def test_registers_of_a_pool_never_meet(drawn: Drawn) -> None:
    shared = pool(drawn.program)
    held: dict[int, int] = {}
    for step in drawn.program.instructions:
        for register in step.args.get("srcs", ()):
            assert held.pop(shared.entries[register]) == register
        if step.dst is not None and step.spec is not None:
            entry = shared.entries[step.dst]
            assert entry not in held and shared.sizes[entry] >= 8 * step.spec.size
            held[entry] = step.dst
    assert shared.least <= shared.after <= shared.before
    assert peak(free_early(drawn.program)) <= peak(drawn.program)
    assert peak(all_passes(drawn.program)) <= peak(drawn.program)
