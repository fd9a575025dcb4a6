"""What one first call runs through: the files and functions of jitfuse that it enters, by part of the package.

Counts the code that the calling thread enters in a cold first call of ``np.sin(x) * x + b``, with an empty cache:
functions, and all code objects, which are also comprehensions and the bodies of modules and classes. The sum leaves out
plans and the LLVM backend, which grow with the kernel. Run it as ``python benchmarks/call_path.py``; ``--list`` names
the code, ``--call shape`` counts the call of a new shape.
"""
from __future__ import annotations

import argparse
import collections
import inspect
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Final

LEFT_OUT: Final = ("plans", "backends/llvm")
"""Parts whose length depends on the kernel, not on the way of a call."""
LINKED: Final = ("backends", "cache", "tracing")
"""Folders that lie beside the package in a checkout, within it where it is installed."""
SUBFOLDERS: Final = ("backends", "tracing")
"""Folders whose own folders are parts."""


def entered(function: Any, *args: Any) -> set[types.CodeType]:
    """Return the code objects that the calling thread enters in a call."""
    seen: set[types.CodeType] = set()

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return seen


def by_part(codes: set[types.CodeType], root: Path) -> dict[str, list[tuple[str, str, bool]]]:
    """Return (file, name, whether it is a function) of the package's code by part."""
    found: dict[str, list[tuple[str, str, bool]]] = collections.defaultdict(list)
    for code in codes:
        if code.co_filename.startswith("<"):
            continue
        path = Path(code.co_filename).resolve()
        inside = next((path.relative_to(base) for base in (root, root.parent) if path.is_relative_to(base)), None)
        if inside is None or (not path.is_relative_to(root) and inside.parts[0] not in LINKED):
            continue
        depth = 2 if inside.parts[0] in SUBFOLDERS else 1
        part = "/".join(inside.parts[:-1][:depth]) or "jitfuse"
        found[part].append((inside.as_posix(), f"{code.co_qualname}:{code.co_firstlineno}", is_function(code)))
    return found


def is_function(code: types.CodeType) -> bool:
    """Return whether code is a function's: no comprehension, nor the body of a module or a class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and (code.co_name == "<lambda>" or code.co_name[0] != "<")


def main() -> None:
    """Count one call and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the functions")
    parser.add_argument("--call", choices=["first", "shape"], default="first", help="which call is counted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JITFUSE_CACHE_DIR"] = folder
        import numpy as np

        import jitfuse
        from jitfuse.base import background

        fused = jitfuse.fuse(lambda x, b: np.sin(x) * x + b)
        x = np.linspace(0.0, 1.0, 1000)
        if options.call == "shape":
            fused(x, 1.0)
            x = np.linspace(0.0, 1.0, 1001)
        with background._lock:  # the jobs of the background wait: what the call meets is no matter of luck
            codes = entered(fused, x, 1.0)
        parts = by_part(codes, Path(jitfuse.__file__).resolve().parent)
    sums = [0, 0, 0]
    print(f"{'part':24}{'files':>7}{'functions':>11}{'code':>7}")
    for part, codes in sorted(parts.items()):
        row = len({file for file, *_ in codes}), sum(function for *_, function in codes), len(codes)
        counted = not part.startswith(LEFT_OUT)
        sums = [total + n * counted for total, n in zip(sums, row, strict=True)]
        print(f"{part:24}{row[0]:7}{row[1]:11}{row[2]:7}{'' if counted else '   (not in the sum)'}")
        if options.list:
            print("".join(f"    {file} {name}\n" for file, name, _ in sorted(codes)), end="")
    print(f"{'sum':24}{sums[0]:7}{sums[1]:11}{sums[2]:7}")


if __name__ == "__main__":
    main()
