"""The benchmarks against other systems: every row runs, on small arrays, and wrong results do not count."""
from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import array_functions
import peers
import side_by_side


@pytest.mark.full
def test_every_row_runs_and_jitfuse_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(peers, "SECONDS_PER_SAMPLE", 1e-4)
    monkeypatch.setattr(peers, "PAUSE", 0.0)
    arguments = ["--systems", "numpy", "jitfuse", "--rounds", "1", "--scale", "0.002", "--json", str(tmp_path / "r")]
    assert peers.main(arguments) == 0
    results = json.loads((tmp_path / "r").read_text())
    assert set(results) == {row.name for row in peers.ROWS} | {"first call, empty cache", "first call, warm cache"}
    assert all(set(results[row.name]) == {"numpy", "jitfuse"} for row in peers.ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(results)


@pytest.mark.parametrize("actual", [
    np.ones(3), np.array([1.0, np.nan]), np.array([1.0, 2.1]), (np.array([1.0, 2.1]), np.ones(2))
], ids=["shape", "nan", "value", "one of several"])
def test_wrong_results_are_found(actual: object) -> None:
    expected = (np.array([1.0, 2.0]), np.ones(2)) if isinstance(actual, tuple) else np.array([1.0, 2.0])
    assert peers.largest_error(expected, actual) > 0.04
    assert peers.largest_error(expected, expected) == 0


def test_functions_read_another_module_under_the_same_name() -> None:
    class Other:
        @staticmethod
        def sin(x: float) -> float:
            return 10 * x

    assert peers.with_modules(array_functions.sin_times_x, np=Other)(2.0, 1.0) == 41.0


def test_errors_without_text_have_a_first_line() -> None:
    assert side_by_side.first_line(KeyError()) == "KeyError"
    assert side_by_side.first_line(ValueError("\n one\ntwo"), 2) == "ValueError: on"


def test_a_system_that_raises_or_is_wrong_is_refused() -> None:
    def begin(system: str) -> side_by_side.Trial:
        if system == "raises":
            raise AssertionError
        return side_by_side.Trial(1.0, 0.5 if system == "wrong" else 0.0, lambda: 2.0)

    comparison = side_by_side.Comparison("", "", ("plain", "raises", "wrong"), [], lambda name, options: {}, (), 1)
    assert comparison.take_turns(comparison.systems, begin, 0.1, 3) == {
        "plain": {"first": 1.0, "call": 2.0}, "raises": {"refused": "AssertionError"},
        "wrong": {"refused": "differs from plain by 5.0e-01"},
    }
