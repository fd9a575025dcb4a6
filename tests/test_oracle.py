"""The oracle fails where something differs, and only there."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracle import EQUAL, EXACT, MEANS, ROUNDED, check, same, same_outcome

NAN = math.nan
DIFFERENT: list[tuple[Any, Any, Any]] = [
    (0.0, -0.0, EXACT), (0.0, -0.0, ROUNDED), (np.zeros(1), -np.zeros(1), EXACT), (1.0, 1.0 + 1e-15, EXACT),
    (1.0, 1.0 + 1e-15, EQUAL), (1.0, 1.0 + 1e-11, ROUNDED), (np.float32(1), np.float32(1.000001), ROUNDED),
    (np.inf, 1.0, ROUNDED), (NAN, 1.0, ROUNDED), (np.inf, -np.inf, MEANS), (complex(0, 0.0), complex(0, -0.0), EXACT),
    (complex(NAN, 1), complex(NAN, 2), ROUNDED), ([1], (1,), EXACT), (np.int64(1), 1, EXACT), (True, 1, EXACT),
    (np.ones(2), np.ones((2, 1)), EXACT), (np.ones(2), np.ones(2, "f4"), EXACT), ([1, 2], [1], EXACT),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, EXACT), (np.array([1, None], object), np.array([2, None], object), EXACT),
    (np.random.default_rng(1), np.random.default_rng(2), EXACT),
    (np.random.RandomState(1), np.random.RandomState(2), EXACT),
    (ValueError("a"), ValueError("b"), EXACT), ("a", "b", EXACT), ({"a": [0.0]}, {"a": [-0.0]}, EXACT),
]
EQUALS: list[tuple[Any, Any, Any]] = [
    (NAN, -NAN, EXACT), (np.array([NAN, 1.0]), np.array([-NAN, 1.0]), EXACT), (1.0, 1.0 + 1e-13, ROUNDED),
    (np.random.default_rng(1), np.random.default_rng(1), EXACT),
    (np.random.RandomState(1), np.random.RandomState(1), EXACT),
    (0.0, -0.0, EQUAL), (complex(NAN, 1), complex(NAN, 1), EXACT), (None, None, EXACT), (np.inf, np.inf, MEANS),
]


@pytest.mark.parametrize(("got", "want", "within"), DIFFERENT)
def test_what_differs_is_found(got: Any, want: Any, within: Any) -> None:
    with pytest.raises(AssertionError):
        same(got, want, within)


@pytest.mark.parametrize(("got", "want", "within"), EQUALS)
def test_what_is_the_same_passes(got: Any, want: Any, within: Any) -> None:
    same(got, want, within)


def test_errors_are_compared() -> None:
    same_outcome(FileNotFoundError(), OSError())
    for got, want in ((ValueError(), TypeError()), (1, ValueError()), (ValueError(), 1)):
        with pytest.raises(AssertionError):
            same_outcome(got, want)


class Wrong:
    """A function in place of a fused one."""

    def __init__(self, function: Any, fallbacks: int = 0) -> None:
        self.function, self.fallbacks = function, fallbacks

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def stats(self) -> dict[str, int]:
        return {"fallbacks": self.fallbacks}


def test_calls_are_compared() -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return x.sum()

    x = np.arange(3.0)
    check(doubled, (x,), fused=Wrong(doubled))
    assert x[2] == 2.0  # arguments are copied
    for wrong in (lambda x: (2 * x).sum(), lambda x: None, Wrong(doubled, fallbacks=1)):
        with pytest.raises(AssertionError):
            check(doubled, (x,), fused=wrong if isinstance(wrong, Wrong) else Wrong(wrong))
    with pytest.raises(AssertionError):
        check(doubled, x)  # no tuple of arguments


def test_errors_of_plain_python_are_errors_unless_told() -> None:
    def refused(x: Any) -> Any:
        raise ValueError

    with pytest.raises(ValueError):
        check(refused, (1,), fused=Wrong(refused))
    check(refused, (1,), errors=ValueError, fused=Wrong(refused))
    with pytest.raises(AssertionError):
        check(refused, (1,), errors=ValueError, fused=Wrong(lambda x: x))
