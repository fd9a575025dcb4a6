"""Time the same array functions in NumPy, jitfuse and whichever of numexpr, numba, jax and torch are installed.

    python benchmarks/peers.py [--only NAME ...] [--systems NAME ...] [--rounds 7] [--scale 1.0] [--json FILE]

Systems take turns within a round, so that a slow moment of the machine hits all of them; what is printed is the
median over rounds, and jitfuse's time over that of the fastest other system (below 1: jitfuse is ahead). Every
result is compared with NumPy's first. Each system gets the very same function with another module in place of
`np`; what it cannot run is left out and said. The last rows are the time of a first call in a new process, beyond
imports.
"""
from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from array_functions import ROWS, Row
from side_by_side import first_line, medians

SYSTEMS: Final = ("numpy", "jitfuse", "numexpr", "numba", "jax", "torch")
SECONDS_PER_SAMPLE = 0.02
PAUSE = 0.05
"""Seconds between systems: idle threads of one library spin for a while, and would take the other's processors."""
Call = Callable[[], Any]


# ---------------------------------------------------------------------- the systems
def with_modules(function: Callable[..., Any], **modules: Any) -> Callable[..., Any]:
    """Return the same function reading other modules under its global names."""
    assert isinstance(function, types.FunctionType)
    return types.FunctionType(function.__code__, {**function.__globals__, **modules}, function.__name__)


def build(system: str, row: Row, arguments: tuple[Any, ...]) -> Call | None:
    """Return a call of `row` in `system`, compiled where it compiles; None where it has no way to write it."""
    if system == "numexpr" and row.numexpr is None:
        return None
    return _BUILDERS[system](row, arguments)


def _numpy(row: Row, arguments: tuple[Any, ...]) -> Call:
    return functools.partial(row.function, *arguments)


def _jitfuse(row: Row, arguments: tuple[Any, ...]) -> Call:
    import jitfuse as jf

    return functools.partial(jf.fuse(row.function), *arguments)


def _numexpr(row: Row, arguments: tuple[Any, ...]) -> Call:
    import numexpr

    names = row.function.__code__.co_varnames
    return functools.partial(numexpr.evaluate, row.numexpr, dict(zip(names, arguments)))


def _numba(row: Row, arguments: tuple[Any, ...]) -> Call:
    import numba

    return functools.partial(numba.njit(parallel=True)(row.function), *arguments)


