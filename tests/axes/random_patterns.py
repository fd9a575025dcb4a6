"""Judge many random operations: `python tests/axes/random_patterns.py 20000 [kind] [seed] [eager|torch|fused]`.

Prints progress, each wrong pattern as a program, and at the end how many were fine, refused as the page demands,
unclear in the page, and wrong.
"""
from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

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


def main(count: str = "1000", kind: str = "all", seed: str = "1", way: str = "eager") -> int:
    """Judge `count` patterns of each kind."""
    wrong = 0
    for each in KINDS if kind == "all" else (kind,):
        states = judge_many(int(count), each, int(seed), way)
        wrong += states["wrong"]
        print(f"{each} ({way}, seed {seed}): {states['fine']} well formed and right, {states['refused']} refused as "
              f"they should be, {states['unclear']} unclear in the page, {states['wrong']} wrong", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
