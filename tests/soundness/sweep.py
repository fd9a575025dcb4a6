"""Every public function of NumPy, SciPy, pandas, xarray and scikit-learn inside of fused functions: is anything wrong?

    python tests/soundness/sweep.py [library ...]

tries all of them, which takes some minutes, and writes docs/soundness.md. Each library runs in processes of its own, so
that a function that ends its process is a finding too. `trial.py` says what is tried and compared.
"""
from __future__ import annotations

import contextlib
import importlib.util
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soundness import trial

LIBRARIES: Final = (
    "numpy", "numpy.linalg", "numpy.fft", "numpy.strings", "numpy.ma", "numpy.polynomial.polynomial",
    "numpy.lib.stride_tricks", "scipy.special", "scipy.linalg", "scipy.fft", "scipy.signal", "scipy.ndimage",
    "scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate", "scipy.sparse", "scipy.sparse.linalg",
    "scipy.sparse.csgraph", "scipy.spatial", "scipy.spatial.distance", "scipy.cluster.hierarchy", "scipy.cluster.vq",
    "pandas", "xarray", "sklearn.metrics", "sklearn.preprocessing", "sklearn.utils", "sklearn.covariance",
)
BAD: Final = ("WRONG", "died")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "soundness.md"

Finding = tuple[str, str, str]
"""A function's name, the verdict, and what was wrong."""


def is_installed(library: str) -> bool:
    """Return whether a library can be imported."""
    return importlib.util.find_spec(library.partition(".")[0]) is not None


def sweep(library: str, names: Iterable[str]) -> Iterator[Finding]:
    """Try functions of a library, in a process that is started again where one has ended it."""
    left = list(names)
    while left:
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(  # some functions write a file
            [sys.executable, "-W", "ignore", str(Path(trial.__file__)), library], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder,
        ) as worker:
            assert worker.stdin is not None and worker.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write("\n".join(left) + "\n")
                worker.stdin.close()
            running = left[0]
            for line in worker.stdout:
                name, how, details = (*line.rstrip("\n").split("\t", 2), "", "")[:3]
                if name not in left:
                    continue  # something that a library has printed
                running = name
                if how != "begins":
                    left.remove(name)
                    yield name, how, details
        if left:
            left.remove(running)
            yield running, "died", f"exit status {worker.returncode}"


def sample(count: int, seed: int) -> dict[str, list[str]]:
    """Return so many functions of the libraries that are installed, drawn by a seed."""
    every = [(library, name) for library in LIBRARIES if is_installed(library) for name, _ in trial.functions(library)]
    drawn: dict[str, list[str]] = {}
    for library, name in random.Random(seed).sample(every, count):
        drawn.setdefault(library, []).append(name)
    return drawn


def _page(found: dict[str, list[Finding]]) -> str:
    lines = [
        "# Soundness", "",
        "How each public function of these libraries ran inside a fused function: with work before and after it, in",
        "three calls between which the argument and a global were changed.", "",
        "- *compiled*: as part of the program, or called at a graph break between compiled parts",
        "- *plain Python*: the function as a whole, since jitfuse does not know this one",
        "- *not tried*: none of the arguments in `tests/soundness/trial.py` fit it",
        "- *wrong*: another value, dtype, type, effect or error than plain Python's", "",
        "`python tests/soundness/sweep.py` writes this page.", "",
        "| Library | compiled | plain Python | not tried | wrong |", "|---|---|---|---|---|",
    ]
    for library, findings in found.items():
        count = Counter(how for _, how, _ in findings)
        bad = sum(count[how] for how in BAD)
        lines.append(f"| {library} | {count['compiled']} | {count['plain Python']} | {count['untried']} | {bad} |")
    for library, findings in found.items():
        lines += ["", f"## {library}", ""]
        for how in ("compiled", "plain Python", *BAD):
            names = ", ".join(f"`{name}`" for name, was, _ in findings if was == how)
            if names:
                lines.append(f"- **{how}**: {names}")
    return "\n".join(lines) + "\n"


def main(libraries: list[str]) -> int:
    """Try all functions and write the page; return 1 where something is wrong."""
    found: dict[str, list[Finding]] = {}
    for library in libraries or LIBRARIES:
        if not is_installed(library):
            print(f"{library} is not installed", file=sys.stderr)
            return 2
        names = [name for name, _ in trial.functions(library)]
        found[library] = []
        for finding in sweep(library, names):
            found[library].append(finding)
            print(f"\r{library}: {len(found[library])} of {len(names)}", end="", file=sys.stderr, flush=True)
            if finding[1] in BAD:
                print("\r" + f"{library}.{finding[0]}: {finding[1]}, {finding[2]}", flush=True)
        print(file=sys.stderr)
    if not libraries:
        PAGE.write_text(_page(found), encoding="utf-8")
    return int(any(how in BAD for findings in found.values() for _, how, _ in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
