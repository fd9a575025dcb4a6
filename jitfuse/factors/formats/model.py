"""What a file or another library's object says: variables with names and states, factors in the order of the file."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from jitfuse.base.records import Record
from jitfuse.errors import ModelError


class Model(Record, frozen=True, eq=False):
    """A factor graph as it was read. In a Bayesian network the last variable of a scope is the child.

    sizes     {variable: number of states}, in the order of the file; UAI's variables are 0, 1, ...
    factors   (scope, float64 table) each; axes in the order of the scope
    states    {variable: names of its states}, where the file names them
    evidence  {variable: number of its state}
    """

    sizes: Mapping[Any, int]
    factors: tuple[tuple[tuple[Any, ...], np.ndarray], ...]
    states: Mapping[Any, tuple[str, ...]]
    evidence: Mapping[Any, int]

    def check_children(self) -> None:
        """Raise ModelError where it is no Bayesian network: each variable is the last one of one scope."""
        found = Counter(scope[-1:] for scope, _ in self.factors)
        for variable in self.sizes:
            if (count := found[variable,]) != 1:
                raise ModelError(f"a Bayesian network has one factor whose scope ends in {variable!r}, not {count}")
        if found[()]:
            raise ModelError("a Bayesian network has no factor without variables")
