"""What the tests of loops and branches share: fused, interpreted and plain runs of a function, compared."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest
from oracle import same_numbers

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.program import FusedProgram


def same(got: Any, want: Any) -> None:
    """Compare trees bit by bit, but for the sign and payload of NaN."""
    a, b = (optree.tree_flatten(t, none_is_leaf=True) for t in (got, want))
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        same_numbers(x, y)


def check(fn: Callable[..., Any], *args: Any, want: Any = None) -> Any:
    """Compare a plain run, fused calls and the interpreted program with what is wanted; return the fused function."""
    plain = fn(*[np.copy(a) if isinstance(a, np.ndarray) else a for a in args])
    same(plain, plain if want is None else want)
    fused = jf.fuse(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            same(fused(*args), plain)
    program = fused.program(*args)
    verify(program)
    assert FusedProgram.from_text(str(program)) == program
    assert jf.FusedProgram.from_json(program.to_json()) == program
    assert jf.FusedProgram.from_messagepack(program.to_messagepack()).content_hash == program.content_hash
    assert fused.stats()["fallbacks"] == 0
    interpreted(program, args, fused(*args))
    return fused


def interpreted(program: jf.FusedProgram, args: tuple[Any, ...], result: Any) -> None:
    """Compare the interpreter, over NumPy and over torch, with a call's result."""
    leaves = optree.tree_leaves(result)
    feeds = {f: args[int(name[5:-1])] for f, name in program.feed_names.items() if name.startswith("args[")}
    if len(program.outputs) != len(leaves) or set(feeds) != program.feeds:
        return
    same(list(ProgramRunner(program)(feeds).outputs.values()), leaves)
    torch = pytest.importorskip("torch")
    tensors = {f: torch.from_numpy(np.array(v)) if isinstance(v, np.ndarray) else v for f, v in feeds.items()}
    for value, leaf in zip(ProgramRunner(program)(tensors).outputs.values(), leaves, strict=True):
        np.testing.assert_allclose(np.asarray(value), leaf, rtol=1e-6)


class Written:
    """The five functions written out in plain Python, with nothing of jitfuse."""

    @staticmethod
    def cond(pred: Any, true_fn: Any, false_fn: Any, *operands: Any) -> Any:
        return true_fn(*operands) if pred else false_fn(*operands)

    @staticmethod
    def while_loop(cond_fn: Any, body_fn: Any, value: Any) -> Any:
        while cond_fn(value):
            value = body_fn(value)
        return value

    @staticmethod
    def fori_loop(lower: int, upper: int, body_fn: Any, value: Any) -> Any:
        for i in range(lower, upper):
            value = body_fn(np.int64(i), value)
        return value

    @staticmethod
    def scan(f: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
        ys = []
        for x in xs[::-1] if reverse else xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys[::-1] if reverse else ys)


X = np.linspace(0.25, 2.0, 7)
