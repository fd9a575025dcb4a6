"""Drawn programs: `jf.grad` of them, in kernels, against central differences, and against torch where it runs them.

``python tests/gradients/test_random_programs.py 10000`` judges so many, ``--first 5000`` from there on; so does
JITFUSE_TEST_SCALE=125 of the test below.
"""
from __future__ import annotations

import argparse
import collections
import re
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
import amount
from derivatives_drawn import Plain, Program, draw, jitfuse_function

import jitfuse as jf

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

STEP = 1e-6
PROGRAMS, PARTS = 48, 16
"""How many a full session draws, in how many tests."""
EQUAL_INDICES = re.compile(r"^\w+\[.*\[.*\].*\] [-+*]?= ")
"""A write at a list of indices. torch gives all of equal ones a gradient, also those whose values are overwritten."""


class MismatchError(AssertionError):
    """A gradient differs."""


def by_differences(program: Program, tangents: list[Any]) -> float | None:
    """Return the derivative along tangents; None at a kink, where both sides differ."""
    function, found = program.compiled(np, Plain(np)), {}
    with np.errstate(all="ignore"):
        for s in (-2, -1, 0, 1, 2):
            found[s] = float(function(*[a + s * STEP * t for a, t in zip(program.arguments, tangents, strict=True)]))
    left, right = (found[0] - found[-1]) / STEP, (found[1] - found[0]) / STEP
    wide, middle = (found[2] - found[-2]) / (4 * STEP), (left + right) / 2
    scale = 1 + abs(middle) + abs(found[0])
    if not np.isfinite([left, right, wide]).all() or abs(left - right) > 1e-3 * scale or (
            abs(wide - middle) > 1e-6 * scale):
        return None
    return middle


def by_elements(program: Program) -> list[Any]:
    """Return the gradients by central differences, element by element."""
    function = program.compiled(np, Plain(np))
    found = [np.zeros(a.shape) for a in program.arguments]
    for k, a in enumerate(program.arguments):
        for index in np.ndindex(a.shape):
            ends = []
            for s in (STEP, -STEP):
                moved = [x.copy() for x in program.arguments]
                moved[k][index] += s
                with np.errstate(all="ignore"):
                    ends.append(float(function(*moved)))
            found[k][index] = (ends[0] - ends[1]) / (2 * STEP)
    return found


class TorchFunctions:
    """Functions of NumPy's names over torch's tensors: those whose names or signatures differ."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def maximum(self, a: Any, b: Any) -> Any:
        return torch.maximum(a, torch.as_tensor(b, dtype=torch.float64))

    def minimum(self, a: Any, b: Any) -> Any:
        return torch.minimum(a, torch.as_tensor(b, dtype=torch.float64))

    def hypot(self, a: Any, b: Any) -> Any:
        return torch.hypot(a, torch.as_tensor(b, dtype=torch.float64))

    def max(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return torch.amax(x, () if axis is None else axis, keepdims)

    def min(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return torch.amin(x, () if axis is None else axis, keepdims)

    def var(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return torch.var(x, axis, correction=0, keepdim=keepdims)

    def std(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return torch.std(x, axis, correction=0, keepdim=keepdims)

    def sort(self, x: Any, axis: int) -> Any:
        return torch.sort(x, dim=axis).values

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return torch.roll(x, shift, dims=axis)

    def flip(self, x: Any, axis: int) -> Any:
        return torch.flip(x, (axis,))

    def expand_dims(self, x: Any, axis: int) -> Any:
        return torch.unsqueeze(x, axis)

    def take(self, x: Any, index: list[int], axis: int) -> Any:
        return torch.index_select(x, axis, torch.tensor([k % x.shape[axis] for k in index]))


def by_torch(program: Program) -> list[Any] | None:
    """Return the gradients by torch's autograd; None where it cannot run the program, or writes at equal indices."""
    if any(EQUAL_INDICES.search(line) for line in program.lines):
        return None
    xp = TorchFunctions()
    function = program.compiled(xp, Plain(xp), lambda c: c if isinstance(c, float) else torch.from_numpy(c))
    leaves = [torch.from_numpy(a.copy()).requires_grad_() for a in program.arguments]
    try:
        value = function(*leaves)
        found = torch.autograd.grad(value, leaves, allow_unused=True)
    except (TypeError, AttributeError, ValueError, RuntimeError, IndexError):
        return None
    want = program.compiled(np, Plain(np))(*[a.copy() for a in program.arguments])
    if abs(float(value.detach()) - float(want)) > 1e-9:
        return None  # the same text means something else there
    return [np.zeros(a.shape) if g is None else g.numpy() for g, a in zip(found, program.arguments, strict=True)]


