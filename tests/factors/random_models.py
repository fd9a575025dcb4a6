"""Judge many random factor graphs: `python tests/factors/random_models.py 5000 [seed] [table or all] [query or all]`.

Instead of 5000, 2000:3000 takes a part of them. Prints each wrong model as the smallest program that fails in the same
way, and at the end how many were right and wrong by kind of table and by query.
"""
from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from factors.brute import Model  # noqa: E402
from factors.judge import findings  # noqa: E402
from factors.models import draw_model, kind_of  # noqa: E402
from factors.shrink import program, shrink  # noqa: E402

SHOWN = 1
"""So many models are made small and printed for each query and kind of table."""


def label(finding: str) -> str:
    """Return what a finding is about: the query, and the error's type where it raises one."""
    query, _, rest = finding.partition(": ")
    return f"{query}: {rest.split(':')[0].split('(')[0]}" if rest.startswith("raises") else query


def show(number: int, kind: str, model: Model, finding: str) -> None:
    """Print the smallest model with the same kind of finding."""
    wanted = label(finding)
    query = finding.partition(":")[0].removesuffix(" with evidence")
    only = None if query == "FactorGraph" else query

    def same(candidate: Model) -> bool:
        return any(label(each) == wanted for each in findings(candidate, only))

    small = shrink(model, same) if same(model) else model
    found = next((each for each in findings(small, only) if label(each) == wanted), finding)
    print(f"\n# wrong: {number} ({kind}): {found}\n{program(small)}", flush=True)


def main(count: str = "1000", seed: str = "1", table: str = "all", only: str = "all") -> int:
    """Judge `count` models, or those from one number to another; return 1 where any is wrong."""
    kinds: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    labels: Counter[tuple[str, str]] = Counter()
    began = time.monotonic()
    warnings.simplefilter("error")
    first, _, end = count.rpartition(":")
    for number in range(int(first or 0), int(end)):
        kind = kind_of(number) if table == "all" else table
        model = draw_model(int(seed), number, kind)
        found = list(findings(model, None if only == "all" else only))
        kinds[kind] += 1
        wrong[kind] += bool(found)
        for finding in found:
            labels[kind, label(finding)] += 1
            if labels[kind, label(finding)] <= SHOWN:
                show(number, kind, model, finding)
        if (number + 1) % 100 == 0:
            print(f"{number + 1} models, {sum(wrong.values())} wrong, {time.monotonic() - began:.0f} s", flush=True)
    for kind in kinds:
        print(f"{kind}: {kinds[kind] - wrong[kind]} right, {wrong[kind]} wrong")
    for (kind, what), number in labels.most_common():
        print(f"  {number} {kind} {what}")
    print(f"{kinds.total()} models (seed {seed}): {kinds.total() - wrong.total()} right, {wrong.total()} wrong")
    return int(wrong.total() > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
