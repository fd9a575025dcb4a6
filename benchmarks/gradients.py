"""Time gradients in jitfuse and whichever of jax and torch are installed, beside the function itself in jitfuse.

    python benchmarks/gradients.py [--only NAME ...] [--systems NAME ...] [--rounds 7]

Each work is one function over `np`, differentiated by its first argument: by `jf.grad`, `jax.jit(jax.grad(f))`, torch's
autograd, and autograd of `torch.compile`. Systems take turns within a round; what is printed is the median over rounds,
jitfuse's gradient over its own function, and over the fastest other gradient (below 1: jitfuse is ahead). Each gradient
is compared with torch's, or jitfuse's where torch is not there.
"""
from __future__ import annotations

import argparse
import importlib.util
import math
import types
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from array_functions import ROWS
from peers import awake, largest_error, seconds, with_modules
from side_by_side import first_line, medians

SYSTEMS: Final = ("jitfuse", "jax", "torch", "compile")
SECONDS_PER_SAMPLE = 0.05
PAUSE = 0.05
Call = Callable[[], Any]


# ---------------------------------------------------------------------- the works
def chain(x: Any) -> Any:
    y = x
    for k in range(100):
        y = np.tanh(y * 1.01) + x * 0.1 if k % 10 == 0 else y * 0.99 + 0.01
    return np.sum(y)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logsumexp(x: Any) -> Any:
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def mixture(means: Any, x: Any, weights: Any) -> Any:
    away = np.sum((x[:, None, :] - means[None, :, :]) ** 2, -1)
    inner = np.log(weights) - 0.5 * away
    top = np.max(inner, 1)
    return np.sum(top + np.log(np.sum(np.exp(inner - top[:, None]), 1)))


def clusters(centres: Any, x: Any) -> Any:
    return np.sum(np.min(np.sum((x[:, None, :] - centres[None, :, :]) ** 2, -1), 1))


def perceptron(first: Any, second: Any, third: Any, x: Any, chosen: Any) -> Any:
    hidden = np.maximum(np.maximum(x @ first, 0.0) @ second, 0.0)
    scores = hidden @ third
    scores = scores - np.max(scores, 1)[:, None]
    scores = scores - np.log(np.sum(np.exp(scores), 1))[:, None]
    return -np.sum(scores * chosen) / 256.0


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * 0.125
    shares = np.exp(scores - np.max(scores, -1)[..., None])
    return np.sum((shares / np.sum(shares, -1)[..., None]) @ v * v)


def normalised(x: Any, scale: Any) -> Any:
    centred = x - np.mean(x, 1)[:, None]
    return np.sum((centred / np.sqrt(np.mean(centred * centred, 1)[:, None] + 1e-5) * scale) ** 2)


def recurrence(w: Any, inputs: Any, start: Any) -> Any:
    return np.sum(scan(lambda h, x: (np.tanh(h @ w + x), None), start, inputs)[0])


def scan(body: Any, carry: Any, xs: Any) -> Any:
    """Run a scan in Python; systems that have one replace this name."""
    for x in xs:
        carry, _ = body(carry, x)
    return carry, None


class Work(NamedTuple):
    """A function, its arguments, and whether it returns an array: then the sum of cubes is differentiated."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    returns_array: bool = False

    def called(self, module: Any, **others: Any) -> Callable[..., Any]:
        """Return the function of one real number, over a module in NumPy's place."""
        function = with_modules(self.function, np=module, **others)
        if not self.returns_array:
            return function

        def cubes(*args: Any) -> Any:
            made = function(*args)
            made = made[0] if isinstance(made, tuple) else made
            return module.sum(made * made * made)

        return cubes


