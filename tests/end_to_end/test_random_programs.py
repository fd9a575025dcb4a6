"""Random programs against plain NumPy; a few hundred here, JITFUSE_TEST_SCALE times as many where it is set."""
from __future__ import annotations

import random

import pytest
from amount import drawn
from compare import check
from generate import draw_program, programs
from hypothesis import HealthCheck, given, settings
from programs import Program


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
    for number in range(drawn(40)):
        assert_agrees(draw_program(random.Random(f"{block}/{number}")))


def test_programs_over_arrays_that_overlap() -> None:
    for number in range(drawn(60)):
        assert_agrees(draw_program(random.Random(f"overlap/{number}"), 8, overlapping=True))


def test_short_programs_agree_with_numpy() -> None:
    for number in range(drawn(120)):
        assert_agrees(draw_program(random.Random(f"short/{number}"), 3))
