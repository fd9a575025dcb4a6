"""Random programs: valid, as text and as JSON and back; what the verifier lets through can run."""
from __future__ import annotations

import random

import numpy as np
import pytest
from factors.ir.executor import run
from factors.ir.random_programs import Drawn, draw_program, drawn_programs
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.factors.ir.as_json import from_json, to_json
from jitfuse.factors.ir.schema import Instruction, OpCode, Program
from jitfuse.factors.ir.text import from_text, to_text
from jitfuse.factors.ir.verify import verify


@given(drawn_programs())
def test_drawn_programs_are_valid_and_come_back_from_text_and_json(drawn: Drawn) -> None:
    assert verify(drawn.program, **drawn.given) == ()
    assert from_text(to_text(drawn.program)) == drawn.program
    assert from_json(to_json(drawn.program)) == drawn.program


def test_programs_of_all_opcodes_are_drawn() -> None:
    drawn = {instruction.op for seed in range(20) for instruction in draw_program(seed).program.instructions}
    assert drawn == {*OpCode}


@given(drawn_programs(), st.integers(0, 1 << 32))
def test_what_the_verifier_lets_through_can_run(drawn: Drawn, seed: int) -> None:
    changed = spoiled(drawn.program, random.Random(seed))
    runs = True
    try:
        run(changed, drawn.factors, drawn.slots)
    except (AssertionError, KeyError, IndexError):
        runs = False
    if not runs:
        assert verify(changed, **drawn.given) != ()


def spoiled(program: Program, rng: random.Random) -> Program:
    """Return a program with an instruction left out, doubled, moved, or with another's number, arguments or spec."""
    held = list(program.instructions)
    at, other = rng.randrange(len(held)), rng.choice(held)
    kind = rng.randrange(6)
    if kind == 0:
        del held[at]
    elif kind == 1:
        held.insert(at, other)
    elif kind == 2:
        moved = held.pop(at)
        held.insert(rng.randrange(len(held) + 1), moved)
    elif kind == 3:
        held[at] = held[at].replace(dst=other.dst)
    elif kind == 4:
        held[at] = held[at].replace(spec=other.spec)
    else:
        held[at] = _with_arguments(held[at], other)
    return Program(tuple(held))


def _with_arguments(instruction: Instruction, other: Instruction) -> Instruction:
    shared = {name: value for name, value in other.args.items() if name in instruction.args}
    return instruction.replace(args={**instruction.args, **shared})


@pytest.mark.parametrize("kind", ["kept", "spoiled"])
def test_the_judge_sees_both(kind: str) -> None:
    """Some spoiled programs still run, and many do not: otherwise the test above says nothing."""
    failed = 0
    for seed in range(60):
        drawn = draw_program(seed)
        program = spoiled(drawn.program, random.Random(seed)) if kind == "spoiled" else drawn.program
        try:
            run(program, drawn.factors, drawn.slots)
        except (AssertionError, KeyError, IndexError):
            failed += 1
    assert failed == 0 if kind == "kept" else 10 < failed < 60


def test_the_executor_against_einsum() -> None:
    left, right = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    program = from_text("""
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:3)
        LOAD_FACTOR dst=1 factor_id=1 spec=(v1:3, v2:4)
        CONTRACT dst=2 inputs=(0, 1) spec=(v2:4, v0:2)
        STORE_SLOT slot=('bel', 0) src=2
        FREE srcs=(0, 1, 2)
    """)
    found = run(program, {0: left, 1: right}, {})
    assert np.array_equal(found["bel", 0], (left @ right).T)
