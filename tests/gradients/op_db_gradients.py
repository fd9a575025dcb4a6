"""torch's own samples of operators as a judge of derivatives: `jf.vjp`, `jf.jvp` and second order against autograd.

``python tests/gradients/op_db_gradients.py --samples 3`` judges all operators that have float64 autograd;
``--only NAMES``, ``--modes reverse forward second``. Each sample is differentiated by its floating tensors, with random
cotangents and tangents. Samples that draw random numbers, which are other ones here, are judged by differences between
values of the fused function itself. Differences of torch's values judge what torch cannot differentiate, and where
both disagree: "otherwise" is what differs from torch's derivative, which is not that of torch's values.
"""
from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from op_db_cases import Case, cases  # noqa: E402

import jitfuse as jf  # noqa: E402

MODES: Final = ("reverse", "forward", "second")
TOLERANCE: Final = {"rtol": 1e-6, "atol": 1e-8}


STEP: Final = 1e-6
"""The step of differences."""
OF_DIFFERENCES: Final = {"rtol": 1e-4, "atol": 1e-6}


class Verdict(NamedTuple):
    """How a mode went: right, otherwise (right, and torch is wrong), wrong, refused (with an error of ours), failed.

    Skipped is what torch cannot differentiate, where differences do not show that ours is right.
    """

    how: str
    why: str = ""


# ---------------------------------------------------------------- the derivatives of both
def _by_torch(case: Case, mode: str, draw: Callable[[torch.Tensor], torch.Tensor], moving: list[int]) -> Any:
    """Return torch's derivative; `moving` gets the gradients that have derivatives themselves."""
    leaves = [leaf.clone().requires_grad_() for leaf in case.leaves]
    if mode == "forward":
        return torch.func.jvp(case.function, case.leaves, tuple(map(draw, case.leaves)))[1]
    total = sum((y * draw(y).conj()).sum().real for y in case.function(*leaves))
    found = torch.autograd.grad(total, leaves, allow_unused=True, create_graph=mode == "second")
    if mode == "second":
        moving += [k for k, g in enumerate(found) if g is not None and g.requires_grad]
        total = sum((found[k] * draw(found[k])).sum().real for k in moving)
        found = torch.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, torch.Tensor) else [
            None] * len(leaves)
    return tuple(torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True))


def _weighted(case: Case, weights: Sequence[torch.Tensor]) -> Callable[..., Any]:
    def weighted(*leaves: Any) -> Any:
        return sum([(y * w.conj()).sum().real if y.is_complex() else (y * w).sum()
                    for y, w in zip(case.function(*leaves), weights)])

    return weighted


def _of_gradient(case: Case, weights: Sequence[torch.Tensor], by: Sequence[int], moving: Sequence[int]) -> Any:
    """Return the function of which second derivatives are the gradient; `moving`: the gradients that it reads."""
    weights, second = weights[: len(weights) - len(moving)], weights[len(weights) - len(moving) :]
    weighted = _weighted(case, weights)

    def of_gradient(*leaves: Any) -> Any:
        found = jf.grad(weighted, by)(*leaves)
        return sum([(found[k] * w).sum().real for k, w in zip(moving, second)], (found[0] * 0).sum().real)

    return of_gradient


def _by_jitfuse(case: Case, mode: str, drawn: Sequence[torch.Tensor], moving: Sequence[int]) -> Any:
    if mode == "forward":
        return jf.jvp(case.function, case.leaves, tuple(drawn))[1]
    by = tuple(range(len(case.leaves)))
    function = _weighted(case, drawn) if mode == "reverse" else _of_gradient(case, drawn, by, moving)
    return jf.grad(function, by)(*case.leaves)


def _of_torchs_values(case: Case, mode: str, drawn: list[torch.Tensor], moving: Sequence[int],
                      tangents: Sequence[torch.Tensor]) -> Any:
    """Return differences of torch's values on both sides along tangents; of its gradients for second derivatives."""
    def values(*leaves: Any) -> Any:
        if mode == "forward":
            return case.function(*leaves)
        if mode == "reverse":
            return (_weighted(case, drawn)(*leaves),)
        count = len(drawn) - len(moving)
        with torch.enable_grad():
            given = [x.clone().requires_grad_() for x in leaves]
            found = torch.autograd.grad(_weighted(case, drawn[:count])(*given), given, allow_unused=True)
        return (sum((found[k] * w).sum().real for k, w in zip(moving, drawn[count:], strict=True)
                    if found[k] is not None),)

    sides = [values(*[x + step * t for x, t in zip(case.leaves, tangents, strict=True)]) for step in (STEP, -STEP)]
    return tuple([torch.as_tensor((a - b) / (2 * STEP)) for a, b in zip(*sides, strict=True)])


def _along(mode: str, found: Any, tangents: Sequence[torch.Tensor]) -> Any:
    """Return a derivative along tangents: of gradients the product with them."""
    if mode == "forward":
        return tuple(found)
    return (sum([(g.conj() * t).sum().real for g, t in zip(found, tangents, strict=True)]),)