def works(rng: np.random.Generator) -> dict[str, Work]:
    """Return each work: some of its own, and the array functions of peers.py."""
    def draw(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Any:
        return (rng.standard_normal(shape) * scale).astype(dtype)

    chosen = np.eye(10, dtype="float32")[rng.integers(0, 10, 256)]
    weights = np.full(16, 1 / 16)
    own = {
        "chain of 100, 4M float32": (chain, (draw(4_000_000),)),
        "rosenbrock, 1M": (rosenbrock, (draw(1_000_000, dtype="float64"),)),
        "logsumexp, 1M": (logsumexp, (draw(1_000_000, dtype="float64"),)),
        "mixture, 20,000 x 16 x 8": (mixture, (
            draw(16, 8, dtype="float64"), draw(20_000, 8, dtype="float64"), weights)),
        "k-means, 50,000 x 10 x 3": (clusters, (draw(10, 3, dtype="float64"), draw(50_000, 3, dtype="float64"))),
        "perceptron 256-784-512-10": (perceptron, (
            draw(784, 512, scale=0.04), draw(512, 512, scale=0.04), draw(512, 10, scale=0.04), draw(256, 784), chosen)),
        "attention 8 x 256 x 64": (attention, (draw(8, 256, 64), draw(8, 256, 64), draw(8, 256, 64))),
        "layer norm, 4,096 x 512": (normalised, (draw(4096, 512), draw(512))),
        "scan of 1,000, carry 64": (recurrence, (
            draw(64, 64, dtype="float64", scale=0.1), draw(1000, 64, dtype="float64"), np.zeros(64))),
    }
    rows = {row.name: Work(row.function, row.arguments(1.0), True) for row in ROWS}
    return {**{name: Work(*work) for name, work in own.items()}, **rows}


# ---------------------------------------------------------------------- the systems
def _jitfuse(work: Work) -> Call:
    import jitfuse as jf

    gradient = jf.grad(work.called(np, scan=jf.scan))
    return lambda: gradient(*work.arguments)


def _function(work: Work) -> Call:
    import jitfuse as jf

    fused = jf.fuse(work.called(np, scan=jf.scan))
    return lambda: fused(*work.arguments)


def _jax(work: Work) -> Call:
    import jax

    configuration: Any = jax.config
    configuration.update("jax_enable_x64", True)
    finish: Any = jax.block_until_ready
    compiled = jax.jit(jax.grad(work.called(jax.numpy, scan=jax.lax.scan, erf=jax.scipy.special.erf)))
    there = [jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in work.arguments]
    return lambda: finish(compiled(*there))


def _in_torch(work: Work) -> Callable[..., Any]:
    import torch

    def largest(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return x.max() if axis is None else x.amax(axis, keepdim=keepdims)

    names = ("sum", "mean", "sin", "exp", "log", "sqrt", "tanh")
    like_numpy = types.SimpleNamespace(
        **{name: getattr(torch, name) for name in names}, swapaxes=torch.swapaxes, max=largest,
        min=lambda x, axis: x.amin(axis), maximum=lambda x, low: torch.clamp(x, min=low))
    return work.called(like_numpy, erf=torch.special.erf)


def _torch(work: Work, *, compiled: bool = False) -> Call:
    import torch

    there = [torch.from_numpy(a) if isinstance(a, np.ndarray) else float(a) for a in work.arguments]
    there[0].requires_grad_()
    called = _in_torch(work)
    called = torch.compile(called) if compiled else called
    return lambda: torch.autograd.grad(called(*there), there[0])[0]


def _compile(work: Work) -> Call:
    return _torch(work, compiled=True)


_BUILDERS: Final[dict[str, Callable[..., Call]]] = {
    "jitfuse": _jitfuse, "jax": _jax, "torch": _torch, "compile": _compile}


def measure(name: str, work: Work, options: Any) -> float | None:
    """Print a work's row; return jitfuse's time over the fastest other's."""
    calls: dict[str, Call] = {"function": _function(work)}
    calls["function"]()
    found: dict[str, Any] = {}
    for system in options.systems:
        try:
            call = _BUILDERS[system](work)
            found[system] = np.asarray(call())
            calls[system] = call
        except Exception as error:
            print(f"  {system} is left out of {name}: {first_line(error)}")
    right = found.get("torch", found["jitfuse"])
    for system, result in found.items():
        error = largest_error(right, result)
        if error > 1e-3:
            print(f"  {system} differs in {name}: {error:.1e}")
    repeats = {system: max(1, round(SECONDS_PER_SAMPLE / max(seconds(call, 1), 1e-7)))
               for system, call in calls.items()}
    times = medians({system: (lambda call=call, n=repeats[system]: awake(call, n))  # type: ignore[misc]
                     for system, call in calls.items()}, options.rounds, PAUSE)
    others = [t for system, t in times.items() if system not in ("function", "jitfuse")]
    ratio = times["jitfuse"] / min(others) if others else None
    shown = "".join(f"{times[system] * 1e3:11.3f}" if system in times else f"{'-':>11}"
                    for system in ("function", *options.systems))
    print(f"{name:34}{shown}{times['jitfuse'] / times['function']:9.2f}{'' if ratio is None else f'{ratio:9.2f}'}",
          flush=True)
    return ratio


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--systems", nargs="*", default=[
        s for s in SYSTEMS if importlib.util.find_spec("torch" if s == "compile" else s)])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = "".join(f"{name:>11}" for name in ("function", *options.systems))
    print(f"{'ms':34}{heads}{'/ itself':>9}{'/ best':>9}")
    ratios = [measure(name, work, options) for name, work in works(np.random.default_rng(0)).items()
              if not options.only or any(part in name for part in options.only)]
    known = [r for r in ratios if r is not None]
    if known:
        print(f"geometric mean over the best other: {math.exp(sum(map(math.log, known)) / len(known)):.2f}")


if __name__ == "__main__":
    main()
