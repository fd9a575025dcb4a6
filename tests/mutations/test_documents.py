"""A sample of the mutations of program files; ``python -m tests.mutations json messagepack text`` runs more."""
from __future__ import annotations

import pytest

from tests.mutations.child import case
from tests.mutations.kinds import load

CASES = 200


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["json", "messagepack", "text"])
def test_a_mutated_program_is_refused_or_valid(name: str) -> None:
    kind = load(name)
    seeds = kind.seeds()
    findings = {number: kind.judge(*case(kind, seeds, name, 7, number)) for number in range(CASES)}
    assert {number: finding for number, finding in findings.items() if finding} == {}


@pytest.mark.full
@pytest.mark.parametrize("name", ["json", "messagepack", "text"])
def test_valid_programs_are_read_and_written_byte_for_byte(name: str) -> None:
    kind = load(name)
    assert [finding for seed in kind.seeds()[::3] if (finding := kind.judge(seed, seed))] == []
