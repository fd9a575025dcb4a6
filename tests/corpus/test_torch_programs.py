"""Torch models and functions run unchanged under `torch.no_grad()`: what they return equals eager torch's."""
from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jitfuse as jf
from jitfuse.compile import interface as compiler

torch = pytest.importorskip("torch", reason="torch is not installed")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from torch_models import difference  # noqa: E402
from torch_programs import PROGRAMS, Program  # noqa: E402


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_fused_as_it_stands(program: Program) -> None:
    """The later calls have other data in the same layout: they run what the first compiled, natively."""
    torch.manual_seed(0)
    compiler.native_runtime()
    function, arguments = program.make("small")
    fused = jf.fuse(function)
    with torch.no_grad():
        for k in range(3):
            given = tuple(a * (1 + 0.1 * k) if a.is_floating_point() else a for a in arguments)
            assert difference(function(*given), fused(*given)) <= program.tolerance
        assert fused.stats()["fallbacks"] == 0
        if not program.splits:
            assert fused.stats()["traces"] == 1
            misses = fused.parts.entries.misses
            fused(*arguments)
            assert fused.parts.entries.misses == misses


def test_there_are_many() -> None:
    names = [p.name for p in PROGRAMS]
    assert len(set(names)) == len(names) >= 28


@pytest.mark.parametrize("actual", [
    [1.0, math.nan], [1.0, 2.1], [1.0], [1.0, math.inf],
])
def test_differences_are_found(actual: list[float]) -> None:
    wanted = torch.tensor([1.0, 2.0])
    assert difference(wanted, torch.tensor(actual)) > 0.04
    assert difference(wanted, (wanted, wanted)) == math.inf == difference(wanted, wanted.double())
    assert difference(wanted, wanted + 0) == 0.0


@pytest.mark.full
def test_programs_are_timed_and_summed_up(tmp_path: Path) -> None:
    path = os.pathsep.join([str(BENCHMARKS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, str(BENCHMARKS / "torch_models.py"), "--small", "--rounds", "1", "--systems", "eager",
         "jitfuse", "--only", "particles", "detector_losses", "--json", str(tmp_path / "results")],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )
    results: dict[str, Any] = json.loads((tmp_path / "results").read_text())
    assert set(results) == {"particles", "detector_losses"}
    assert all(set(times) == {"first", "call"} for found in results.values() for times in found.values())
    assert "jitfuse over eager: geometric mean" in ran.stdout
