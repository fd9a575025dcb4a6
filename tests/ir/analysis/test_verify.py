"""Each rule of a valid program, broken once, and what the findings say."""
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from jitfuse.errors import ArgumentError, JitfuseError, VerifyError
from jitfuse.ir.analysis.attributes import ATTR_KINDS
from jitfuse.ir.analysis.verify import nested_programs, verify
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.generators import _PARAMETERS
from jitfuse.ir.operators.op import _TABLE
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.ir.semantics.rerolled import accesses
from jitfuse.tracing.generators import random_state, rng

F = Meta((3, 4), "float32")


def findings(program: FusedProgram) -> tuple[str, ...]:
    with pytest.raises(VerifyError) as caught:
        verify(program)
    return caught.value.findings


def with_step(program: FusedProgram, k: int, **changes: Any) -> FusedProgram:
    steps = list(program.steps)
    steps[k] = replace(steps[k], **changes)
    return replace(program, steps=tuple(steps))


def with_meta(program: FusedProgram, **metas: Meta) -> FusedProgram:
    return replace(program, meta={**program.meta, **{int(k[1:]): m for k, m in metas.items()}})


def test_a_valid_program_has_no_findings(training_program: FusedProgram) -> None:
    verify(training_program)


def test_an_empty_program_is_valid() -> None:
    verify(FusedProgram.from_text("program 1 {}"))


