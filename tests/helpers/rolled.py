"""What the tests of rolled loops share: the same function rolled, written out, interpreted and in NumPy."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from oracle import ROUNDED, Near, same

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.graph_breaks import limits as compiling
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.control.reroll import long_runs, loop_step

RNG = np.random.default_rng(5)


@contextmanager
def limits(ops: int, iterations: int, fused: int = 64) -> Iterator[None]:
    """Roll from so many ops and iterations on, with so many ops in one iteration; what is written out may be long."""
    before = long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS, loop_step.FUSED_OPS, compiling.STEP
    long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS, loop_step.FUSED_OPS = ops, iterations, fused
    compiling.STEP = 1e-9  # type: ignore[misc]
    try:
        yield
    finally:
        long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS, loop_step.FUSED_OPS, compiling.STEP = before  # type: ignore[misc]


def results(fn: Callable[..., Any], args: tuple[Any, ...], calls: int = 2) -> list[np.ndarray]:
    """Return what a function returns in its last call, and what it leaves in its arguments."""
    found: list[list[np.ndarray]] = []
    for _ in range(calls):
        own = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
        made = fn(*own)
        made = made if isinstance(made, tuple) else (made,)
        found.append([np.asarray(x) for x in (*made, *own)])
        for a, b in zip(found[0], found[-1], strict=True):
            np.testing.assert_array_equal(a, b)
    return found[-1]


def loops(program: Any) -> int:
    """Return the number of rolled loops in a program, those within others included."""
    found = 0
    for step in program.steps:
        found += step.op_name == "rolled_loop"
        found += sum(loops(v) for _, v in step.attrs if isinstance(v, jf.FusedProgram))
    return found


def check(fn: Callable[..., Any], *args: Any, rerolled: int | None = 1, close: float = 0.0) -> Any:
    """Compare a rolled function with the same one written out, bit by bit, and with NumPy; return its program."""
    with limits(1 << 60, 4):
        want = results(jf.fuse(fn), args)
    plain = results(fn, args, 1)
    for at_once in (1, 64):
        with limits(24, 4, at_once):
            fused = jf.fuse(fn)
            program = fused.program(*args)
            if rerolled is not None:
                assert loops(program) == rerolled, str(program)
            verify(program)
            assert FusedProgram.from_text(str(program)) == program
            got = results(fused, args)
        for a, b, c in zip(got, want, plain, strict=True):
            same(a, b)
            same(a, c, Near(close, close, close) if close else ROUNDED)
        interpreted(program, args, got)
    return program


def interpreted(program: Any, args: tuple[Any, ...], want: list[np.ndarray]) -> None:
    names = {f: program.feed_names[f] for f in program.feeds}
    if not all(name.startswith("args[") for name in names.values()) or len(program.outputs) + len(args) != len(want):
        return
    feeds = {f: args[int(name[5:-1])] for f, name in names.items()}
    result = ProgramRunner(program)(feeds)
    for a, b in zip(result.outputs.values(), want, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for feed, array in result.writes.items():
        np.testing.assert_allclose(array, want[len(result.outputs) + int(names[feed][5:-1])], rtol=1e-12)


N = 20
X, Y, T = RNG.random(N + 3), RNG.random(5), RNG.random((N + 3, 5))
