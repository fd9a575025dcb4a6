"""data-apis/array-api-tests against the eager namespace, and with each of its functions fused.

Runs where ARRAY_API_TESTS names a checkout of it with its submodule, whose requirements are installed. Nothing is
skipped. Fused functions whose shapes depend on data are split (docs/graph-breaks.md).
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amount import drawn

SUITE = os.environ.get("ARRAY_API_TESTS")
HERE = Path(__file__).resolve().parent
EXAMPLES = {"jitfuse": 20, "fused_namespace": 3}
"""Examples of each test; a new signature is compiled for every one of the fused ones."""


@pytest.mark.skipif(SUITE is None, reason="ARRAY_API_TESTS names no checkout of data-apis/array-api-tests")
@pytest.mark.parametrize("module", sorted(EXAMPLES))
def test_array_api_tests(module: str, tmp_path: Path) -> None:
    assert SUITE is not None
    root = HERE.parent.parent
    paths = [str(HERE), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": module, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "--disable-deadline",
               f"--max-examples={drawn(EXAMPLES[module])}", "array_api_tests"]
    done = subprocess.run(command, cwd=SUITE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
