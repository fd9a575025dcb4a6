"""Each rule of a valid register program, broken alone; all findings at once."""
from __future__ import annotations

from typing import Any

import pytest

from jitfuse.errors import VerifyError
from jitfuse.factors.ir.arguments import ARGUMENTS, NO_RESULT
from jitfuse.factors.ir.schema import Axis, AxisType, Instruction, OpCode, Program, TensorSpec, message, variable
from jitfuse.factors.ir.text import from_text, to_text
from jitfuse.factors.ir.verify import RULES, Finding, check, verify

VALID = """
UNIT dst=0 spec=(v0:2, v1:3)
LOAD_FACTOR dst=1 factor_id=2 spec=(v1:3, v2:2)
LOAD_SELECTOR dst=2 selector_id=0 spec=(v2:2, m0:2)
LOAD_SLOT dst=3 slot=('msg', 4, 5) spec=(v0:2)
CONTRACT dst=4 inputs=(0, 1, 2, 3) spec=(v2:2, m0:2, v1:3)
ELIMINATE dst=5 src=4 keep_keys=(m0, v2) spec=(v2:2, m0:2)
NORMALIZE dst=6 src=5 scale=('scale', 5) spec=(v2:2, m0:2)
STORE_SLOT slot=('msg', 5, 6) src=6
LOAD_SLOT dst=7 slot=('msg', 5, 6) spec=(v2:2, m0:2)
LOAD_SLOT dst=8 slot=('scale', 5) spec=()
CONTRACT dst=9 inputs=(7, 7, 8) spec=()
STORE_SLOT slot=('Z',) src=9
FREE srcs=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
"""
GIVEN: dict[str, Any] = {
    "factors": 3, "selectors": 1, "before": {message(4, 5): TensorSpec((variable(0, 2),))},
}

