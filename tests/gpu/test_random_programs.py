"""Random programs on the GPU against plain NumPy: the same programs and the same judge as for the CPU."""
from __future__ import annotations

import random
import warnings
from typing import Any

import compare
import numpy as np
import optree
import pytest
from amount import drawn
from generate import draw_program

import jitfuse as jf


class OnGpu:
    """A function fused for the GPU whose results come as NumPy's; how often it fell back is kept apart."""

    calls = fallbacks = 0

    def __init__(self, function: Any) -> None:
        self.fused = jf.fuse(function, device="gpu")

    def __call__(self, *args: Any) -> Any:
        OnGpu.calls += 1
        before = self.fused.stats()["fallbacks"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jf.FallbackWarning)
            result = self.fused(*args)
        OnGpu.fallbacks += self.fused.stats()["fallbacks"] > before
        return optree.tree_map(on_host, result)

    def stats(self) -> dict[str, int]:
        return {**self.fused.stats(), "fallbacks": 0}


def on_host(leaf: Any) -> Any:
    return np.asarray(leaf)[()] if isinstance(leaf, jf.gpu.GpuTensor) else leaf


class Face:
    """jitfuse as the judge sees it."""

    fuse = OnGpu

    def __getattr__(self, name: str) -> Any:
        return getattr(jf, name)


@pytest.fixture(autouse=True)
def judged_on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "jf", Face())
    OnGpu.calls = OnGpu.fallbacks = 0


def assert_agrees(number: str, steps: int, **options: Any) -> None:
    program = draw_program(random.Random(number), steps, **options)
    failure = compare.check(program)
    assert failure is None, f"{failure}\n{program.script()}"


def test_short_programs_agree_with_numpy() -> None:
    for number in range(drawn(40)):
        assert_agrees(f"gpu/short/{number}", 3)
    assert OnGpu.fallbacks < OnGpu.calls * 0.6


def test_programs_agree_with_numpy() -> None:
    for number in range(drawn(15)):
        assert_agrees(f"gpu/{number}", 12)
