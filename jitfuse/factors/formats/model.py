"""What a file or another library's object says: variables with names and states, factors in the order of the file."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitfuse.base.records import Record


class Model(Record, frozen=True, eq=False):
    """A factor graph as it was read.

    sizes     {variable: number of states}, in the order of the file; UAI's variables are 0, 1, ...
    factors   (scope, float64 table) each; axes in the order of the scope
    states    {variable: names of its states}, where the file names them
    evidence  {variable: number of its state}
    """

    sizes: Mapping[Any, int]
    factors: tuple[tuple[tuple[Any, ...], np.ndarray], ...]
    states: Mapping[Any, tuple[str, ...]]
    evidence: Mapping[Any, int]
