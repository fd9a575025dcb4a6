"""Public tests that nobody here wrote: opt_einsum's with `contract` behind, NumPy's of einsum with both of ours.

Each runs in a process of its own, with a plugin that puts ours in the place of theirs.
"""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

JUDGES = Path(__file__).with_name("judges")
ROOT = JUDGES.parents[2]


def run(tmp_path: Path, plugin: str, files: list[Path], judged: str = "contract") -> str:
    """Run tests with a plugin, which puts what is judged in place; return what pytest says."""
    paths = os.pathsep.join((str(JUDGES), str(ROOT), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir",
         str(tmp_path), *map(str, files)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths, "JUDGED": judged}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def files_of(package: str, *names: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    folder = Path(spec.submodule_search_locations[0])
    return [folder / name for name in names]


@pytest.mark.parametrize("name", ["contract", "edge_cases", "blas", "backends"])
def test_opt_einsum_s_with_our_contract(name: str, tmp_path: Path) -> None:
    said = run(tmp_path, "opt_einsum_plugin", files_of("opt_einsum.tests", f"test_{name}.py"))
    called = re.search(r"contract was called (\d+) times", said)
    assert called and (int(called[1]) > 0 or name == "blas")  # which only asks what BLAS could do


@pytest.mark.parametrize("judged", ["einsum", "contract"])
def test_numpy_s_with_our_einsum(judged: str, tmp_path: Path) -> None:
    said = run(tmp_path, "numpy_plugin", files_of("numpy._core.tests", "test_einsum.py"), judged)
    assert int(re.search(r"(\d+) passed", said)[1]) >= 50  # type: ignore[index]
    ours, theirs = map(int, re.search(r"contract was called (\d+) times, NumPy (\d+) times", said).groups())  # type: ignore[union-attr]
    assert judged == "einsum" or (ours >= 15_000 and theirs <= 50)