BROKEN = [
    ("dst", "UNIT spec=(v0:2)"),
    ("dst", "UNIT dst='a' spec=(v0:2)"),
    ("dst", "UNIT dst=-1 spec=()"),
    ("dst", "UNIT dst=0 spec=()\nFREE dst=1 srcs=(0)"),
    ("dst", "UNIT dst=0 spec=()\nSTORE_SLOT dst=1 slot=('a',) src=0\nFREE srcs=(0)"),
    ("spec", "UNIT dst=0\nFREE srcs=(0)"),
    ("spec", "LOAD_SLOT dst=0 slot=('msg', 4, 5)\nFREE srcs=(0)"),
    ("spec", "UNIT dst=0 spec=()\nSTORE_SLOT slot=('a',) src=0 spec=()\nFREE srcs=(0)"),
    ("missing_argument", "LOAD_FACTOR dst=0 spec=()\nFREE srcs=(0)"),
    ("missing_argument", "LOAD_SELECTOR dst=0 spec=(v0:2, m0:2)\nFREE srcs=(0)"),
    ("missing_argument", "LOAD_SLOT dst=0 spec=()\nFREE srcs=(0)"),
    ("missing_argument", "UNIT dst=0 spec=()\nSTORE_SLOT src=0\nFREE srcs=(0)"),
    ("missing_argument", "UNIT dst=0 spec=()\nSTORE_SLOT slot=('a',)\nFREE srcs=(0)"),
    ("missing_argument", "CONTRACT dst=0 spec=()\nFREE srcs=(0)"),
    ("missing_argument", "ELIMINATE dst=0 keep_keys=() spec=()\nFREE srcs=(0)"),
    ("missing_argument", "UNIT dst=0 spec=(v0:2)\nELIMINATE dst=1 src=0 spec=()\nFREE srcs=(0, 1)"),
    ("missing_argument", "UNIT dst=0 spec=()\nNORMALIZE dst=1 src=0 spec=()\nFREE srcs=(0, 1)"),
    ("missing_argument", "NORMALIZE dst=1 scale=('a',) spec=()\nFREE srcs=(1)"),
    ("missing_argument", "FREE"),
    ("unknown_argument", "UNIT dst=0 srcs=(0) spec=()\nFREE srcs=(0)"),
    ("unknown_argument", "UNIT dst=0 spec=()\nCONTRACT dst=1 inputs=(0) out_spec=(v0:2) spec=()\nFREE srcs=(0, 1)"),
    ("argument_type", "LOAD_FACTOR dst=0 factor_id='a' spec=()\nFREE srcs=(0)"),
    ("argument_type", "LOAD_FACTOR dst=0 factor_id=-1 spec=()\nFREE srcs=(0)"),
    ("argument_type", "LOAD_SELECTOR dst=0 selector_id=(0) spec=(v0:2, m0:2)\nFREE srcs=(0)"),
    ("argument_type", "LOAD_SLOT dst=0 slot='a' spec=()\nFREE srcs=(0)"),
    ("argument_type", "LOAD_SLOT dst=0 slot=() spec=()\nFREE srcs=(0)"),
    ("argument_type", "UNIT dst=0 spec=()\nSTORE_SLOT slot=(v0) src=0\nFREE srcs=(0)"),
    ("argument_type", "STORE_SLOT slot=('a',) src=(0)"),
    ("argument_type", "CONTRACT dst=0 inputs=3 spec=()\nFREE srcs=(0)"),
    ("argument_type", "CONTRACT dst=0 inputs=() spec=()\nFREE srcs=(0)"),
    ("argument_type", "UNIT dst=0 spec=(v0:2)\nELIMINATE dst=1 src=0 keep_keys=(0) spec=()\nFREE srcs=(0, 1)"),
    ("argument_type", "UNIT dst=0 spec=(v0:2)\nELIMINATE dst=1 src=0 keep_keys=(v0, v0) spec=(v0:2)\nFREE srcs=(0, 1)"),
    ("argument_type", "UNIT dst=0 spec=()\nNORMALIZE dst=1 src=0 scale=1 spec=()\nFREE srcs=(0, 1)"),
    ("argument_type", "FREE srcs=('a')"),
    ("argument_type", "FREE srcs=()"),
    ("factor", "LOAD_FACTOR dst=0 factor_id=3 spec=()\nFREE srcs=(0)"),
    ("selector", "LOAD_SELECTOR dst=0 selector_id=1 spec=(v0:2, m0:2)\nFREE srcs=(0)"),
    ("undefined", "STORE_SLOT slot=('a',) src=0"),
    ("undefined", "FREE srcs=(0)"),
    ("undefined", "CONTRACT dst=1 inputs=(0) spec=()\nUNIT dst=0 spec=()\nFREE srcs=(0, 1)"),
    ("assigned_twice", "UNIT dst=0 spec=()\nUNIT dst=0 spec=()\nFREE srcs=(0)"),
    ("assigned_twice", "UNIT dst=0 spec=()\nFREE srcs=(0)\nUNIT dst=0 spec=()"),
    ("read_after_free", "UNIT dst=0 spec=()\nFREE srcs=(0)\nSTORE_SLOT slot=('a',) src=0"),
    ("freed_twice", "UNIT dst=0 spec=()\nFREE srcs=(0)\nFREE srcs=(0)"),
    ("freed_twice", "UNIT dst=0 spec=()\nFREE srcs=(0, 0)"),
    ("not_freed", "UNIT dst=0 spec=()"),
    ("slot_unwritten", "LOAD_SLOT dst=0 slot=('a',) spec=()\nFREE srcs=(0)"),
    ("slot_unwritten", "LOAD_SLOT dst=0 slot=('a',) spec=()\nUNIT dst=1 spec=()\nSTORE_SLOT slot=('a',) src=1\n"
                       "FREE srcs=(0, 1)"),
    ("slot_written_twice", "UNIT dst=0 spec=()\nSTORE_SLOT slot=('a',) src=0\nSTORE_SLOT slot=('a',) src=0\n"
                           "FREE srcs=(0)"),
    ("slot_written_twice", "UNIT dst=0 spec=(v0:2)\nSTORE_SLOT slot=('msg', 4, 5) src=0\nFREE srcs=(0)"),
    ("slot_written_twice", "UNIT dst=0 spec=()\nSTORE_SLOT slot=('a',) src=0\n"
                           "NORMALIZE dst=1 src=0 scale=('a',) spec=()\nFREE srcs=(0, 1)"),
    ("slot_spec", "UNIT dst=0 spec=()\nSTORE_SLOT slot=('a',) src=0\nLOAD_SLOT dst=1 slot=('a',) spec=(v0:2)\n"
                  "FREE srcs=(0, 1)"),
    ("slot_spec", "LOAD_SLOT dst=0 slot=('msg', 4, 5) spec=(v1:2)\nFREE srcs=(0)"),
    ("slot_spec", "UNIT dst=0 spec=(v0:2)\nNORMALIZE dst=1 src=0 scale=('a',) spec=(v0:2)\n"
                  "LOAD_SLOT dst=2 slot=('a',) spec=(v0:2)\nFREE srcs=(0, 1, 2)"),
    ("axis", "UNIT dst=0 spec=(v-1:2)\nFREE srcs=(0)"),
    ("axis", "UNIT dst=0 spec=(v1:0)\nFREE srcs=(0)"),
    ("axis_twice", "UNIT dst=0 spec=(v1:2, v1:2)\nFREE srcs=(0)"),
    ("axis_size", "UNIT dst=0 spec=(v1:2)\nUNIT dst=1 spec=(v1:3)\nFREE srcs=(0, 1)"),
    ("axis_size", "UNIT dst=0 spec=(v0:3)\nFREE srcs=(0)"),
    ("table_spec", "LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)\nLOAD_FACTOR dst=1 factor_id=0 spec=()\n"
                   "FREE srcs=(0, 1)"),
    ("selector_axes", "LOAD_SELECTOR dst=0 selector_id=0 spec=(v0:2)\nFREE srcs=(0)"),
    ("selector_axes", "LOAD_SELECTOR dst=0 selector_id=0 spec=(v0:2, v1:2)\nFREE srcs=(0)"),
    ("selector_axes", "LOAD_SELECTOR dst=0 selector_id=0 spec=(v0:2, m0:3)\nFREE srcs=(0)"),
    ("new_axis", "UNIT dst=0 spec=(v0:2)\nCONTRACT dst=1 inputs=(0) spec=(v0:2, m0:2)\nFREE srcs=(0, 1)"),
    ("absent_axis", "UNIT dst=0 spec=(v0:2)\nELIMINATE dst=1 src=0 keep_keys=(m0) spec=()\nFREE srcs=(0, 1)"),
    ("result_spec", "UNIT dst=0 spec=(v0:2)\nELIMINATE dst=1 src=0 keep_keys=(v0) spec=()\nFREE srcs=(0, 1)"),
    ("result_spec", "UNIT dst=0 spec=(v0:2, v1:2)\nELIMINATE dst=1 src=0 keep_keys=(v0, v1) spec=(v1:2, v0:2)\n"
                    "FREE srcs=(0, 1)"),
    ("result_spec", "UNIT dst=0 spec=(v0:2)\nNORMALIZE dst=1 src=0 scale=('a',) spec=()\nFREE srcs=(0, 1)"),
]
"""Programs in which one rule is broken, and no other."""


