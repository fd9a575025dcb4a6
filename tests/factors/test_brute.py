"""Random factor graphs in all semirings and queries against enumeration; and enumeration against worked answers."""
from __future__ import annotations

import amount
import numpy as np
import pytest
from factors import brute
from factors.brute import Model
from factors.judge import findings
from factors.models import TABLES, draw_model

LIMIT = 200
"""Models have so many states at most: most of the time is compiling. `random_models.py` judges thousands of others."""


@pytest.mark.parametrize("table", [table.__name__ for table in TABLES])
def test_random_models(table: str) -> None:
    wrong = {number: found for number in range(amount.drawn(1))
             if (found := list(findings(draw_model(0, number, table, limit=LIMIT))))}
    assert not wrong


def test_enumeration_of_worked_models() -> None:
    pair = Model({"a": 2, "b": 3}, [(("b", "a"), np.array([[1, 2], [3, 4], [5, 6]])), (("a",), [1.0, 10.0]), ((), 2)])
    weights = brute.log_weights(pair, {})
    assert np.allclose(np.exp(weights), [[2, 6, 10], [40, 80, 120]])
    assert np.isclose(brute.log_sum(weights), np.log(258))
    assert np.allclose(brute.joint(pair, weights, ["a"]), [18 / 258, 240 / 258])
    assert np.allclose(brute.joint(pair, weights, ["b", "a"])[2], [10 / 258, 120 / 258])
    assert np.isclose(brute.weight_of(pair, {"b": [1, 0, 0.5]}, {"a": 1, "b": 2}), np.log(60))
    assert brute.count(pair, {"b": 1}) == 6 + 80
    assert brute.count(pair, {"b": [2, 1, 0]}) == 4 + 80 + 6 + 80
    assert np.isneginf(brute.log_sum(brute.log_weights(pair, {"a": [0, 0]})))


def test_enumeration_of_diagonals_functions_and_entropies() -> None:
    diagonal = Model({"a": 2, "free": 3}, [(("a", "a"), [[1.0, 7.0], [9.0, 3.0]])])
    assert np.isclose(brute.log_sum(brute.log_weights(diagonal, {})), np.log(12))
    function = Model({"a": 2, "b": 2}, [(("a", "b"), lambda a, b: 1.0 + 2 * a + b)])
    weights = brute.log_weights(function, {})
    assert np.allclose(np.exp(weights), [[1, 2], [3, 4]])
    expected = -sum(p * np.log(p) for p in (0.1, 0.2, 0.3, 0.4)) + 0.4 * np.log(0.4) + 0.6 * np.log(0.6)
    assert np.isclose(brute.conditional_entropy(function, weights, ["a"], ["b"]), expected)


def test_enumeration_where_a_common_shift_loses_everything() -> None:
    model = Model({"a": 2}, [(("a",), [0.0, -1000.0]), (("a",), [-1000.0, 0.0])], log=True)
    assert np.isclose(float(brute.log_sum(brute.log_weights(model, {}))), -1000 + np.log(2), rtol=1e-15)