BROKEN: list[tuple[str, Any, str]] = [
    ("sources", lambda p: replace(p, sources={9: "model.py:1"}), "rule 2: 9 has a source, but is no step"),
    ("large id", lambda p: replace(p, feeds=p.feeds | {1 << 63}), f"rule 2: {1 << 63} is no id"),
    ("negative level", lambda p: with_step(p, 0, level=-1), "rule 5: -1 is no level"),
    ("huge", lambda p: with_meta(p, _0=Meta((1 << 40, 1 << 40), "float32")), "rule 9: %0 has the shape (1099511"),
    ("huge and empty", lambda p: with_meta(p, _0=Meta((0, 1 << 40, 1 << 40), "bool")), "rule 9: %0 has the shape (0, "),
    ("extents", lambda p: with_meta(p, _0=Meta((1,) * 65, "bool")), "rule 9: %0 has the shape (1, "),
    ("weak dtype", lambda p: with_meta(p, _1=Meta((), "float32", weak=True)),
     "rule 9: %1 is weak and has the shape () and the dtype float32"),
    ("large attribute", lambda p: with_step(p, 3, attrs=(("axis", 1 << 64), ("keepdims", False))),
     "rule 7: sum: the attribute axis should be None, an int or a tuple of ints, not 18446744073709551616"),
    ("random states", lambda p: replace(
        with_meta(p, _0=Meta((2,), "int64")), feed_names=dict.fromkeys((0, 2), "jf.random.state"),
        state_in=frozenset({0, 2}),
    ), "rule 12: %2 is the random state, and so is %0"),
    ("version", lambda p: replace(p, version=7), "rule 1: the version is 7, not 1"),
    ("negative id", lambda p: replace(p, feeds=p.feeds | {-1}), "rule 2: -1 is no id"),
    ("bool id", lambda p: replace(p, outputs={"": True}), "rule 2: True is no id"),
    ("equal step ids", lambda p: with_step(p, 4, step_id=3), "rule 2: several steps have the id 3"),
    ("made twice", lambda p: with_step(p, 4, result_ids=(6,)), "rule 3: %6 is made more than once"),
    ("made twice by one step", lambda p: with_step(p, 4, result_ids=(7, 7)),
     "rule 3: %7 is made more than once"),
    ("feed is made", lambda p: replace(p, feeds=p.feeds | {6}),
     "rule 3: %6 is a feed, and a step makes it too"),
    ("no results", lambda p: with_step(p, 4, result_ids=()), "rule 3: the step makes no value"),
    ("read early", lambda p: with_step(p, 0, input_ids=(5, 1)),
     "rule 4: %5 is read, but a later step makes it"),
    ("reads itself", lambda p: with_step(p, 0, input_ids=(3, 1)),
     "rule 4: %3 is read, but a later step makes it"),
    ("not made", lambda p: with_step(p, 0, input_ids=(99, 1)),
     "rule 4: %99 is read, but neither feed nor step"),
    ("level falls", lambda p: with_step(p, 3, level=1), "rule 5: the level falls from 2 to 1"),
    ("unknown op", lambda p: with_step(p, 0, op_name="mulitply"), "rule 6: 'mulitply' is no operator"),
    ("arity", lambda p: with_step(p, 0, input_ids=(0,)), "rule 6: multiply takes 2 operand(s), not 1"),
    ("surplus attribute", lambda p: with_step(p, 0, attrs=(("axis", 0),)),
     "rule 7: multiply has no attribute 'axis'; it takes none"),
    ("missing attribute", lambda p: with_step(p, 3, attrs=(("axis", 0),)),
     "rule 7: sum needs the attribute 'keepdims'"),
    ("wrong type", lambda p: with_step(p, 3, attrs=(("axis", 1.0), ("keepdims", False))),
     "rule 7: sum: the attribute axis should be None, an int or a tuple of ints, not 1.0"),
    ("unsorted", lambda p: with_step(p, 3, attrs=(("keepdims", False), ("axis", 1))),
     "rule 7: the attributes are not"),
    ("mode missing", lambda p: with_step(p, 2, mode_sensitive=False), "rule 8: dropout depends on the mode"),
    ("mode surplus", lambda p: with_step(p, 0, mode_sensitive=True),
     "rule 8: multiply does not depend on the mode"),
    ("meta missing", lambda p: replace(p, meta={i: m for i, m in p.meta.items() if i != 6}),
     "rule 9: %6 has no meta"),
    ("meta of nothing", lambda p: with_meta(p, _99=F), "rule 9: %99 has a meta, but nothing makes it"),
    ("dtype", lambda p: with_meta(p, _0=Meta((3, 4), "float128")),
     "rule 9: the dtype float128 of %0 is not supported"),
    ("extent", lambda p: with_meta(p, _0=Meta((-3, 4), "float32")), "rule 9: %0 has the shape (-3, 4)"),
    ("weak array", lambda p: with_meta(p, _0=Meta((3, 4), "float32", weak=True)),
     "rule 9: %0 is weak and has the shape"),
    ("axes", lambda p: with_meta(p, _0=Meta((3, 4), "float32", axes=("a",))),
     "rule 9: %0 has 2 extents and 1 named"),
    ("inferred shape", lambda p: with_meta(p, _6=Meta((4,), "float32")),
     "rule 10: %6 should be float32[3], not float32[4]"),
    ("inferred dtype", lambda p: with_meta(p, _6=Meta((3,), "float64")),
     "rule 10: %6 should be float32[3], not float64"),
    ("inferred weak", lambda p: with_meta(p, _4=Meta((), "int64")),
     "rule 10: %4 should be int64[] weak, not int64[]"),
    ("operands clash", lambda p: with_meta(p, _1=Meta((5,), "float32")),
     "rule 10: multiply: shapes (3, 4), (5,) do not"),
    ("result count", lambda p: with_meta(with_step(p, 0, result_ids=(3, 30)), _30=F),
     "rule 10: multiply makes 1 value(s)"),
    ("output", lambda p: replace(p, outputs={"y": 99}), "rule 11: output 'y' is %99, which nothing makes"),
    ("state of nothing", lambda p: replace(p, state_out={2: 99}), "rule 11: the new state of %2 is %99"),
    ("write of nothing", lambda p: replace(p, writes={0: 99}),
     "rule 11: the write to %0 is %99, which nothing makes"),
    ("name", lambda p: replace(p, feed_names={**p.feed_names, 6: "x"}),
     "rule 11: %6 has the name 'x', but is no feed"),
    ("state no feed", lambda p: replace(p, state_in=p.state_in | {6}), "rule 12: %6 is state, but no feed"),
    ("state_out", lambda p: replace(p, state_out={0: 3}), "rule 12: %0 has a new state, but is no state"),
    ("state meta", lambda p: replace(p, state_out={2: 3}),
     "rule 12: %2 is int64[2], what replaces it, %3, is float32[3, 4]"),
    ("random state", lambda p: replace(p, state_in=frozenset(), state_out={}),
     "rule 12: the random state %2 is int64[2], not"),
    ("write to state", lambda p: replace(p, writes={2: 7}),
     "rule 13: %2 is written, but is no feed, or is state"),
    ("write meta", lambda p: replace(p, writes={0: 6}),
     "rule 13: %0 is float32[3, 4], what replaces it, %6, is float32[3]"),
]


