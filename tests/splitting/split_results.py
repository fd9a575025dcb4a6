"""The comparison of what a split function returns with what the function itself does."""
from __future__ import annotations

from typing import Any

import numpy as np


def same(found: Any, expected: Any) -> None:
    """Compare results: types, dtypes, shapes and bits."""
    if isinstance(expected, dict):
        assert type(found) is dict and found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, np.ndarray | np.generic):
        assert type(found) is type(expected), (type(found), type(expected))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    else:
        assert type(found) is type(expected) and (found == expected or found is expected or found != found)
