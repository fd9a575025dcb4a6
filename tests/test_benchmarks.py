"""The benchmark against other systems: every row runs, on small arrays, and wrong results do not count."""
from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "peers.py"


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["peers"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_runs_and_jitfuse_is_right(
    peers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
def test_wrong_results_are_found(peers: ModuleType, actual: object) -> None:
    expected = (np.array([1.0, 2.0]), np.ones(2)) if isinstance(actual, tuple) else np.array([1.0, 2.0])
    assert peers.largest_error(expected, actual) > 0.04
    assert peers.largest_error(expected, expected) == 0


def test_functions_read_another_module_under_the_same_name(peers: ModuleType) -> None:
    class Other:
        @staticmethod
        def sin(x: float) -> float:
            return 10 * x

    assert peers.with_modules(peers.sin_times_x, np=Other)(2.0, 1.0) == 41.0