def _jax(row: Row, arguments: tuple[Any, ...]) -> Call:
    import jax

    finish: Any = jax.block_until_ready
    configuration: Any = jax.config
    configuration.update("jax_enable_x64", True)
    compiled = jax.jit(with_modules(row.function, np=jax.numpy, erf=jax.scipy.special.erf))
    there = [jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return lambda: finish(compiled(*there))


def _torch(row: Row, arguments: tuple[Any, ...]) -> Call:
    import torch

    names = ("sin", "exp", "log", "sqrt", "sum", "mean")
    like_numpy = types.SimpleNamespace(max=_largest_of_torch, **{name: getattr(torch, name) for name in names})
    function = with_modules(row.function, np=like_numpy, erf=torch.special.erf)
    there = [torch.from_numpy(a) if isinstance(a, np.ndarray) else _plain(a) for a in arguments]
    return lambda: _without_gradient(function, there)


def _largest_of_torch(x: Any, axis: int, keepdims: bool) -> Any:
    return x.amax(dim=axis, keepdim=keepdims)


def _without_gradient(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    import torch

    with torch.no_grad():
        return function(*arguments)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


_BUILDERS: Final[dict[str, Callable[[Row, tuple[Any, ...]], Call]]] = {
    "numpy": _numpy, "jitfuse": _jitfuse, "numexpr": _numexpr, "numba": _numba, "jax": _jax, "torch": _torch,
}


# ---------------------------------------------------------------------- checking and timing
def largest_error(expected: Any, actual: Any) -> float:
    """Return the largest error relative to the largest expected value; infinity for another shape or NaN."""
    if isinstance(expected, tuple):
        return max(largest_error(e, a) for e, a in zip(expected, actual, strict=True))
    expected, actual = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    if expected.shape != actual.shape or np.isnan(actual).any():
        return float("inf")
    return float(np.max(np.abs(expected - actual)) / np.max(np.abs(expected)))


def seconds(call: Call, repeats: int) -> float:
    """Return the time of one call, over `repeats` in a row."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def awake(call: Call, repeats: int) -> float:
    """Return the time of one call, once the first has woken its own threads."""
    call()
    return seconds(call, repeats)


def measure(row: Row, systems: Sequence[str], iterations: int, scale: float) -> tuple[dict[str, float], list[str]]:
    """Return the median seconds of each system that gives the right result, and what is to be said of others."""
    arguments = row.arguments(scale)
    expected = _numpy(row, arguments)()
    calls: dict[str, Call] = {}
    remarks: list[str] = []
    for system in systems:
        try:
            call = build(system, row, arguments)
            error = None if call is None else largest_error(expected, call())
        except Exception as failure:  # whatever a peer raises for code that it cannot compile
            remarks.append(f"{system}: {first_line(failure, 90)}")
            continue
        if call is None or error is None:
            continue
        if error > row.tolerance:
            remarks.append(f"{system}: left out, relative error {error:.1e}")
        else:
            calls[system] = call
    repeats = {name: max(1, int(SECONDS_PER_SAMPLE / max(seconds(call, 2), 1e-8))) for name, call in calls.items()}
    samples = {name: functools.partial(awake, call, repeats[name]) for name, call in calls.items()}
    return medians(samples, iterations, PAUSE), remarks


# ---------------------------------------------------------------------- first calls in new processes
_FIRST_CALL: Final = """
import contextlib, importlib, json, sys, time, numpy as np
{imports}
for name in json.loads(sys.argv[1]):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
def f(x, b):
    return np.sin(x) * x + b
x = np.ones(1000, np.float32)
before = set(sys.modules)
start = time.perf_counter()
{call}
elapsed = time.perf_counter() - start
print(json.dumps([elapsed, sorted(set(sys.modules) - before)]))
"""
_STARTS: Final = {
    "jitfuse": ("import jitfuse as jf", "jf.fuse(f)(x, 1.0)"),
    "numba": ("import numba", "numba.njit(parallel=True)(f)(x, 1.0)"),
    "jax": ("import jax, jax.numpy as np", "jax.block_until_ready(jax.jit(f)(x, 1.0))"),
}


def first_call(system: str, folder: str, modules: Sequence[str]) -> tuple[float, list[str]]:
    """Return the seconds of a first call in a new process, and the modules that were imported meanwhile.

    `folder` is jitfuse's cache, `modules` are imported before the clock starts.
    """
    imports, call = _STARTS[system]
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL.format(imports=imports, call=call), json.dumps(modules)],
        capture_output=True, text=True, check=True, env={**os.environ, "JITFUSE_CACHE_DIR": folder},
    )
    elapsed, imported = json.loads(done.stdout.splitlines()[-1])
    return elapsed, imported


def starts(systems: Sequence[str], iterations: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the rows of first calls: with an empty cache, and with what the first call left in it."""
    cold: dict[str, list[float]] = {}
    warm: list[float] = []
    for system in (s for s in systems if s in _STARTS):
        with tempfile.TemporaryDirectory() as folder:
            modules = first_call(system, folder, [])[1]
        for _ in range(iterations):
            with tempfile.TemporaryDirectory() as folder:
                cold.setdefault(system, []).append(first_call(system, folder, modules)[0])
                if system == "jitfuse":  # with a filled cache it imports nothing of this
                    warm.append(first_call(system, folder, [])[0])
    yield "first call, empty cache", {name: statistics.median(times) for name, times in cold.items()}
    if warm:
        yield "first call, warm cache", {"jitfuse": statistics.median(warm)}


# ---------------------------------------------------------------------- the table
def line(name: str, times: dict[str, float], systems: Sequence[str]) -> str:
    """Return one row of the table."""
    cells = [f"{1e3 * times[s]:>10.4g}" if s in times else f"{'-':>10}" for s in systems]
    others = [t for s, t in times.items() if s != "jitfuse"]
    ratio = f"{times['jitfuse'] / min(others):>8.2f}" if "jitfuse" in times and others else f"{'-':>8}"
    return f"{name:<36}{''.join(cells)}{ratio}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where jitfuse gave a wrong result or none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="rows whose name contains one of these")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the arrays, 1.0 as named")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    systems = [s for s in options.systems if importlib.util.find_spec(s) is not None]
    print("milliseconds".ljust(36) + "".join(f"{s:>10}" for s in systems) + f"{'ratio':>8}")
    results: dict[str, dict[str, float]] = {}
    wrong = False
    chosen = [r for r in ROWS if not options.only or any(text in r.name for text in options.only)]
    for row in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[row.name], remarks = measure(row, systems, options.rounds, options.scale)
        wrong |= "jitfuse" in systems and "jitfuse" not in results[row.name]
        print(line(row.name, results[row.name], systems), flush=True)
        for remark in remarks:
            print(f"    {remark}")
    if not options.only or any(text in "first call" for text in options.only):
        for name, times in starts(systems, min(options.rounds, 5)):
            results[name] = times
            print(line(name, times, systems), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
