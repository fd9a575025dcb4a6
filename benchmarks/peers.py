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
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from side_by_side import first_line, medians

SYSTEMS: Final = ("numpy", "jitfuse", "numexpr", "numba", "jax", "torch")
SECONDS_PER_SAMPLE = 0.02
PAUSE = 0.05
"""Seconds between systems: idle threads of one library spin for a while, and would take the other's processors."""
Call = Callable[[], Any]


def erf(x: Any) -> Any:
    """NumPy has no erf; each system brings its own in place of this one."""
    from scipy.special import erf as of_scipy  # type: ignore[import-untyped]

    return of_scipy(x)


# ---------------------------------------------------------------------- the work
def sin_times_x(x: Any, b: Any) -> Any:
    return np.sin(x) * x + b


def black_scholes(price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Value of a European call; the cumulative normal distribution by erf."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    at_d1, at_d2 = 0.5 * (1 + erf(d1 * 0.7071067811865476)), 0.5 * (1 + erf(d2 * 0.7071067811865476))
    return price * at_d1 - strike * np.exp(-rate * years) * at_d2


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * gain + bias


def sum_of_squares(x: Any) -> Any:
    return np.sum(x * x)


def column_mean(x: Any) -> Any:
    return np.mean(x, axis=0)


def pairwise_distance(a: Any, b: Any) -> Any:
    difference = a[:, None, :] - b[None, :, :]
    return np.sqrt(np.sum(difference * difference, axis=2))


def adam(w: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * (g * g)
    return w - 0.001 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8), m, v


def heat_step(u: Any) -> Any:
    inner = u[1:-1, 1:-1]
    return inner + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner)


def chain(x: Any, a: Any, b: Any) -> Any:
    for _ in range(50):
        x = x * a + b
    return x


def product(a: Any, b: Any) -> Any:
    return a @ b


def layers(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    scores = np.maximum(x @ w + b, 0.0) @ v + c
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)) * 0.125
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


def power_step(a: Any, b: Any) -> Any:
    c = a @ b
    return c / np.sqrt(np.sum(c * c, axis=0))


@dataclass(frozen=True)
class Row:
    """One workload: the function, its arguments for a scale, and the relative error that counts as equal."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[float], tuple[Any, ...]]
    tolerance: float = 1e-4
    numexpr: str | None = None


def _normal(*shape: int, dtype: type = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _options(scale: float) -> tuple[Any, ...]:
    prices, strikes, years = np.random.default_rng(0).uniform(1.0, 2.0, (3, max(1, int(1e6 * scale))))
    return prices, strikes, years, 0.05, 0.3


def _size(scale: float, full: int) -> int:
    return max(4, int(full * scale))


ROWS: Final = (
    Row("sin(x)*x+b 4M f32", sin_times_x, lambda s: (_normal(_size(s, 4_000_000)), np.float32(1)),
        numexpr="sin(x) * x + b"),
    Row("Black-Scholes 1M f64", black_scholes, _options, 1e-9),
    Row("softmax rows 4096x1024 f32", softmax, lambda s: (_normal(_size(s, 4096), 1024),)),
    Row("layer norm 8192x1024 f32", layer_norm,
        lambda s: (_normal(_size(s, 8192), 1024), _normal(1024), _normal(1024)), 1e-3),
    Row("sum of squares 16M f32", sum_of_squares, lambda s: (_normal(_size(s, 16_000_000)),)),
    Row("column mean 4096x4096 f32", column_mean, lambda s: (_normal(_size(s, 4096), 4096) + np.float32(3),)),
    Row("pairwise distance 2000x2000x3 f32", pairwise_distance,
        lambda s: (_normal(_size(s, 2000), 3), _normal(_size(s, 2000), 3) + np.float32(9))),
    Row("Adam 10M f32", adam,
        lambda s: tuple(_normal(_size(s, 10_000_000)) for _ in range(3)) + (_normal(_size(s, 10_000_000)) ** 2,)),
    Row("heat step 4096x4096 f32", heat_step, lambda s: (_normal(_size(s, 4096), 4096),), 1e-3),
    Row("100 operations 4M f32", chain,
        lambda s: (_normal(_size(s, 4_000_000)), np.float32(0.99), np.float32(0.01)), 1e-3),
    Row("product 1024x1024x1024 f32", product,
        lambda s: (_normal(_size(s, 1024), _size(s, 1024)), _normal(_size(s, 1024), 1024)), 1e-3),
    Row("layers 256x784x512x10 f32", layers,
        lambda s: (
            _normal(_size(s, 256), 784), _normal(784, 512) / np.float32(28), _normal(512), _normal(512, 10), _normal(10)
        ), 1e-2),
    Row("attention 8x512x64 f32", attention, lambda s: tuple(_normal(_size(s, 8), 512, 64) for _ in range(3)), 1e-3),
    Row("power step 1024x1024x256 f32", power_step,
        lambda s: (_normal(_size(s, 1024), 1024), _normal(1024, 256)), 1e-3),
    Row("sin(x)*x+b 16 elements f32", sin_times_x, lambda s: (_normal(16), 1.0)),
)


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


def measure(row: Row, systems: Sequence[str], rounds: int, scale: float) -> tuple[dict[str, float], list[str]]:
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
    return medians(samples, rounds, PAUSE), remarks


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


def starts(systems: Sequence[str], rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the rows of first calls: with an empty cache, and with what the first call left in it."""
    cold: dict[str, list[float]] = {}
    warm: list[float] = []
    for system in (s for s in systems if s in _STARTS):
        with tempfile.TemporaryDirectory() as folder:
            modules = first_call(system, folder, [])[1]
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                cold.setdefault(system, []).append(first_call(system, folder, modules)[0])
                if system == "jitfuse":
                    warm.append(first_call(system, folder, modules)[0])
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