@pytest.mark.parametrize(("change", "finding"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_broken_rule_is_found(training_program: FusedProgram, change: Any, finding: str) -> None:
    found = findings(change(training_program))
    assert any(f.startswith(finding) for f in found), found


def test_every_rule_of_the_specification_is_broken_above() -> None:
    numbers = set(re.findall(r"^ *([0-9]+)\. ", verify.__doc__ or "", re.MULTILINE))
    broken = {b[2].split(":")[0].removeprefix("rule ") for b in BROKEN} | {"14"}
    assert numbers == broken


def test_all_findings_come_at_once_with_the_step_and_the_users_line(training_program: FusedProgram) -> None:
    program = with_step(with_step(training_program, 0, op_name="mulitply"), 3, level=0)
    found = findings(replace(program, version=3))
    assert [f.split(":")[0] for f in found] == ["rule 1", "rule 6", "rule 5"]
    assert "    %3: float32[3, 4] = mulitply(%0, %1)  {step 0, level 0}  # model.py:12" in found[1]
    with pytest.raises(JitfuseError, match=r"3 finding\(s\) in the program:") as caught:
        verify(replace(program, version=3))
    assert all(f in str(caught.value) for f in found)


# ---------------------------------------------------------------- attributes
def test_every_attribute_of_the_table_has_a_kind() -> None:
    used = {name for op in ops.table() for name in op.attrs}
    assert used == set(ATTR_KINDS)


WRONG: dict[str, list[Any]] = {
    "axis": [1.5, "0", True, (1.0,)], "axes": [0, None, (True,)], "keepdims": [1, None],
    "correction": ["1", None, True],
    "shape": [3, (-1,), (2.0,), None], "dtype": ["float128", "f", None], "starts": [0, (None,)],
    "steps": [(1.5,)], "counts": [(-1,), 2], "value": [None, "1", (1,)], "weak": [0, None],
    "start": [None, True], "step": ["1"],
    "count": [-1, 2.0, None], "data": ["", None], "p": [None, "0.5", True], "largest": [0, None],
    "eps": [None, "1e-5"],
    "status": [None, -1, 1.0],
    "carrier": [None, b"log"], "records": ["", None], "workspace": [-1, 1.0],
    "method": [None, 1], "sorting": [None, 1], "side": [None, 1], "positions": [0, (1.5,)],
    "shifts": [0, (1.5,)], "reps": [(-1,), 2], "times": [-1, 1.5], "before": [(-1,)], "after": [(-1,)], "mode": [None],
    "values": [0, ("1",)], "lengths": [None, (1.5,)], "odd": [0], "k": [1.5], "offset": [None],
    "decimals": [1.0, None], "equal_nan": [0, None], "legacy": [1, None],
    "place": [-1, None], "combine": [None],
    "n": [-1, None], "s": [(-1,), 2], "norm": [None], "upper": [0], "lower": [1], "full_matrices": [None],
    "subscripts": [None], "path": [(0, 1), [(0, 1)], ((0.5,),)],
    "on_true": [None, (1,)], "on_false": ["f"], "condition": [True],
    "body": [None, (), (FusedProgram.from_text("program 1 {}"),)],
    "rule": [None], "results": [-1, None], "captured": [1.5],
    "carries": [-1, None], "scanned": [1.0], "length": [None, -1], "reverse": [0, None],
    "arrays": [-1, None], "reads": [(0, 1), [(0, 1)]], "writes": [((0.5,),)],
    "sizes": [(-1,), 2], "dilations": [(-1,), None],
    "size": [-1, None, 2.0], "return_index": [0], "return_inverse": [None], "return_counts": [1], "sorted": ["yes"],
    "assume_unique": [0], "return_indices": [None],
}


@pytest.mark.parametrize("name", sorted(ATTR_KINDS))
def test_a_value_of_the_wrong_kind_is_refused(name: str) -> None:
    fits, words = ATTR_KINDS[name]
    assert words
    assert [v for v in WRONG[name] if fits(v)] == []


def test_concat_takes_one_axis() -> None:
    text = "program 1 { feed %0: bool[2] %1: bool[2] = concat(%0, axis=None) {step 0, level 0} return '': %1 }"
    found = findings(FusedProgram.from_text(text, check=False))
    assert found[0].startswith("rule 7: concat: the attribute axis should be an int, not None")


# ---------------------------------------------------------------- nested programs
@pytest.fixture
def repeat_operator(monkeypatch: pytest.MonkeyPatch) -> Iterator[ops.Op]:
    """An operator that applies a program several times."""
    attrs = {"body": ops.REQUIRED, "times": 1}
    op = ops.Op("repeat", 1, ops.ELEMENTWISE, attrs, lambda m, a: m[0], lambda x, **_: x)
    monkeypatch.setitem(_TABLE, "repeat", op)
    yield op


@pytest.mark.usefixtures("repeat_operator")
class TestNested:
    def test_a_valid_one_is_accepted(self, nesting_program: FusedProgram) -> None:
        verify(nesting_program)
        assert [name for name, _ in nested_programs(nesting_program.steps[0])] == ["body"]

    def test_its_own_findings_are_reported_with_its_step(self, nesting_program: FusedProgram) -> None:
        body = with_step(nesting_program.steps[0].attr("body"), 0, op_name="exq")
        program = with_step(nesting_program, 0, attrs=make_attrs({"body": body, "times": 2}))
        (found,) = findings(program)
        assert found.startswith("rule 14: in body of step 0: rule 6: 'exq' is no operator")
        assert "%1: float32[3] = exq(%0)  {step 0, level 0}  # body.py:3" in found
        assert "%1: float32[3] = repeat(%0, body=program of 1 steps, times=2)" in found

    def test_its_feeds_are_as_many_as_the_operands(self, nesting_program: FusedProgram) -> None:
        body = nesting_program.steps[0].attr("body")
        body = replace(body, feeds=frozenset({0, 5}), meta={**body.meta, 5: Meta((), "bool")})
        program = with_step(nesting_program, 0, attrs=make_attrs({"body": body, "times": 2}))
        assert findings(program)[0].startswith("rule 14: body has 2 feeds for 1 operands")

    def test_its_feeds_have_the_operands_metas(self, nesting_program: FusedProgram) -> None:
        nine = Meta((9,), "float32")
        body = replace(nesting_program.steps[0].attr("body"), meta={0: nine, 1: nine})
        program = with_step(nesting_program, 0, attrs=make_attrs({"body": body, "times": 2}))
        assert findings(program)[0].startswith(
            "rule 14: feed %0 of body is float32[9], its operand is float32[3]"
        )


LOOPS = """\
program 1 {
  feed %0: float64[3]
  feed %1: bool[]
  %2: float64[3] = fori_loop(%4, %5, %0, %1, body=program 1 {
    feed %0: int64[]
    feed %1: float64[3]
    feed %2: bool[]
    %3: float64[3] = cond(%2, %1, on_false=program 1 {
      feed %0: bool[]
      feed %1: float64[3]
      %2: float64[3] = sin(%1)  {step 4, level 0}
      return '0': %2
    }, on_true=program 1 {
      feed %0: bool[]
      feed %1: float64[3]
      %2: float64[3] = cos(%1)  {step 6, level 0}
      return '0': %2
    })  {step 8, level 0}
    return '0': %3
  }, carries=1)  {step 2, level 1}
  return '': %2
}"""
LOOPS = LOOPS.replace("  %2: float64[3] = fori_loop", """\
  %4: int64[] = full(dtype='int64', shape=(), value=0, weak=False)  {step 0, level 0}
  %5: int64[] = full(dtype='int64', shape=(), value=3, weak=False)  {step 1, level 0}
  %2: float64[3] = fori_loop""", 1)


def test_faults_at_any_depth_are_all_reported_with_the_way_to_them() -> None:
    verify(FusedProgram.from_text(LOOPS, check=False))
    broken = LOOPS.replace("sin(%1)", "sin(%7)").replace("= cos(", "= cosine(")
    broken = broken.replace("return '': %2", "return '': %9")
    found = findings(FusedProgram.from_text(broken, check=False))
    assert [f.partition("\n")[0] for f in found] == [
        "rule 14: in body of step 2, on_false of step 8: rule 4: %7 is read, but neither feed nor step makes it",
        "rule 14: in body of step 2, on_true of step 8: rule 6: 'cosine' is no operator",
        "rule 11: output '' is %9, which nothing makes",
    ]
    inner, outer = found[0].splitlines()[1:]
    assert inner == "    %2: float64[3] = sin(%7)  {step 4, level 0}"
    assert outer.startswith("    %2: float64[3] = fori_loop(%4, %5, %0, %1, body=program of 1 steps, carries=1)")


@pytest.mark.parametrize(("old", "new"), [
    ("carries=1", "carries=-1"), ("= fori_loop", "= for_loop"),
    ("%4: int64[]", "%4: ?"), ("feed %0: float64[3]", "feed %-1: float64[3]"),
])
def test_faults_of_a_step_do_not_hide_those_of_its_programs(old: str, new: str) -> None:
    broken = LOOPS.replace("= cos(", "= cosine(").replace(old, new, 1)
    found = findings(FusedProgram.from_text(broken, check=False))
    assert len(found) > 1 and any("'cosine' is no operator" in f for f in found)


@pytest.mark.parametrize("line", ["state %1: float64[3]", "feed %1: float64[3] write %1 <- %2"])
def test_programs_of_steps_have_neither_state_nor_writes(line: str) -> None:
    before, inner, after = LOOPS.partition("feed %1: float64[3]\n      %2: float64[3] = cos")
    assert inner
    text = before + line + inner.removeprefix("feed %1: float64[3]") + after
    (found,) = findings(FusedProgram.from_text(text, check=False))
    kind = "state" if line.startswith("state") else "writes"
    assert found.startswith(f"rule 14: in body of step 2, on_true of step 8: rule 14: it has {kind}: %1")


def test_programs_lie_in_one_another_at_most_so_deep() -> None:
    def nested(depth: int) -> FusedProgram:
        text = same = "program 1 { feed %0: bool[] return '0': %0 }"
        for _ in range(depth):
            made = f"%1: bool[] = cond(%0, on_false={text}, on_true={same}) {{step 0, level 0}}"
            text = f"program 1 {{ feed %0: bool[] {made} return '0': %1 }}"
        return FusedProgram.from_text(text, check=False)

    verify(nested(50))
    assert FusedProgram.from_json(nested(50).to_json()) == nested(50)
    found = findings(nested(51))
    assert len(found) == 2  # on_false and on_true of the innermost
    assert all("rule 14: programs lie more than 50 deep in one another" in f and len(f) < 3000 for f in found)


def test_a_finding_shows_the_beginning_of_a_long_step() -> None:
    ids = ", ".join(f"%{k}" for k in range(5000))
    text = f"program 1 {{ %9999: bool[] = stack({ids}, axis=0) {{step 0, level 0}} }}"
    program = FusedProgram.from_text(text, check=False)
    found = findings(program)
    assert len(found) == 5000 and max(map(len, found)) < 1000
    with pytest.raises(VerifyError, match="4900 more") as caught:
        verify(program)
    assert len(str(caught.value)) < 60_000


ROWS = [
    ("constant", (), {"shape": (2,), "dtype": "float64", "data": b"12345678"}, "constant: 8 bytes for float64[2]"),
    ("constant", (), {"shape": (2,), "dtype": "bool", "data": b"\0\2"}, "constant: the bytes of bools are 0 and 1"),
    ("full", (), {"shape": (), "value": 1, "dtype": "float64", "weak": True}, "1 is no constant of float64 weak"),
    ("full", (), {"shape": (), "value": 0.5, "dtype": "int8", "weak": False}, "0.5 is no constant of int8"),
    ("full", (), {"shape": (), "value": 128, "dtype": "int8", "weak": False}, "Python integer 128 out of bounds"),
    ("random_advance", (Meta((3,), "int64"),), {}, "random_advance: a random state is int64[2], not int64[3]"),
    ("random_uniform", (Meta((2,), "int64"), Meta((2,), "int64")), {"shape": (), "dtype": "float64"},
     "random_uniform: the index of a call is one integer, not int64[2]"),
    ("generator_draw", (), {"method": "random", "shape": (), "dtype": "float64"}, "generator_draw needs a state"),
    ("generator_draw", (Meta((8,), "uint64"),), {"method": "bytes", "shape": (), "dtype": "float64"},
     "generator_draw: there is no method 'bytes' of this generator"),
    ("generator_draw", (Meta((8,), "uint64"),), {"method": "normal", "shape": (), "dtype": "float64"},
     "generator_draw: normal takes 2 parameter(s), not 0"),
    ("generator_draw", (Meta((8,), "uint64"), Meta((2,), "int64")), {"method": "choice", "shape": (), "dtype": "int64"},
     "generator_draw: choice takes one integer first, not int64[2]"),
    ("generator_draw", (Meta((8,), "uint64"), Meta((), "complex64")),
     {"method": "poisson", "shape": (), "dtype": "int64"}, "generator_draw: parameters are real numbers, not complex"),
    ("generator_draw", (Meta((8,), "uint64"),), {"method": "random", "shape": (), "dtype": "int64"},
     "generator_draw: random does not make int64"),
    ("partition", (F,), {"axis": 0, "positions": ()}, "partition needs at least one position"),
    ("fftn", (F,), {"axes": (0, 1), "norm": "ortho", "s": (3,)}, "fftn: 1 numbers of points for 2 axes"),
    ("union1d_padded", (Meta((2,), "bfloat16"), Meta((2,), "int64")), {}, "union1d does not take bfloat16, int64"),
    ("scatter", (Meta((2,), "bfloat16"), Meta((), "int64"), Meta((2,), "int64")),
     {"axes": (0,), "place": 0, "combine": "bitwise_and"}, "bitwise_and does not take bfloat16, int64"),
    ("pad", (F,), {"before": (1, 1), "after": (0, 0), "values": (1, 2)}, "pad: 2 values for 2 axes, which take two"),
    ("pad", (F,), {"before": (1, 1), "after": (0, 0), "mode": "linear_ramp"}, "pad: 0 values for 2 axes, which take"),
    ("pad", (F,), {"before": (1, 1), "after": (0, 0), "mode": "mean", "lengths": (1, 1)}, "pad: 2 lengths for 2 axes"),
    ("quantile", (F, Meta((1,), "float64")), {"weak": True}, "quantile: a q that stands for a Python number"),
    ("solve", (Meta((2, 2), "float16"), Meta((2,), "int16")), {}, "solve does not take float16; cast first"),
    ("scatter", (Meta((2,), "int64"), Meta((), "float64"), Meta((2,), "int64")),
     {"axes": (0,), "place": 0, "combine": "add"}, "scatter: add makes float64, which is not cast to int64"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "message"), ROWS)
def test_rows_refuse_what_they_cannot_compute(
    name: str, operands: tuple[Meta, ...], attrs: dict[str, Any], message: str
) -> None:
    row = ops.get(name)
    assert row is not None
    step = OpStep(0, name, tuple(range(len(operands))), make_attrs(row.check_attrs(attrs)), (99,))
    found = findings(FusedProgram(frozenset(step.input_ids), (step,), {}, {**dict(enumerate(operands)), 99: F}))
    assert found[0].startswith(f"rule 10: {message}"), found


@pytest.mark.parametrize("window", [(0, 0, 1), (0, 0, 1, 0, 2), (0, 0, 1, 2), (0, 0, 1, 1, 2, 1), (0, 0, 1, 0, -1, 1)])
def test_windows_that_are_none_are_refused(window: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="is no window"):
        accesses([window])


def test_every_method_that_is_traced_is_one_that_programs_may_hold() -> None:
    traced = {**rng.FLOATS, **rng.INTEGERS, **random_state._FLOATS}
    assert {name: len(parameters) for name, parameters in traced.items()}.items() <= _PARAMETERS.items()


def test_an_operator_with_several_results(monkeypatch: pytest.MonkeyPatch) -> None:
    infer: Any = lambda metas, attrs: (metas[0], metas[0])  # noqa: E731
    pair = ops.Op("pair", 1, ops.VIEW, {}, infer, lambda x: (x, x))
    monkeypatch.setitem(_TABLE, "pair", pair)
    step = OpStep(0, "pair", (0,), (), (1, 2))
    verify(FusedProgram(frozenset({0}), (step,), {"": 2}, {0: F, 1: F, 2: F}))
    lone = FusedProgram(frozenset({0}), (replace(step, result_ids=(1,)),), {"": 1}, {0: F, 1: F})
    assert findings(lone)[0].startswith("rule 10: pair makes 2 value(s), not 1")
