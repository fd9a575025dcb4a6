"""For tests of generators that outlive calls: what calls return and leave, compared to the bit."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle

import jitfuse as jf

X = np.random.default_rng(0).random(6)
SHAPES = (None, 3, (2, 3), (0, 2))
Make = Callable[[], Any]


class Model:
    def __init__(self, rng: Any = None) -> None:
        self.w, self.n, self.rng = np.ones(6), 0, rng


def told(value: Any) -> Any:
    """Return all that may be compared of a value, to the bit; of a generator its state."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        legacy = value.get_state(legacy=False) if isinstance(value, np.random.RandomState) else None
        return type(value), told(legacy or value.bit_generator.state)  # type: ignore[union-attr]
    if isinstance(value, Model):
        return told(vars(value))
    if isinstance(value, dict):
        return {key: told(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [told(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, value.shape, value.tobytes()
    return type(value), repr(value)


def outcomes(call: Callable[..., Any], world: Callable[[], list[Any]], calls: int, sign: bool) -> list[Any]:
    """Return what calls return or raise, and what they leave in their arguments and in np.random's state."""
    np.random.seed(11)
    arguments, found = world(), []
    for k in range(calls):
        x = -X if sign and k % 3 == 1 else X.copy()
        try:
            result: Any = told(call(*arguments, x))
        except Exception as error:
            result = next(kind for kind in (ValueError, IndexError, AttributeError) if isinstance(error, kind))
        found.append((result, told(arguments), told(np.random.mtrand._rand)))
        if k % 2:
            found.append(told([g.random() for g in arguments if isinstance(g, np.random.Generator)]))
    return found


def same(
    function: Callable[..., Any], world: Callable[[], list[Any]], *, plain: bool | None = False, calls: int = 6,
    sign: bool = False, **options: Any,
) -> None:
    """Fused leaves what plain Python leaves, call by call; `plain` says whether it is plain Python, None: whatever."""
    fused = jf.fuse(function, **options)
    with warnings.catch_warnings(action="ignore"):
        want, got = outcomes(function, world, calls, sign), outcomes(fused, world, calls, sign)
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        assert a == b, k
    if plain is not None:
        assert fused.stats()["fallbacks"] == (calls if plain else 0)


def with_model(make: Make = lambda: np.random.default_rng(1), **kept: Any) -> Callable[[], list[Any]]:
    return lambda: [Model(**kept), make()]


def alone(make: Make = lambda: np.random.default_rng(1)) -> Callable[[], list[Any]]:
    return lambda: [make()]


def same_numbers(function: Callable[..., Any], *arguments: Any) -> Any:
    """Fused gives what NumPy gives, to the bit, and Python numbers where NumPy does; returns the fused function."""
    return oracle.check(function, arguments, times=3)
