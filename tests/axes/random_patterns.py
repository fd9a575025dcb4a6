"""Judge many random operations: `python tests/axes/random_patterns.py 20000 [kind] [seed] [eager|torch|fused]`.

Prints progress, each wrong pattern as a program, and at the end how many were fine, refused as the page demands or by
the library, unclear in the page, and wrong. Fails where one is wrong, or too few are fine.
"""
from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).parents[1])]

from axes.compared import eager, find, fused, program, with_torch  # noqa: E402
from axes.patterns import KINDS, draw_pattern  # noqa: E402

RUNS = {"eager": eager, "torch": with_torch, "fused": fused}


def judge_many(count: int, kind: str, seed: int, way: str) -> Counter[str]:
    """Judge patterns of a kind, each of a seed of its own, and return how many came out how."""
    states: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(count):
        pattern = draw_pattern(kind, random.Random(f"{seed} {kind} {number}"))
        finding = find(pattern, RUNS[way])
        states[finding.state] += 1
        if finding.state == "wrong":
            print(f"\n# wrong: {kind} {seed} {number} ({way}): {finding.message}\n{program(pattern)}\n", flush=True)
        if (number + 1) % 1000 == 0:
            print(f"{kind} {number + 1} of {count}, {time.monotonic() - began:.0f} s, {dict(states)}", flush=True)
    return states


LEAST: Final = {"eager": 0.85, "torch": 0.6, "fused": 0.85}
"""The share of patterns that come out right: a judge that lets everything be refused fails. Torch lacks functions."""


def least(kind: str, way: str) -> float:
    """Return the share that is to come out right; of most arrays no view exists."""
    return 0.45 if kind == "view" and way != "fused" else LEAST[way]


def main(count: str = "1000", kind: str = "all", seed: str = "1", way: str = "eager") -> int:
    """Judge `count` patterns of each kind."""
    failed = False
    for each in KINDS if kind == "all" else (kind,):
        states = judge_many(int(count), each, int(seed), way)
        few = states["fine"] < least(each, way) * int(count)
        failed |= few or states["wrong"] > 0
        print(f"{each} ({way}, seed {seed}): {states['fine']} well formed and right{', too few' if few else ''}, "
              f"{states['refused']} refused as they should be, {states['library']} that the library refuses, "
              f"{states['unclear']} unclear in the page, {states['wrong']} wrong", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
