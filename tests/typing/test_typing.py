"""mypy finds what users get wrong, line for line, and nothing in a right program; names and parameters agree."""
from __future__ import annotations

import importlib.util
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import jitfuse as jf
from jitfuse.array_api import namespace, signatures

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def found(folder: Path) -> dict[str, dict[int, str]]:
    """Return the errors of one run of mypy over both programs, by file and line."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", folder,
         "--follow-imports=silent", "--hide-error-context", "right.py", "wrong.py"],
        cwd=HERE, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    errors: dict[str, dict[int, str]] = {}
    for file, line, text in re.findall(r"^([^:\n]+):(\d+): error: (.*)$", done.stdout, re.MULTILINE):
        errors.setdefault(file, {})[int(line)] = text
    return errors


def test_a_right_program_has_no_error_and_each_mistake_is_found(tmp_path: Path) -> None:
    """One test, because each process that runs a part of them would run mypy for it."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (extra `dev`)")
    everything = found(tmp_path)
    assert everything.get("right.py", {}) == {}
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    errors = everything.get("wrong.py", {})
    missed, refused = sorted(marked - errors.keys()), {k: v for k, v in errors.items() if k not in marked}
    assert not missed and not refused, [lines[k - 1] for k in missed]


def test_the_right_program_runs() -> None:
    runpy.run_path(str(HERE / "right.py"))


def test_the_signatures_are_those_of_the_functions() -> None:
    declared = {name: value for name, value in vars(signatures).items() if name in namespace.FUNCTIONS}
    assert declared.keys() == namespace.FUNCTIONS.keys() - {"__array_namespace_info__"}
    assert signatures.__annotations__.keys() >= namespace.CONSTANTS.keys()

    def parameters(function: object) -> list[tuple[str, object]]:
        return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]  # type: ignore[arg-type]

    different = [name for name, value in declared.items() if parameters(value) != parameters(getattr(jf, name))]
    assert different == []
