"""The text form: golden texts as documentation, and that everything printed parses back."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from jitfuse.errors import JitfuseError
from jitfuse.ir.formats.text import meta_text, step_text, to_text
from jitfuse.ir.program import FusedProgram, Meta

TRAINING = """\
program 1 {
  feed %0: float32[3, 4] "args[0]['x']"
  feed %1: float64[] weak 'args[1]'
  state %2: int64[2] 'jf.random.state'
  %3: float32[3, 4] = multiply(%0, %1)  {step 0, level 0}  # model.py:12
  %4: int64[] weak = full(dtype='int64', shape=(), value=0, weak=True)  {step 1, level 1}
  %5: float32[3, 4] = dropout(%3, %2, %4, p=0.25)  {step 2, level 2, mode}
  %6: float32[3] = sum(%5, axis=(1,), keepdims=False)  {step 3, level 3}  # model.py:14
  %7: int64[2] = random_advance(%2)  {step 4, level 4}
  return "['total']": %6
  return "['kept']": %5
  update %2 <- %7
  write %0 <- %3
}"""

NESTING = """\
program 1 {
  feed %0: float32[3]
  %1: float32[3] = repeat(%0, body=program 1 {
    feed %0: float32[3]
    %1: float32[3] = exp(%0)  {step 0, level 0}  # body.py:3
    return '': %1
  }, times=2)  {step 0, level 0}
  return '': %1
}"""

VALUES = """\
program 1 {
  %0: bool[2, 0] @gpu axes ('row', 'my column') = op(a=(1.0, -0.0, inf, -inf, nan, nan:fff8000000000000, 5e-324), \
b=(None, True, False, -3, ()), c=h'00ff', d=('it\\'s "#"', '\\n'), e=((1,),))  {step 7, level 0}
  return '': %0
}"""


def test_a_program_with_everything_reads_like_this(training_program: FusedProgram) -> None:
    assert to_text(training_program) == str(training_program) == TRAINING
    assert FusedProgram.from_text(TRAINING) == training_program


def test_a_nested_program_stands_inside_its_step(nesting_program: FusedProgram) -> None:
    assert to_text(nesting_program) == NESTING
    again = FusedProgram.from_text(NESTING, check=False)
    assert again == nesting_program
    assert dict(again.steps[0].attr("body").sources) == {0: "body.py:3"}


def test_values_of_every_kind_read_like_this() -> None:
    assert to_text(FusedProgram.from_text(VALUES, check=False)) == VALUES


@settings(max_examples=drawn(60), deadline=None)
@given(data=st.data())
def test_any_program_parses_back_equal_with_its_sources(any_program: Any, data: Any) -> None:
    program = data.draw(any_program)
    again = FusedProgram.from_text(to_text(program), check=False)
    assert again.canonical_bytes == program.canonical_bytes
    assert dict(again.sources) == dict(program.sources)


def test_white_space_and_comments_are_free() -> None:
    step = "%1:float32[3]=exp(%0){step 0,level 0}"
    program = FusedProgram.from_text(f"# a note\nprogram 1{{feed %0:float32[3]\n# another\n{step}\nreturn'':%1}}\n#\n")
    assert program.ordered_feeds == (0,) and dict(program.sources) == {}


def test_one_step_reads_as_in_the_program(training_program: FusedProgram, nesting_program: FusedProgram) -> None:
    for step in training_program.steps:
        assert "  " + step_text(training_program, step) in TRAINING.splitlines()
    (step,) = nesting_program.steps
    assert step_text(nesting_program, step) == (
        "%1: float32[3] = repeat(%0, body=program of 1 steps, times=2)  {step 0, level 0}"
    )


def test_a_value_without_meta_shows_a_question_mark(training_program: FusedProgram) -> None:
    bare = replace(training_program, meta={})
    assert "%6: ? = sum(%5" in to_text(bare)
    assert FusedProgram.from_text(to_text(bare), check=False) == bare
    assert meta_text(None) == "?"
    assert meta_text(Meta((), "bool", "cuda:0", True)) == "bool[] weak @cuda:0"


def test_a_source_with_odd_characters_stays_on_its_line(training_program: FusedProgram) -> None:
    odd = replace(training_program, sources={0: "a #b\nc.py:1"})
    assert dict(FusedProgram.from_text(to_text(odd)).sources) == {0: "a #b c.py:1"}


@pytest.mark.parametrize(("text", "message"), [
    ("", "line 1 of the program's text: expected 'program', found 'the end'"),
    ("program 2 {}", "expected a program of version 1 (this one has version 2) before this"),
    ("program 1 {", "line 1 of the program's text: expected feed, state, a step, return, update, write or '}'"),
    ("program 1 {\n feed %0 float32[]\n}", "line 2 of the program's text: expected ':', found 'float32'"),
    ("program 1 {\n\n ~\n}", "line 3 of the program's text: '~\\n}' is not part of its language"),
    ("program 1 {}\n}", "line 2 of the program's text: expected the end of the text, found '}'"),
    ("program 1 { %0: ? = f(a=) {step 0, level 0} }", "expected a value, found ')'"),
    ("program 1 { %0: ? = f(a=1, %1) {step 0, level 0} }", "expected word, found '%1'"),
    ("program 1 { %0: ? = f() {level 0} }", "expected 'step', found 'level'"),
    ("program 1 { return '\\x': %0 }", "\\x stands for nothing"),
    ("program 1 { %0: f[] axes (1,) = f() {step 0, level 0} }", "expected a tuple of axis names before this"),
    ("program 1 { return 'a': %0 return 'a': %0 }", "this output is said twice"),
    ("program 1 { feed %0: bool[] feed %0: bool[] }", "the meta of this value is said twice"),
    ("program 1 { feed %0: ? feed %0: ? }", "this feed is said twice"),
    ("program 1 { write %0 <- %1 write %0 <- %2 }", "what this feed is to become by write is said twice"),
    ("program 1 { %0: ? = f(a=nan:0000000000000001) }", "is no float"),
    ("program 1 { %0: ? = f(a=h'abc') }", "expected a value"),
    ("program " + "1" * 5000 + " {}", "is no int: Exceeds the limit"),
    ("program 1 { feed %" + "1" * 5000 + ": bool[] }", "is no id"),
    ("program 1 { return '\\U00110000': %0 }", "is no string"),
    ("program 1 { return '\\ud800': %0 }", "surrogates not allowed"),
    ("program 1 {} # \ud800", "is not part of its language"),
    ("program \u0661 {}", "is not part of its language"),
    ("program 1 { feed %0: float128[] }", "rule 9: the dtype float128 of %0 is not supported"),
    ("program 1 { %0: ? = f(a=" + "(" * 5000 + ") }", "nested too deeply"),
])
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(JitfuseError) as caught:
        FusedProgram.from_text(text)
    assert message in str(caught.value)


def test_every_character_of_a_string_comes_back() -> None:
    path = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x10500))) + "\U0010ffff"
    program = FusedProgram(frozenset({0}), (), {path: 0}, {0: Meta((), "bool")})
    assert FusedProgram.from_text(to_text(program)) == program


@pytest.mark.parametrize("escape", ["\\Uffffffff", "\\U80000000", "\\U00110000"])
def test_escapes_beyond_unicode_are_refused(escape: str) -> None:
    with pytest.raises(JitfuseError):
        FusedProgram.from_text(f"program 1 {{ feed %0: float32[3] '{escape}' }}")
