"""How much a test session runs: a sample, or everything.

`python -m pytest` with nothing else runs a sample: of each test function some cases, and of drawn examples some. Slow
functions that are marked `full` are left out. The sample is the same each time. `--full` runs everything, and so does a
session that is told which tests to run. `--rest` runs what is still to be done after a sample.
JITFUSE_TEST_SCALE=10 runs everything with ten times as many drawn examples.
"""
from __future__ import annotations

import functools
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

SEED = 1
DRAWN = 1 / 8
"""Of the examples that a full session draws, so many are drawn in a sample."""
CASES = 1 / 50
"""Of each test function, so many cases are in a sample, and one at least."""
SLOW = 1.5
"""Seconds of processor time from which on a function is to be marked `full`."""
WHOLE = ("layering", "completeness", "docs", "oracle", "install_hints")
"""Files beside this one that look at the tree as a whole: these have all cases."""

PATIENCE = 900
"""Seconds after which what a test waits for counts as hanging. A busy machine may take a hundred times as long as an
idle one: no test fails for less."""

FIRST = ("test_typing.py",)
"""Files with a test of half a minute: they are run first, so that no process of several is left alone with it."""


def scale() -> float:
    """Return how many times as many examples as in a full session are drawn; 0 where the session is a sample."""
    return float(os.environ.get("JITFUSE_TEST_SCALE") or 0)


def drawn(count: int, least: int = 1) -> int:
    """Return how many examples are drawn where a full session draws `count`; `least` for tests that need so many."""
    return max(least, round(count * (scale() or DRAWN)))


def extended() -> bool:
    """Return whether the session runs more than everything: what takes hours."""
    return scale() > 1


def covering(cases: Iterable[str], case: str, *choices: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations in which one case of many meets every choice; over all cases most pairs of choices meet.

    Without it each case would take the product of the choices. A session that runs more than everything takes that.
    """
    if extended():
        return list(itertools.product(*choices))
    number, count = list(cases).index(case), max(map(len, choices))
    return [tuple(of[(k + j * number) % len(of)] for j, of in enumerate(choices)) for k in range(count)]


def crossed(every: int, *choices: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return of all combinations each `every`-th, so that of two choices each value meets a share of the others.

    For tests whose combinations each compile a kernel. A session that runs more than everything takes all.
    """
    numbered = itertools.product(*map(enumerate, choices))
    return [tuple(value for _, value in combination) for combination in numbered
            if extended() or sum(k for k, _ in combination) % every == 0]


@functools.cache
def is_mentioned_in(path: Path) -> bool:
    """Return whether tests of a file may do less in a sample: they ask how much, or draw."""
    return re.search(r"\bdrawn\(|\bscale\(|hypothesis", path.read_text(encoding="utf-8")) is not None


def sampled(cases: Mapping[str, bool]) -> set[str]:
    """Return which of the cases are in a sample, given whether they are of a function that is marked `full`.

    Of each function it has a share, at least one; of a marked one only where the file has no other.
    """
    functions: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    for case in cases:
        functions.setdefault(case.partition("[")[0], []).append(case)
        files.setdefault(case.partition("::")[0], []).append(case)
    kept: set[str] = set()
    whole = tuple(f"tests/test_{name}.py::" for name in WHOLE)
    for function, names in functions.items():
        if not cases[names[0]]:
            kept.update(_first(names, 1 if function.startswith(whole) else CASES))
    for names in files.values():
        if kept.isdisjoint(names):
            kept.update(_first(names, 0))
    return kept


def _first(names: list[str], share: float) -> list[str]:
    """Return a share of the names, at least one, in an order that depends on the names alone."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(f"{SEED} {name}".encode()).digest())
    return ordered[: max(1, math.ceil(len(names) * share))]
