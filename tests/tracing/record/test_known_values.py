"""What is computed of constants alone stays known after looks that no loop comes back to, and is data after others."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, check

from jitfuse.tracing.record import known_values


def rerolled_by_a_table(f: Any, solid: Any) -> Any:
    shifts = np.array([0, 1, -1, 2])
    for _ in range(3):
        for k, shift in zip(range(4), shifts):
            f[:, k] = np.roll(f[:, k], shift)
        there = f[solid]
        f[solid] = there[:, [1, 0, 3, 2]]
    return f.sum(axis=0)


def known_before_a_loop(a: Any, n: Any) -> Any:
    x, table, said = np.zeros(3), np.array([2, 1]), 0
    y = a[a > 0]
    if x[0] == 0:
        said = 1
    while x.sum() < n:
        x = x + np.roll(y[:3] if len(y) > 2 else a[:3], int(table[0]))
        x = x + 1
        if x[0] == 0:
            said = 2
    return x, said, y


def mask_within_a_loop(a: Any, n: Any) -> Any:
    x, i = np.zeros(3), np.array(0)
    while x[0] < n:
        steps = np.array([1, 2])
        y = a[a > x[1]]
        for k in range(int(steps[1])):
            x = x + k
        if x[1] > 1:
            x = x + len(y)
        x, i = x + 1, i + 1
    return x, i


def counts_in_an_array(a: Any, n: Any) -> Any:
    count = np.zeros(1, dtype=int)
    y = np.unique(a)
    for k in range(40):  # noqa: B007
        count = count + 1
        if count[0] * y[-1] > n:
            break
    return count, len(y), k


def two_loops(a: Any, n: Any) -> Any:
    x = np.zeros(2)
    while x[0] < n:
        x = x + 1
    y = a[a > x[1]]
    while x[1] > 0:
        x = x - 1
    kinds = np.array([3, 4])
    z = a[a <= 0]
    return x, np.zeros(int(kinds[1])), len(y), z[: int(kinds[0])]


def draw(seed: int, n: int) -> Any:
    return np.random.default_rng(seed).normal(size=n)


def test_a_table_of_constants_is_no_read() -> None:
    masks = [np.array([False, True, True, False, True]), np.array([True, True, False, False, True])]
    fused = check(rerolled_by_a_table, *[(draw(k, 20).reshape(5, 4), masks[k % 2]) for k in range(4)], within=ROUNDED)
    counts = fused.stats()
    assert (counts["fallbacks"], counts["traces"], counts["splits"]) == (0, 1, 1)  # the places of a mask are found once


@pytest.mark.parametrize("fn", [known_before_a_loop, mask_within_a_loop, counts_in_an_array, two_loops])
def test_loops_see_what_they_change(fn: Any) -> None:
    sizes = [(9, 4.5), (9, 12.5), (6, 0.5), (9, 30.5), (7, 7.0)]
    check(fn, *[(draw(k, n), limit) for k, (n, limit) in enumerate(sizes)], within=ROUNDED)


def thinned(n: Any, start: Any) -> Any:
    x, kept, sums = np.arange(float(n)), np.arange(n), []
    for k in range(20):
        x = x * 0.5 + k
        left = x % 3 < 2
        x, kept = x[left], kept[left]
        sums.append(x.sum())
    return x, kept, sums, start + len(x)


@pytest.mark.parametrize("most", [0, 1000, 20_000, 2**28])
def test_reads_compute_the_last_values_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is stored, results are the same; where the last rounds fit, a round more takes a round more."""
    computed: list[str] = []
    plain = known_values._evaluate

    def evaluate(session: Any, node: Any, inputs: Any) -> Any:
        computed.append(node.op_name)
        return plain(session, node, inputs)

    monkeypatch.setattr(known_values, "_evaluate", evaluate)
    monkeypatch.setattr(known_values, "MAX_KNOWN_BYTES", most)
    check(thinned, (400, np.arange(3.0)), within=ROUNDED)
    assert most < 20_000 or computed.count("remainder") < 30