def test_a_valid_program_has_no_findings() -> None:
    assert verify(from_text(VALID), **GIVEN) == ()
    check(from_text(VALID), **GIVEN)
    assert verify(Program(())) == ()


@pytest.mark.parametrize(("code", "text"), BROKEN)
def test_each_rule(code: str, text: str) -> None:
    found = verify(from_text(text), **GIVEN)
    assert [finding.code for finding in found] == [code]


CYCLES = {
    "a register of its own": ("CONTRACT dst=0 inputs=(0) spec=()\nFREE srcs=(0)", 1),
    "two registers": ("CONTRACT dst=0 inputs=(1) spec=()\nCONTRACT dst=1 inputs=(0) spec=()\nFREE srcs=(0, 1)", 1),
    "a slot": ("LOAD_SLOT dst=0 slot=('a',) spec=()\nSTORE_SLOT slot=('a',) src=0\nFREE srcs=(0)", 1),
    "two": ("CONTRACT dst=0 inputs=(0) spec=()\nCONTRACT dst=1 inputs=(1) spec=()\nFREE srcs=(0, 1)", 2),
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_are_reported_beside_what_is_read_too_early(name: str) -> None:
    text, count = CYCLES[name]
    codes = [finding.code for finding in verify(from_text(text))]
    assert codes.count("cycle") == count
    assert {*codes} == {"cycle", "slot_unwritten" if name == "a slot" else "undefined"}


def test_what_text_cannot_say() -> None:
    def codes(*instructions: Instruction) -> list[tuple[int, str]]:
        return [(finding.number, finding.code) for finding in verify(Program(instructions))]

    (free,) = from_text("FREE srcs=(1)").instructions
    no_kind: Any = Axis(0, "v", 2)  # type: ignore[arg-type]
    assert codes(Instruction("ADD", 0, {}), free.replace(args={"srcs": (0,)})) == [  # type: ignore[arg-type]
        (0, "opcode"), (1, "undefined"),
    ]
    assert codes(Instruction(OpCode.UNIT, 1, {}, TensorSpec((no_kind,))), free) == [(0, "axis")]
    assert codes(Instruction(OpCode.LOAD_FACTOR, 1, {"factor_id": True}, TensorSpec(())), free) == [
        (0, "argument_type"),
    ]
    assert codes(free.replace(args={"srcs": [1]})) == [(0, "argument_type")]


def test_specs_of_the_tables_of_a_model_are_known() -> None:
    program = from_text("LOAD_FACTOR dst=0 factor_id=0 spec=(v1:2, v0:2)\nFREE srcs=(0)")
    specs = [TensorSpec((variable(1, 2), variable(0, 2))), TensorSpec(())]
    assert verify(program, factors=specs) == ()
    assert [finding.code for finding in verify(program, factors=specs[::-1])] == ["table_spec"]
    assert [finding.code for finding in verify(program, factors=())] == ["factor"]


def test_the_tests_break_all_rules_there_are() -> None:
    assert {code for code, _ in BROKEN} | {"cycle", "opcode"} == RULES.keys()


def test_each_opcode_lacks_each_argument_once() -> None:
    lacking = sum(code == "missing_argument" for code, _ in BROKEN)
    assert ARGUMENTS.keys() == {*OpCode} and lacking == sum(map(len, ARGUMENTS.values()))
    assert {*OpCode} >= NO_RESULT


def test_all_findings_are_told_at_once() -> None:
    program = from_text("""
        LOAD_FACTOR dst=0 factor_id=9 spec=(v0:2, v0:2)
        CONTRACT dst=1 inputs=(0, 7) spec=(v0:3)
        STORE_SLOT slot=('a',) src=1
        FREE srcs=(1, 1)
    """)
    found = verify(program, factors=2)
    assert sorted((finding.number, finding.code) for finding in found) == [
        (0, "axis_twice"), (0, "factor"), (0, "not_freed"), (1, "axis_size"), (1, "undefined"), (3, "freed_twice"),
    ]
    with pytest.raises(VerifyError) as caught:
        check(program, factors=2)
    assert len(caught.value.findings) == 6
    assert "[1] undefined: register 7 is read here, but no instruction writes it" in str(caught.value)


def test_a_finding_names_the_instruction_that_comes_too_late() -> None:
    program = from_text("CONTRACT dst=1 inputs=(0) spec=()\nUNIT dst=0 spec=()\nFREE srcs=(0, 1)")
    assert verify(program) == (Finding(0, "undefined", "register 0 is read here, but only [1] writes it"),)


def test_variables_and_modes_of_one_number_are_two_axes() -> None:
    program = from_text("UNIT dst=0 spec=(v3:2, m3:4)\nFREE srcs=(0)")
    assert verify(program) == ()
    assert program.instructions[0].spec is not None
    assert program.instructions[0].spec.has_key((AxisType.TOPOLOGICAL, 3))
    assert from_text(to_text(program)) == program