def judge_others(program: Program, by: tuple[int, ...], tangents: list[Any], want: float, size: float) -> None:
    """Compare the forward mode, and second derivatives with differences of gradients."""
    function = jitfuse_function(program)
    _, moved = jf.jvp(function, tuple(program.arguments), tuple(tangents))
    if not abs(float(moved) - want) < 1e-5 * size:
        raise MismatchError(f"along tangents the derivative is {want}, and the forward mode gives {moved}")
    gradient = jf.grad(function, by)
    ahead, behind = (gradient(*[a + s * STEP * t for a, t in zip(program.arguments, tangents, strict=True)])
                     for s in (1, -1))
    for a, b, h in zip(ahead, behind, jf.hvp(function, tuple(program.arguments), tuple(tangents)), strict=True):
        numbers = (a - b) / (2 * STEP)
        if not np.allclose(h, numbers, rtol=1e-4, atol=1e-5 * (size + np.max(np.abs(numbers), initial=0))):
            raise MismatchError(f"differences of gradients give {numbers}, and the second derivative {h}")


def judge(program: Program, seed: int) -> str:
    """Return by what the gradient was found right; raise MismatchError where it is not."""
    by = tuple(range(len(program.arguments)))
    try:
        got = jf.grad(jitfuse_function(program), by)(*program.arguments)
    except jf.errors.ReadOnlyError:  # np.add.at writes into broadcast arrays all the same, and there all at once
        assert any(".at(" in line for line in program.lines)
        return "read-only"
    for gradient, a in zip(got, program.arguments, strict=True):
        if np.shape(gradient) != a.shape or np.asarray(gradient).dtype != a.dtype:
            made = np.asarray(gradient)
            raise MismatchError(f"a gradient of {made.dtype}{made.shape} for {a.dtype}{a.shape}")
    rng = np.random.default_rng(seed)
    tangents = [rng.standard_normal(a.shape) for a in program.arguments]
    want = by_differences(program, tangents)
    if want is None:
        return "at a kink"
    along = sum(float(np.sum(g * t)) for g, t in zip(got, tangents, strict=True))
    size = 1 + abs(want) + sum(float(np.sum(np.abs(g))) for g in got)
    if not abs(along - want) < 1e-5 * size:
        raise MismatchError(f"along tangents the derivative is {want}, and the gradient gives {along}")
    if seed % 4 == 0:
        judge_others(program, by, tangents, want, size)
    theirs = None if torch is None else by_torch(program)
    if theirs is None:
        return "by differences"
    for g, t in zip(got, theirs, strict=True):
        if not np.allclose(g, np.where(np.isnan(t), g, t), rtol=1e-7, atol=1e-9 * size):  # NaN beside np.where: theirs
            numbers = by_elements(program)
            if all(np.allclose(g, n, rtol=1e-6, atol=1e-7 * size) for g, n in zip(got, numbers, strict=True)):
                return "by differences, not by torch"  # such as the std of equal numbers, which rounding decides there
            raise MismatchError(f"torch's gradient is {t}, and ours {g}")
    return "by differences and torch"


def judge_seed(seed: int) -> str:
    """Judge a drawn program; what is raised has its text."""
    program = draw(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN in a branch not taken; torch's deprecations
            return judge(program, seed)
    except Exception as error:
        error.add_note(f"seed {seed}:\n{program}")
        raise


@pytest.mark.parametrize("part", range(PARTS))
def test_gradients_of_drawn_programs(part: int) -> None:
    count = max(2, amount.drawn(PROGRAMS) // PARTS)
    found = collections.Counter(judge_seed(PARTS * k + part) for k in range(count))
    assert found["at a kink"] < found.total() / 2 + 2


def main() -> None:
    """Judge many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    found: collections.Counter[str] = collections.Counter()
    began = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        if seed % 100 == 0:
            print(f"seed {seed} after {time.perf_counter() - began:.0f} s: {dict(found)}", flush=True)
        try:
            found[judge_seed(seed)] += 1
        except Exception as error:
            found[type(error).__name__] += 1
            print(*traceback.format_exception_only(error), flush=True)
    print(f"{dict(found)} in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
