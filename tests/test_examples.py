"""Every example runs, prints what it promises, and changes no file of the repository."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRINTED = {
    "axes_pictures.py": ((), ["axes_product.svg: contract((ax[i, k], ax[k, j]), ax[j, i])"]),
    "cache_pictures.py": ((), ["cache_list.svg, cache_show.svg: 2 kernels of brighten"]),
    "colourings.py": ((), ["16680", "1329227995784915872903807060280344580", "all as expected: True"]),
    "crf.py": (("2",), ["loss goes down: True", "'fallbacks': 0", "'splits': 0"]),
    "denoising.py": ((), ["width 13", "noisy: 57 pixels wrong", "most probable picture: 13 ", "denoising.png"]),
    "digits.py": (("3",), ["94.", "'fallbacks': 0", "digits.png"]),
    "heat.py": (("64", "5"), ["bit for bit equal: True", "'traces': 1"]),
    "ldpc.py": (("0.9", "100"), ["20 bits, 128 codewords", "each bit by itself", "most probable codeword"]),
    "medical.py": ((), ["+ shadow on the X-ray   5.3%    2.7%    96.2%", "0.003511"]),
    "picture.py": ((), ["train_step.svg: 15 steps"]),
    "training_flag.py": ((), ["'traces': 1", "dropout"]),
    "what_is_seen.py": (
        (), ["[3. 4. 5. 6.]", "[103.   4.   5.   6.]", "[104.   5.   6.   7.]", "[102.   3.   4.   5.]"]
    ),
}
NEEDED = {"denoising.py": ["PIL"], "digits.py": ["PIL", "sklearn"]}


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_and_leaves_the_repository_as_it_was(name: str, tmp_path: Path) -> None:
    arguments, expected = PRINTED[name]
    for module in NEEDED.get(name, ()):
        pytest.importorskip(module)
    before = files()
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    for part in expected:
        assert part in done.stdout
    assert files() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"demo-output"}


def files() -> dict[Path, int]:
    """Return when the files were changed that an example could write: those beside it, and the documentation's."""
    folders = ROOT / "docs", ROOT / "examples"
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}


def test_git_ignores_what_they_write() -> None:
    assert "demo-output/" in (ROOT / ".gitignore").read_text().splitlines()
