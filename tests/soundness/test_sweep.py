"""Functions of the libraries inside of fused functions: a sample of the sweep, and what its comparison tells apart."""
from __future__ import annotations

from typing import Any

import amount
import numpy as np
import pytest
from soundness import sweep, trial


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_wrong(part: int) -> None:
    for library, names in sweep.sample(amount.drawn(6, least=3), seed=part).items():
        found = list(sweep.sweep(library, names))
        assert [f for f in found if f[1] in sweep.BAD] == [] and [name for name, _, _ in found] == names, library


@pytest.mark.parametrize(("a", "b"), [
    (np.ones(2), np.ones(2, "float32")), (np.ones(2), np.ones((2, 1))), (np.ones(2), [1.0, 1.0]),
    (np.float64(1), 1.0), (True, np.True_), ((1, 2), [1, 2]), ({"a": 1}, {"b": 1}), (np.ones(2), np.ones(2) * 1.001),
    (ValueError, TypeError), (np.array([1, 2]), np.array([1, 3])), (np.array(["a"], object), np.array(["b"], object)),
])
def test_what_differs_is_seen(a: Any, b: Any) -> None:
    assert trial.same(a, a) and not trial.same(a, b) and not trial.same(b, a)


def test_a_process_that_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.trial, "__file__", __file__)
    assert [how for _, how, _ in sweep.sweep("numpy", ["sin", "cos"])] == ["died", "died"]


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.jf, "fuse", lambda function: lambda x: function(x + 1))
    assert trial.verdict(np.sin)[0] == "WRONG"


if __name__ == "__main__":
    raise SystemExit(3)
