"""The demo, on small frames: it agrees, says so, and says the opposite where it does not."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.cli import demo, main
from jitfuse.errors import JitfuseError

SIZE = (36, 64)


def photographs() -> list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
    """Stand in for scikit-learn's photographs: smooth colours and some noise, the same size."""
    down, right = np.mgrid[0:427, 0:640]
    noise = np.random.default_rng(0).integers(0, 40, (427, 640, 3))
    smooth = np.stack([down % 216, right % 216, (down + right) % 216], -1)
    return [(smooth + noise).astype(np.uint8), (255 - smooth - noise).astype(np.uint8)]


@pytest.fixture(autouse=True)
def made_up_photographs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "load_photographs", photographs)


def test_it_agrees_with_numpy_and_saves_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image = pytest.importorskip("PIL.Image")
    assert demo.run(frames=3, runs=2, folder=tmp_path / "new" / "out", size=SIZE) == 0
    printed = capsys.readouterr().out
    for part in ("develop", "demo.py:", "NumPy", "jitfuse", "speed-up", "launches per call", "results equal",
                 "f.explain"):
        assert part in printed
    assert len(printed.splitlines()) <= 10 and "%" not in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if not line.startswith("picture"))
    (path,) = (tmp_path / "new" / "out").glob("*.png")
    assert str(path.resolve()) in printed
    with Image.open(path) as image:
        pixels = np.asarray(image)
    left, right = np.split(pixels, 2, axis=1)
    assert pixels.shape[1] == 1920 and left.std() > 20 and right.std() > 20
    assert np.abs(left.astype(int) - right).mean() > 5


def test_verbose_prints_the_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    assert demo.run(frames=1, runs=1, folder=tmp_path, size=SIZE, verbose=True) == 0
    assert "program (as written)" in capsys.readouterr().out


def test_a_wrong_result_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(demo, "TOLERANCE", -1.0)
    assert demo.run(frames=1, runs=1, folder=tmp_path, size=SIZE) == 1
    assert "NOT EQUAL" in capsys.readouterr().out


def test_difference_of_results_that_cannot_be_compared() -> None:
    ones = np.ones((2, 3, 4, 5), np.float32)
    broken = ones.copy()
    broken[1, 2, 3, 4] = np.nan

    def difference(other: Any) -> float:
        return demo.largest_difference(ones, other, lambda: None)

    assert difference(ones) == 0.0
    assert difference(ones + np.float32(0.5)) == 0.5
    assert difference(broken) == difference(ones[:1]) == difference(ones.astype(np.float64)) == np.inf


def test_frames_differ_and_lie_between_0_and_1() -> None:
    pytest.importorskip("PIL")
    frames = demo.make_frames(photographs(), 4, SIZE, lambda: None)
    assert frames.shape == (4, 3, *SIZE) and frames.dtype == np.float32
    assert frames.min() >= 0 and frames.max() <= 1
    assert all((frames[a] != frames[b]).any() for a in range(4) for b in range(a))


def test_too_many_frames_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    one = demo._BATCHES_IN_MEMORY * 3 * 4 * demo.HEIGHT * demo.WIDTH
    monkeypatch.setattr(demo, "_available_memory", lambda: 3 * one + 1)
    assert demo._fitting(None, (demo.HEIGHT, demo.WIDTH)) == 3
    assert demo._fitting(2, (demo.HEIGHT, demo.WIDTH)) == 2
    with pytest.raises(JitfuseError, match="--frames 3 takes less"):
        demo._fitting(4, (demo.HEIGHT, demo.WIDTH))


def test_a_folder_that_cannot_be_made_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(demo, "load_photographs", None)
    with pytest.raises(JitfuseError, match="--out names a folder"):
        demo.run(folder=tmp_path / "file" / "out")


def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert main(["demo"]) == 1
    assert "pip install scikit-learn pillow" in capsys.readouterr().err
