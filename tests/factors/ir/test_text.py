"""The text of register programs: as it prints, as it is written by hand, and what cannot be read."""
from __future__ import annotations

import pytest

from jitfuse.errors import ModelError
from jitfuse.factors.ir.schema import Instruction, OpCode, Program, message
from jitfuse.factors.ir.text import from_text, to_text

CHAIN = """\
[0] LOAD_FACTOR dst=1 factor_id=0 spec=(v0:2, v1:3)
[1] CONTRACT dst=2 inputs=(1) spec=(v0:2, v1:3)
[2] ELIMINATE dst=3 src=2 keep_keys=(v1) spec=(v1:3)
[3] NORMALIZE dst=4 src=3 scale=('scale', 'msg', 0, 1) spec=(v1:3)
[4] STORE_SLOT slot=('msg', 0, 1) src=4
[5] FREE srcs=(1, 2, 3, 4)
[6] UNIT dst=5 spec=()
[7] LOAD_SELECTOR dst=6 selector_id=0 spec=(v1:3, m7:3)
[8] LOAD_SLOT dst=7 slot=('it\\'s "quoted" # \\n', -1) spec=(v1:3)
[9] FREE srcs=(5, 6, 7)"""


def test_it_prints_as_it_was_read() -> None:
    program = from_text(CHAIN)
    assert to_text(program) == CHAIN
    assert program.instructions[4] == Instruction(OpCode.STORE_SLOT, None, {"slot": message(0, 1), "src": 4})
    assert program.instructions[8].args["slot"] == ("it's \"quoted\" # \n", -1)


def test_numbers_blank_lines_comments_and_commas_at_the_end_are_free() -> None:
    assert from_text("\n# all of it\n  [ 0 ] FREE  srcs = ( 1 , 2, )  # both\r\n\n") == from_text("FREE srcs=(1, 2)")
    assert from_text("") == Program(()) and to_text(Program(())) == ""


@pytest.mark.parametrize(("line", "message"), [
    ("ADD dst=0", "ADD is no opcode"),
    ("[0] [1] UNIT", "a word is missing before '['"),
    ("[1] UNIT", "the instruction has the number 1, but is number 0"),
    ("[0 UNIT", "] is missing before 'UNIT'"),
    ("[", "a int is missing before the end of the line"),
    ("UNIT dst", "= is missing before the end of the line"),
    ("UNIT dst=", "the end of the line is no value"),
    ("UNIT dst=0 dst=1", "dst is given twice"),
    ("UNIT spec=(v0)", "spec has the form (v3:2, m1:4)"),
    ("UNIT spec=3", "spec has the form (v3:2, m1:4)"),
    ("FREE srcs=(1 2)", ") is missing before '2'"),
    ("FREE srcs=(1,", "the end of the line is no value"),
    ("FREE srcs=((1))", "'(' is no value"),
    ("FREE srcs=(,)", "',' is no value"),
    ("FREE srcs=v1x", "'v1x' is no value"),
    ("FREE srcs=007", "'007' is no value"),
    ("FREE srcs=" + "1" * 5000, f"'{'1' * 40}' is no value"),
    ("FREE srcs='\\x'", "is no value"),
    ("FREE srcs=1.5", "'.5' is no part of it"),
    ("FREE srcs='a", "\"'a\" is no part of it"),
])
def test_what_cannot_be_read_is_named_with_its_line(line: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        from_text(f"\n# a comment\n{line}\n")
    assert str(caught.value).startswith("line 3 of the program's text: ") and message in str(caught.value)
