"""Dependences between instructions, beside a search by the names of registers and slots."""
from __future__ import annotations

from factors.ir.random_programs import draw_program
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.factors.ir.arguments import written_slot
from jitfuse.factors.ir.dataflow import Dataflow, dataflow
from jitfuse.factors.ir.schema import Instruction, OpCode
from jitfuse.factors.ir.text import from_text
from jitfuse.factors.rewrites.free_early import working


def reads(step: Instruction, other: Instruction) -> bool:
    slot = step.args["slot"] if step.op is OpCode.LOAD_SLOT else None
    return other.dst in step.reads or (slot is not None and slot == written_slot(other))


@given(st.integers(0, 1 << 32))
def test_inputs_and_readers(seed: int) -> None:
    steps = draw_program(seed).program.instructions
    flow = dataflow(steps)
    for place, step in enumerate(steps):
        assert set(flow.readers[place]) == {k for k, other in enumerate(steps) if reads(other, step)}
        if step.op is OpCode.FREE:
            freed = set(step.args["srcs"])
            used = {k for k, other in enumerate(steps[:place]) if other.dst in freed or freed.intersection(other.reads)}
            assert set(flow.inputs[place]) == used
        else:
            assert set(flow.inputs[place]) == {k for k, other in enumerate(steps) if reads(step, other)}


def two_programs() -> Dataflow:
    """Return the dependences of two programs of the same registers: the second one reads what the first one stores."""
    first, second = from_text("""
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:3)
        ELIMINATE dst=1 src=0 keep_keys=(v1) spec=(v1:3)
        NORMALIZE dst=2 src=1 scale=('scale', 0) spec=(v1:3)
        STORE_SLOT slot=('msg', 0, 1) src=2
        FREE srcs=(0, 1, 2)
    """), from_text("""
        LOAD_SLOT dst=0 slot=('msg', 0, 1) spec=(v1:3)
        UNIT dst=1 spec=(v2:5)
        CONTRACT dst=2 inputs=(0, 1) spec=(v1:3)
        FREE srcs=(0, 1, 2)
    """)
    return dataflow(working(first), working(second))


def test_registers_belong_to_a_program_and_slots_to_all() -> None:
    flow = two_programs()
    assert flow.inputs == [[], [0], [1], [2], [3], [], [4, 5]]
    assert flow.programs == [range(4), range(4, 7)]
    assert [flow.elements(place) for place in range(7)] == [0, 6, 3, 0, 0, 0, 15]


def test_a_tensor_lives_until_what_shares_its_elements_is_read() -> None:
    flow = two_programs()
    assert flow.storage == [0, 1, 1, 1, 1, 5, 6]
    assert flow.last_uses(range(7), (0,)) == {1: [0], 6: [1, 5, 6]}
    assert flow.last_uses(range(7), (0, 4)) == {1: [0], 6: [5, 6]}  # what the second program reads of the first stays
    assert flow.last_uses([5, 0, 1, 2, 3, 4, 6], (0,)) == {1: [0], 6: [5, 1, 6]}
