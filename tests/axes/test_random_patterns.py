"""A sample of random operations over named axes, by the judge that computes them with loops over indices."""
from __future__ import annotations

import importlib.util
import random
from collections import Counter
from typing import Final

import numpy as np
import pytest
from amount import drawn
from axes.compared import arrays_of, find, program
from axes.oracle import NothingToReduceError, judge
from axes.others import by_einops, by_einsum, uses_every_array
from axes.patterns import KINDS, Pattern, draw_pattern
from axes.random_patterns import RUNS, least
from axes.sources import UnclearError

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_einops = pytest.mark.skipif(importlib.util.find_spec("einops") is None, reason="einops is not installed")
PATTERNS: Final = 150


def patterns(kind: str, way: str, count: int) -> list[Pattern]:
    """Return patterns of a kind, the same each time."""
    return [draw_pattern(kind, random.Random(f"{way} {kind} {number}")) for number in range(count)]


def check(kind: str, way: str, count: int) -> None:
    """Assert that of so many patterns none comes out wrong, and most are not refused but right."""
    findings = [(pattern, find(pattern, RUNS[way])) for pattern in patterns(kind, way, count)]
    wrong = [f"{finding.message}\n{program(pattern)}" for pattern, finding in findings if finding.state == "wrong"]
    assert not wrong, wrong[0]
    states = Counter(finding.state for _, finding in findings)
    assert states["fine"] >= int(least(kind, way) * count), states


@pytest.mark.parametrize("kind", KINDS)
def test_numpy(kind: str) -> None:
    check(kind, "eager", drawn(PATTERNS, 20))


@needs_torch
@pytest.mark.parametrize("kind", KINDS)
def test_torch(kind: str) -> None:
    check(kind, "torch", drawn(PATTERNS, 20))


@pytest.mark.parametrize("kind", KINDS)
def test_fused(kind: str) -> None:
    check(kind, "fused", drawn(12, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_nine_tenths_are_well_formed(kind: str) -> None:
    refused = 0
    for pattern in patterns(kind, "well formed", drawn(PATTERNS, 60)):
        try:
            refused += bool(judge(pattern.operation, arrays_of(pattern)).errors)
        except (NothingToReduceError, UnclearError):
            refused += 1
    assert refused <= drawn(PATTERNS, 60) * 0.2


@needs_einops
@pytest.mark.parametrize("kind", ["rearrange", "repeat", "reduce"])
def test_the_judge_agrees_with_einops(kind: str) -> None:
    compared = 0
    for pattern in patterns(kind, "einops", drawn(PATTERNS, 120)):
        arrays = arrays_of(pattern)
        try:
            judged = judge(pattern.operation, arrays)
        except (NothingToReduceError, UnclearError):
            continue
        expected = None if judged.errors else by_einops(pattern.operation, arrays)
        if expected is not None:
            np.testing.assert_allclose(judged.outputs[0], expected, 4e-3, err_msg=program(pattern))
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("kind", ["contract", "einop"])
def test_the_judge_agrees_with_einsum(kind: str) -> None:
    compared = 0
    for pattern in patterns(kind, "einsum", drawn(PATTERNS, 120)):
        arrays = arrays_of(pattern)
        try:
            judged = judge(pattern.operation, arrays)
        except (NothingToReduceError, UnclearError):
            continue
        if judged.verdict is None or not uses_every_array(judged.verdict.sources, len(arrays)):
            continue
        for expected, output in zip(by_einsum(pattern.operation, arrays) or (), judged.outputs):
            np.testing.assert_allclose(output, expected, 1e-9, 1e-9, err_msg=program(pattern))
            compared += 1
    assert compared > 5
