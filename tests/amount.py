"""How much a test session runs: a sample, or everything.

`python -m pytest` with nothing else runs a sample: of each test function some cases, and of drawn examples some. The
sample is the same each time. `--full` runs everything, and so does a session that is told which tests to run.
JITFUSE_TEST_SCALE=10 runs everything with ten times as many drawn examples.
"""
from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable

SEED = 1
DRAWN = 1 / 8
"""Of the examples that a full session draws, so many are drawn in a sample."""


def scale() -> float:
    """Return how many times as many examples as in a full session are drawn; 0 where the session is a sample."""
    return float(os.environ.get("JITFUSE_TEST_SCALE") or 0)


def drawn(count: int, least: int = 1) -> int:
    """Return how many examples are drawn where a full session draws `count`; `least` for tests that need so many."""
    return max(least, round(count * (scale() or DRAWN)))


def extended() -> bool:
    """Return whether the session runs more than everything: what takes hours."""
    return scale() > 1


def sampled(names: Iterable[str], share: float) -> set[str]:
    """Return a share of the names, at least one; which ones depends on the names alone."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(f"{SEED} {name}".encode()).digest())
    return set(ordered[: math.ceil(len(ordered) * share)])


def share(function: str) -> float:
    """Return the share of a function's cases that a sample has."""
    return DRAWN
