"""What a program of the corpus is: a plain NumPy function, its arguments for a size, and how right it has to be."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One existing NumPy program.

    function   the entry, called with what `inputs(size, rng)` returns
    small      the size tests use; `large` the one that is timed
    tolerance  largest difference from NumPy's result, relative to its largest magnitude
    needs      "" where everything is traced, "values" where Python looks at values of arrays: such programs may be
               refused with a typed error, or run in part as plain Python
    """

    function: Callable[..., Any]
    inputs: Callable[[int, np.random.Generator], tuple[Any, ...]]
    small: int
    large: int
    tolerance: float = 1e-10
    needs: str = ""

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.__name__
