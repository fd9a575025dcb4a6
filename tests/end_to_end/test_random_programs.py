"""Random programs against plain NumPy; a few hundred here, JITFUSE_TEST_SCALE times as many where it is set."""
from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from amount import drawn
from compare import check
from generate import draw_program, programs
from hypothesis import HealthCheck, given, settings
from programs import Program, quiet

import jitfuse as jf
from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.passes.pipeline import run_passes


def assert_agrees(program: Program) -> None:
    failure = check(program)
    assert failure is None, f"{failure}\n{program.script()}"


@settings(max_examples=drawn(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_hypothesis_programs_agree_with_numpy(program: Program) -> None:
    assert_agrees(program)


@pytest.mark.parametrize("block", range(4))
def test_seeded_programs_agree_with_numpy(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_DEBUG", "1")
    for number in range(drawn(24)):
        assert_agrees(draw_program(random.Random(f"{block}/{number}")))


def test_programs_over_arrays_that_overlap() -> None:
    for number in range(drawn(60)):
        assert_agrees(draw_program(random.Random(f"overlap/{number}"), 8, overlapping=True))


def test_short_programs_agree_with_numpy() -> None:
    for number in range(drawn(120)):
        assert_agrees(draw_program(random.Random(f"short/{number}"), 3))


PROGRAMS, STEPS, OFTEN = 700, 60, 3
CONTROL = {op.name for op in ops.table() if op.kind == ops.CONTROL}
"""Not drawn: steps that hold programs of their own, of which programs as flat lists of statements know nothing."""
COUNTED = set(FAMILIES["counted"])
"""Not drawn: steps that come after a look at how many elements there are, which programs without data cannot have."""
OTHERS = {"topk", *FAMILIES["semirings"]}
"""Not drawn: what only torch's functions and factor graphs become."""


@pytest.mark.full
def test_every_operator_and_every_dtype_is_drawn() -> None:
    names: Counter[str] = Counter()
    dtypes: set[str] = set()
    traced: Counter[str] = Counter()
    expected = set(ops.names()) - CONTROL - COUNTED - OTHERS - {"stop_gradient"}
    for number in range(PROGRAMS):
        if expected <= names.keys() and dtypes == set(SUPPORTED):
            break
        source = draw_program(random.Random(f"operators/{number}"), STEPS)
        called = {name for s in source.statements for name in re.findall(r"\w+(?=\()", s.text)}
        if all(traced[name] >= OFTEN for name in called):
            continue  # such calls have been traced with all kinds of arguments
        source = replace(source, outputs=tuple({s.target: None for s in source.statements}), container="tuple")
        try:
            with quiet():
                program = jf.fuse(source.function()).program(*source.arguments())
                lowered = run_passes(program, False)
        except jf.JitfuseError:
            continue  # the last statement of some programs may well be wrong
        traced.update(called)
        for p in (program, lowered):
            names.update(s.op_name for s in p.steps)
            dtypes.update(m.dtype for m in p.meta.values())
    assert sorted(expected - names.keys()) == []
    assert dtypes == set(SUPPORTED)
