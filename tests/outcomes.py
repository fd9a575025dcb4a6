"""What a call gives for the tests that compare calls: its result, or the error that it raises."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call returns, or the exception that it raises; without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(*args)
        except Exception as error:
            return error
