"""What a fused function reads besides its arguments is fed or guarded, so changes are never missed.

    python examples/what_is_seen.py
"""
from __future__ import annotations

from typing import Any

import numpy as np

import jitfuse as jf

table = np.arange(4.0)
settings = {"scale": 2.0}


class Model:
    """Something with state."""

    def __init__(self) -> None:
        self.offset = 1.0

    @jf.fuse
    def __call__(self, x: Any) -> Any:
        """Return x, scaled and shifted."""
        return x * settings["scale"] + self.offset + table


if __name__ == "__main__":
    model = Model()
    x = np.ones(4)
    print(model(x))
    table[0] = 100.0
    print(model(x), "after a change of a global array")
    settings["scale"] = 3.0
    print(model(x), "after a change of an item")
    model.offset = -1.0
    print(model(x), "after a change of an attribute")
    print(Model.__dict__["__call__"].stats())
