"""np.ndarray called in a trace creates; asked about, it is NumPy's class."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def test_created_arrays_take_traced_values() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        out = np.ndarray(x.shape, dtype=np.float32)
        out[:] = x
        out[0] = x.sum()
        return out

    x = np.arange(4.0)
    result = f(x)
    np.testing.assert_array_equal(result, np.array([6, 1, 2, 3], np.float32))
    assert result.dtype == np.float32


def test_it_is_the_class_otherwise() -> None:
    @jf.fuse
    def f(x: Any, y: Any) -> Any:
        kinds = [isinstance(v, np.ndarray) for v in (x, y, [x])]
        kinds.append(isinstance(y, (np.ndarray, float)))
        assert issubclass(np.matrix, np.ndarray) and np.ndarray.__name__ == "ndarray"
        return x * 2 if kinds == [True, False, False, True] else x

    np.testing.assert_array_equal(f(np.ones(3), 2.0), np.full(3, 2.0))


def test_memory_of_others_is_refused() -> None:
    @jf.fuse(strict=True)
    def f(x: Any) -> Any:
        return np.ndarray((2,), buffer=b"0" * 16) + x

    with pytest.raises(jf.JitfuseError, match="buffer"):
        f(np.ones(2))
