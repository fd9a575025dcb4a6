"""Every example runs and prints what it promises."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRINTED = {
    "cache_pictures.py": ((".",), ["cache_list.svg, cache_show.svg: 2 kernels of brighten"]),
    "heat.py": (("64", "5"), ["bit for bit equal: True", "'traces': 1"]),
    "picture.py": (("train_step.svg",), ["train_step.svg: 15 steps"]),
    "training_flag.py": ((), ["'traces': 1", "dropout"]),
    "what_is_seen.py": (
        (), ["[3. 4. 5. 6.]", "[103.   4.   5.   6.]", "[104.   5.   6.   7.]", "[102.   3.   4.   5.]"]
    ),
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs(name: str, tmp_path: Path) -> None:
    arguments, expected = PRINTED[name]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    for part in expected:
        assert part in done.stdout