def _agrees(got: Any, want: Any) -> bool:
    try:
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, check_dtype=False, **OF_DIFFERENCES)
    except AssertionError:
        return False
    return True


def _is_of_torchs_values(case: Case, mode: str, draw: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Tell whether our derivative is that of torch's values, where torch has none."""
    with torch.no_grad():
        drawn = [draw(x) for x in (case.leaves if mode == "forward" else case.function(*case.leaves))]
        moving = range(len(case.leaves)) if mode == "second" else ()
        drawn += [draw(case.leaves[k]) for k in moving]
        tangents = drawn if mode == "forward" else list(map(draw, case.leaves))
        try:
            found = _by_jitfuse(case, mode, drawn, moving)
            return _agrees(_along(mode, found, tangents), _of_torchs_values(case, mode, drawn, moving, tangents))
        except Exception:
            return False


def _differs_rightly(case: Case, mode: str, drawn: list[torch.Tensor], moving: Sequence[int], got: Any, want: Any,
                     draw: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Tell whether our derivative is that of torch's values, and torch's own is not."""
    tangents = drawn if mode == "forward" else list(map(draw, case.leaves))
    with torch.no_grad():
        differences = _of_torchs_values(case, mode, drawn, moving, tangents)
    return _agrees(_along(mode, got, tangents), differences) and not _agrees(_along(mode, want, tangents), differences)


def _by_differences(case: Case, mode: str, draw: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, Any]:
    """Return the derivative along a random tangent, and the difference of values on both sides; equal numbers drawn."""
    tangents, by = tuple(map(draw, case.leaves)), tuple(range(len(case.leaves)))
    jf.random.seed(0)
    weights = [draw(y) for y in jf.fuse(case.function)(*case.leaves)]
    moving = by if mode == "second" else ()
    function = case.function if mode == "forward" else _weighted(case, weights) if mode == "reverse" else _of_gradient(
        case, [*weights, *map(draw, case.leaves)], by, moving)
    sides = []
    for step in (STEP, -STEP):
        jf.random.seed(0)
        sides.append(jf.fuse(function)(*[x + step * t for x, t in zip(case.leaves, tangents, strict=True)]))
    jf.random.seed(0)
    if mode == "forward":
        return jf.jvp(function, case.leaves, tangents)[1], tuple([(a - b) / (2 * STEP) for a, b in zip(*sides)])
    found = jf.grad(function, by)(*case.leaves)
    return sum([(g.conj() * t).sum().real for g, t in zip(found, tangents, strict=True)]), (
        sides[0] - sides[1]) / (2 * STEP)


def judge(case: Case, mode: str) -> Verdict:
    """Compare one mode with torch's, or with differences."""
    drawn: list[torch.Tensor] = []
    moving: list[int] = []
    generator = torch.Generator().manual_seed(1)

    def draw(like: torch.Tensor) -> torch.Tensor:
        drawn.append(torch.randn(like.shape, dtype=like.dtype, generator=generator))
        return drawn[-1]

    try:
        torch.manual_seed(0)
        want = _by_torch(case, mode, draw, moving)
    except Exception as error:
        if not case.draws and _is_of_torchs_values(case, mode, draw):
            return Verdict("right")
        return Verdict("skipped", f"{type(error).__name__}: {error}"[:80])
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            if case.draws:
                got, want = _by_differences(case, mode, draw)
            else:
                got = _by_jitfuse(case, mode, drawn, moving)
    except jf.JitfuseError as error:
        return Verdict("refused", " ".join(f"{type(error).__name__}: {error}".split())[:160])
    except Exception as error:
        return Verdict("failed", " ".join(f"{type(error).__name__}: {error}".split())[:160])
    try:
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, **(
            OF_DIFFERENCES if case.draws else TOLERANCE))
    except AssertionError as error:
        otherwise = not case.draws and _differs_rightly(case, mode, list(drawn), moving, got, want, draw)
        return Verdict("otherwise" if otherwise else "wrong", " ".join(str(error).split())[:160])
    return Verdict("right")


def main() -> None:
    """Judge all, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--modes", nargs="+", default=["reverse"], choices=MODES)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    entries: dict[str, dict[str, collections.Counter[str]]] = {m: {} for m in options.modes}
    for case in cases(options.samples, options.only):
        for mode in options.modes:
            verdict = judge(case, mode)
            entries[mode].setdefault(case.name, collections.Counter())[verdict.how] += 1
            if verdict.how not in ("right", "skipped"):
                print(f"{mode} {case.name} {verdict.how}: {verdict.why}", flush=True)
    for mode, found in entries.items():
        whole = sum(not (c.keys() - {"right", "otherwise", "skipped"}) and c["right"] + c["otherwise"] > 0
                    for c in found.values())
        print(f"{mode}: {whole} of {len(found)} operators right in all samples; samples: "
              f"{dict(sum(found.values(), collections.Counter()))}")


if __name__ == "__main__":
    main()
