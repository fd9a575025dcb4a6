"""Host steps write into the memory that the plan has for their results."""
from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from jitfuse.compile.bind.host_functions import host_function
from jitfuse.ir.operators import ops
from jitfuse.plans import HostCall

rng = np.random.default_rng(0)
SORTED: dict[str, dict[str, Any]] = {
    "sort": {"axis": 0, "sorting": "quicksort"}, "partition": {"axis": 1, "positions": (3, 11)},
}


def step(name: str, **attrs: Any) -> HostCall:
    return HostCall(name, tuple(sorted(attrs.items())), (None,), (None,), 0, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SORTED)
@pytest.mark.parametrize("x", [
    rng.normal(size=(40, 50)), rng.normal(size=(50, 40)).T, rng.integers(0, 9, (40, 50))[::-1, ::2],
    np.where(rng.random((40, 50)) < 0.2, np.nan, rng.normal(size=(40, 50))), rng.normal(size=(40, 50)) * 1j,
    rng.random((40, 50)) < 0.5, np.full((40, 50), 2.5, np.float16),
], ids=lambda x: str(x.dtype))
def test_what_is_made_in_place_is_what_the_reference_returns(name: str, x: Any) -> None:
    op, before = ops.get(name), x.copy()
    assert op is not None and op.into is not None
    result = np.empty_like(x, order="C")
    host_function(step(name, **SORTED[name]))(x, result)
    np.testing.assert_array_equal(result, op.numpy(x, **SORTED[name]))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("name", SORTED)
def test_nothing_is_allocated_beside_the_result(name: str) -> None:
    x, run = rng.normal(size=(300, 400)), host_function(step(name, **SORTED[name]))
    result = np.empty_like(x)
    run(x, result)
    tracemalloc.start()
    try:
        run(x, result)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 10
    finally:
        tracemalloc.stop()


def test_what_fails_there_names_the_step() -> None:
    with pytest.raises(Exception, match="axis") as caught:
        host_function(step("sort", axis=5, sorting="quicksort"))(np.ones(3), np.ones(3))
    assert caught.value.__notes__ == ["in sort"]
