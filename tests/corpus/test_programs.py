"""Programs of the corpus run unchanged: what they return and what they write equals plain NumPy's."""
from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import extended

import jitfuse as jf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from numpy_programs import PROGRAMS, Program
from numpy_programs.judging import difference

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    "crc16": "a bit of each number is a decision", "spmv": "rows of lengths that data holds",
    "density_clusters": "a queue of points", "bootstrap": "draws one after the other",
    "genetic": "draws one after the other",
}
"""Programs that plain Python runs in the end, at the size that benchmarks take, and why."""
FEWER = {"wave": 12}
"""Iterations of programs that have a part of the kernel for each, in place of those that benchmarks take."""


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name not in PLAIN][:: 1 if extended() else 2],
                         ids=lambda p: p.name)
def test_large_ones_are_compiled(program: Program) -> None:
    """Limits that small inputs do not meet (loops, looks, recursion) leave none of these to plain Python.

    Half of them: small inputs, from which all are compiled, show the rest.
    """
    fused, arguments = jf.fuse(program.function), program.inputs(program.large, np.random.default_rng(0))
    if program.name in FEWER:
        arguments = (*arguments[:-1], FEWER[program.name])
    for _ in range(2):
        theirs = copy.deepcopy(arguments)
        with warnings.catch_warnings(action="ignore"):
            result = fused(*theirs)
    expected = program.function(*arguments)
    assert difference((expected, arguments), (result, theirs)) <= program.tolerance
    assert fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_fused_as_it_stands(program: Program) -> None:
    """The second call has other data in the same layout: it runs what the first compiled."""
    fused = jf.fuse(program.function)
    for seed in (0, 1):
        arguments = program.inputs(program.small, np.random.default_rng(seed))
        theirs = copy.deepcopy(arguments)
        expected = program.function(*arguments)
        try:
            with warnings.catch_warnings(action="ignore" if program.needs else "error"):
                result: Any = fused(*theirs)
        except jf.JitfuseError:
            if program.needs:
                pytest.skip("refused with a typed error")
            raise
        assert difference((expected, arguments), (result, theirs)) <= program.tolerance
    if not program.needs:
        assert fused.stats()["traces"] == 1
        assert fused.stats()["fallbacks"] == 0


def test_there_are_many() -> None:
    names = [p.name for p in PROGRAMS]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("actual", [
    np.ones(3), np.array([1.0, np.nan]), np.array([1.0, 2.1]), np.ones(2, np.float32), [np.ones(2), np.ones(2)], None,
])
def test_differences_are_found(actual: Any) -> None:
    assert difference(np.array([1.0, 2.0]), actual) > 0.04
    assert difference(np.array([1, 2]), np.array([1, 3])) > 0.04
    assert difference({"a": (np.inf, np.nan)}, {"a": (np.inf, np.nan)}) == 0
    assert difference((np.inf,), (-np.inf,)) > 1


def run(tmp_path: Path, *arguments: str) -> tuple[str, dict[str, dict[str, dict[str, float]]]]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "corpus.py"), "--small", "--rounds", "1", "--json",
         str(tmp_path / "results"), "--systems", "numpy", "jitfuse", *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )
    return ran.stdout, json.loads((tmp_path / "results").read_text())


@pytest.mark.full
def test_programs_are_timed_and_summed_up(tmp_path: Path) -> None:
    text, results = run(tmp_path, "--only", "compute", "atax")
    assert set(results) == {"compute", "atax"}
    assert all(set(found) == {"numpy", "jitfuse"} for found in results.values())
    assert all(set(times) == {"first", "call"} for found in results.values() for times in found.values())
    assert "jitfuse over numpy: geometric mean" in text
    assert "first call under jitfuse" in text
