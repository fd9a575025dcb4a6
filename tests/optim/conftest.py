"""A small problem, and a train step over it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

Made = tuple[Any, Any, Any]


@pytest.fixture
def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 4)), rng.normal(size=(8, 3))


@pytest.fixture
def made() -> Callable[..., Made]:
    """Makes parameters, an optimiser of a kind with options, and a step of a linear model."""
    def make(kind: Any = None, *, dtype: str = "float64", **options: Any) -> Made:
        params = jf.nn.parameters({"w": np.ones((4, 3), dtype), "b": np.zeros(3, dtype)})
        optimiser = (kind or jf.optim.SGD)(params, **{"lr": 0.1, **options})

        @jf.fuse(training=True)
        def step(x: Any, y: Any) -> Any:
            loss = np.mean((x @ params["w"] + params["b"] - y) ** 2)
            optimiser.minimize(loss)
            return loss

        return params, optimiser, step

    return make
