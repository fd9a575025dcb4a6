"""How many kernels a call launches."""
from __future__ import annotations

from typing import Any

import jitfuse as jf


def launches(fused: jf.FusedFunction, *arguments: Any) -> int:
    """Return how many kernels one call launches."""
    before = fused.stats()["launches"]
    fused(*arguments)
    return int(fused.stats()["launches"] - before)
