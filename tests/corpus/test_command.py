"""benchmarks/corpus.py: a table, means and what was refused, each program in a process of its own."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
    text, results = run(tmp_path, "--only", "compute", "wave")
    assert set(results) == {"compute", "wave"}
    assert all(set(found) == {"numpy", "jitfuse"} for found in results.values())
    assert all(set(times) == {"first", "call"} for found in results.values() for times in found.values())
    assert "jitfuse over numpy: geometric mean" in text
    assert "first call under jitfuse" in text
