"""What calls of `jitfuse.einops` cost beside einops' own, warm, on NumPy arrays and torch tensors.

usage: einops_calls.py [--size SMALL | MEDIUM | LARGE] [--rounds N] [--library numpy | torch] [PART OF A NAME]

Each row is the least of many rounds in which both take turns in one process, in microseconds, and ours in theirs. Below
are the geometric means, and what the first call takes of a pattern that was never seen.
"""
from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import einops as theirs
import numpy as np

from jitfuse import einops as ours

SCALES = {"small": 1, "medium": 4, "large": 16}


class Row(NamedTuple):
    """A call of a module of einops' functions, and the shapes of its arrays for a scale."""

    name: str
    call: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]]


def unpacked(module: Any, x: Any) -> Any:
    return module.unpack(x, [(1,), (2,), (2, 2)], "a * b")


ROWS = [
    Row("transpose", lambda m, x: m.rearrange(x, "b h w c -> b c h w"), lambda s: [(2, 8 * s, 8 * s, 3)]),
    Row("patches 4x4", lambda m, x: m.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4),
        lambda s: [(2, 8 * s, 8 * s, 3)]),
    Row("space to depth", lambda m, x: m.rearrange(x, "b c (h p) (w q) -> b (c p q) h w", p=2, q=2),
        lambda s: [(2, 3, 8 * s, 8 * s)]),
    Row("split heads", lambda m, x: m.rearrange(x, "b n (h d) -> b h n d", h=4), lambda s: [(2, 8 * s, 16 * s)]),
    Row("merge heads", lambda m, x: m.rearrange(x, "b h n d -> b n (h d)"), lambda s: [(2, 4, 8 * s, 4 * s)]),
    Row("mean of two axes", lambda m, x: m.reduce(x, "b c h w -> b c", "mean"), lambda s: [(2, 3, 8 * s, 8 * s)]),
    Row("repeat", lambda m, x: m.repeat(x, "h w -> (h a) (w b)", a=2, b=2), lambda s: [(8 * s, 8 * s)]),
    Row("pack", lambda m, *xs: m.pack(xs, "a * b"), lambda s: [(4 * s, 6), (4 * s, 5, 6), (4 * s, 2, 3, 6)]),
    Row("unpack", unpacked, lambda s: [(4 * s, 7, 6 * s)]),
    Row("einsum of two", lambda m, *xs: m.einsum(*xs, "b i k, b k j -> b i j"),
        lambda s: [(2, 8 * s, 8), (2, 8, 8 * s)]),
    Row("einsum of four", lambda m, *xs: m.einsum(*xs, "a b, b c, c d, d e -> a e"),
        lambda s: [(4 * s, 4), (4, 3 * s), (3 * s, 5), (5, 4)]),
    Row("shuffle of ten axes", lambda m, x: m.rearrange(x, "a b c d e f g h i j -> j c a e b g d i f h"),
        lambda s: [(2,) * 9 + (s,)]),
]


def least(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least microseconds of each call over rounds in which all take their turn."""
    found = [float("inf")] * len(calls)
    counts = []
    for call in calls:
        call()
        begin = time.perf_counter()
        call()
        counts.append(max(1, int(2e-4 / max(time.perf_counter() - begin, 1e-7))))
    for _ in range(rounds):
        for k, (call, count) in enumerate(zip(calls, counts)):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            found[k] = min(found[k], (time.perf_counter() - begin) / count * 1e6)
    return found


def arrays(shapes: list[tuple[int, ...]], library: str) -> list[Any]:
    """Return arrays of a library."""
    made = [np.random.default_rng(k).normal(size=shape).astype(np.float32) for k, shape in enumerate(shapes)]
    if library == "numpy":
        return made
    import torch

    return [torch.from_numpy(x) for x in made]


def same(a: Any, b: Any) -> bool:
    """Tell whether two results are equal but for rounding."""
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-4, atol=1e-4)


def compare(row: Row, scale: int, library: str, rounds: int) -> float:
    """Print a row; return our time in einops'."""
    xs = arrays(row.shapes(scale), library)
    assert same(row.call(ours, *xs), row.call(theirs, *xs)), row.name
    mine, their = least([lambda: row.call(ours, *xs), lambda: row.call(theirs, *xs)], rounds)
    print(f"{library:6} {row.name:20} {sum(x.size if library == 'numpy' else x.numel() for x in xs):8} elements "
          f"{mine:8.2f} us {their:8.2f} us  {mine / their:5.2f}")
    return mine / their


class Renamed:
    """A module of einops' functions whose patterns have other names: those of axes get a suffix."""

    def __init__(self, module: Any, suffix: str) -> None:
        self.module = module
        self.suffix = suffix

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.module, name)

        def renamed(*arguments: Any, **sizes: int) -> Any:
            at = next(k for k, x in enumerate(arguments) if isinstance(x, str))
            pattern = re.sub("[a-z]+", lambda word: word[0] + self.suffix, arguments[at])
            return function(*arguments[:at], pattern, *arguments[at + 1 :],
                            **{key + self.suffix: n for key, n in sizes.items()})

        return renamed


def fresh(row: Row, library: str, rounds: int) -> float:
    """Print what the first call of a pattern takes that was never seen; return our least milliseconds."""
    xs, found = arrays(row.shapes(1), library), ([], [])  # type: tuple[list[Any], tuple[list[float], list[float]]]
    row.call(ours, *xs)
    for k in range(rounds):
        for module, times in zip((ours, theirs), found):
            renamed = Renamed(module, f"x{k}")
            begin = time.perf_counter()
            row.call(renamed, *xs)
            times.append((time.perf_counter() - begin) * 1e3)
    mine, their = map(min, found)
    print(f"{library:6} {row.name:20} first call {mine:5.2f} ms (median {statistics.median(found[0]):.2f}), "
          f"einops' {their:5.2f} ms")
    return mine


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    options = argparse.ArgumentParser()
    options.add_argument("--size", choices=SCALES, action="append")
    options.add_argument("--library", choices=("numpy", "torch"), action="append")
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("part", nargs="?", default="")
    chosen = options.parse_args(arguments)
    for library in chosen.library or ("numpy", "torch"):
        for size in chosen.size or SCALES:
            ratios = [compare(row, SCALES[size], library, chosen.rounds) for row in ROWS if chosen.part in row.name]
            print(f"{library}, {size}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.3f} "
                  f"of einops' time, worst {max(ratios):.2f}\n")
        slowest = max(fresh(row, library, chosen.rounds) for row in ROWS if chosen.part in row.name)
        print(f"{library}: the slowest first call takes {slowest:.2f} ms\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
