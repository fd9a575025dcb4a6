"""A seeded sample of the judge's cases; `python -m tests.mutations` runs as many as one likes."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from amount import PATIENCE

ROOT = Path(__file__).parent.parent


def judged(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutations", *arguments], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize(("kind", "count"), [("archives", 10), ("entries", 10), ("forms", 60), ("plans", 60)])
def test_a_sample_of_mutations(kind: str, count: int) -> None:
    text = judged(kind, "--count", str(count), "--batch", "100", "--seed", "1")
    assert f"{kind}: {count} of {count} cases, 0 failed" in text


BAD_JUDGE = '''
import os, sys
from tests.mutations import kinds
def judge(valid, mutated):
    if valid == mutated:
        return None
    if mutated == b"1":
        os.abort()
    if mutated == b"2":
        while True:
            pass
    if mutated == b"3":
        return str(len(bytearray(600 << 20)))[:0] or None
    if mutated == b"4":
        raise ValueError("no typed error")
    return "it differs" if mutated == b"5" else None
BAD = kinds.Kind(lambda: [b"0"], lambda data, draw: b"%d" % draw.randrange(1, 8), judge)
kinds.KINDS["bad"] = "sitecustomize:BAD"
'''


@pytest.mark.full
def test_the_judge_finds_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(BAD_JUDGE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    text = judged("bad", "--count", "20", "--batch", "7", "--save", str(tmp_path / "failed"), code=1)
    for what in ("ended with -6", "ended with -27", "it took ", "ValueError: no typed error", "it differs"):
        assert what in text, text
    assert {path.read_bytes() for path in (tmp_path / "failed").iterdir()} == {b"1", b"2", b"3", b"4", b"5"}
