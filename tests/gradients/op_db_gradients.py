"""torch's own samples of operators as a judge of derivatives: `jf.vjp`, `jf.jvp` and second order against autograd.

``python tests/gradients/op_db_gradients.py --samples 3`` judges all operators that have float64 autograd;
``--only NAMES``, ``--modes reverse forward second``. Each sample is differentiated by its floating tensors, with random
cotangents and tangents.
"""
from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).parents[1]))
from surface.op_db import as_user_code

import jitfuse as jf

MODES: Final = ("reverse", "forward", "second")
TOLERANCE: Final = {"rtol": 1e-6, "atol": 1e-8}


class Case(NamedTuple):
    """A sample as a function of the tensors by which it is differentiated."""

    name: str
    function: Callable[..., Any]
    leaves: tuple[torch.Tensor, ...]


class Verdict(NamedTuple):
    """How a mode went: right, wrong, refused (with an error of ours), or skipped (torch itself has no derivative)."""

    how: str
    why: str = ""


def cases(samples: int, only: Sequence[str] = (), *, every: int = 1, first: int = 0) -> Iterator[Case]:
    """Yield the samples of operators with float64 autograd: of one in `every`."""
    for op in op_db[first::every]:
        if not op.supports_autograd or torch.float64 not in op.supported_dtypes("cpu"):
            continue
        if only and op.name not in only:
            continue
        torch.manual_seed(0)
        for count, sample in enumerate(op.sample_inputs("cpu", torch.float64, requires_grad=True)):
            if count == samples:
                break
            case = _case(op, sample)
            if case is not None:
                yield case


def _case(op: Any, sample: Any) -> Case | None:
    leaves: list[torch.Tensor] = []
    whole = _detached((sample.input, sample.args, sample.kwargs), leaves)
    if not leaves:
        return None
    called, wrapped = as_user_code(op.op), as_user_code(op.gradcheck_wrapper)  # which makes matrices Hermitian
    finished = as_user_code(sample.output_process_fn_grad)

    def function(*given: Any) -> Any:
        first, args, kwargs = _filled(whole, given)
        found = finished(wrapped(called, first, *args, **kwargs))
        parts = found if isinstance(found, (tuple, list)) else (found,)
        return tuple([p for p in parts if p is not None and (p.is_floating_point() or p.is_complex())])

    return Case(op.name, function, tuple(leaves))


class Hole(NamedTuple):
    """The place of a leaf in the arguments."""

    number: int


def _detached(value: Any, leaves: list[torch.Tensor]) -> Any:
    """Return arguments with holes in place of the tensors that need gradients, which are collected."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            leaves.append(value.detach())
            return Hole(len(leaves) - 1)
        return value
    if type(value) in (list, tuple):
        return type(value)([_detached(v, leaves) for v in value])
    if type(value) is dict:
        return {k: _detached(v, leaves) for k, v in value.items()}
    return value


def _filled(value: Any, given: Any) -> Any:
    if type(value) is Hole:
        return given[value.number]
    if type(value) in (list, tuple):
        return type(value)([_filled(v, given) for v in value])
    if type(value) is dict:
        return {k: _filled(v, given) for k, v in value.items()}
    return value


# ---------------------------------------------------------------- the derivatives of both
def _by_torch(case: Case, mode: str, draw: Callable[[torch.Tensor], torch.Tensor], moving: list[int]) -> Any:
    """Return torch's derivative; `moving` gets the gradients that have derivatives themselves."""
    leaves = [leaf.clone().requires_grad_() for leaf in case.leaves]
    if mode == "forward":
        return torch.func.jvp(case.function, case.leaves, tuple(map(draw, case.leaves)))[1]
    ys = case.function(*leaves)
    total = sum((y * draw(y).conj()).sum().real for y in ys if y.requires_grad)
    found = torch.autograd.grad(total, leaves, allow_unused=True, create_graph=mode == "second")
    if mode == "second":
        moving += [k for k, g in enumerate(found) if g is not None and g.requires_grad]
        total = sum((found[k] * draw(found[k])).sum().real for k in moving)
        found = torch.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, torch.Tensor) else [
            None] * len(leaves)
    return tuple(torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True))


def _by_jitfuse(case: Case, mode: str, drawn: Sequence[torch.Tensor], moving: Sequence[int]) -> Any:
    function, rest = case.function, list(drawn)
    if mode == "forward":
        return jf.jvp(function, case.leaves, tuple(rest))[1]

    def weighted(*leaves: Any) -> Any:
        return sum([(y * w.conj()).sum().real if y.is_complex() else (y * w).sum()
                    for y, w in zip(function(*leaves), rest)])

    by = tuple(range(len(case.leaves)))
    if mode == "reverse":
        return jf.grad(weighted, by)(*case.leaves)
    rest, second = rest[: len(rest) - len(moving)], rest[len(rest) - len(moving) :]

    def of_gradient(*leaves: Any) -> Any:
        found = jf.grad(weighted, by)(*leaves)
        return sum([(found[k] * w).sum().real for k, w in zip(moving, second)], (found[0] * 0).sum().real)

    return jf.grad(of_gradient, by)(*case.leaves)


def judge(case: Case, mode: str) -> Verdict:
    """Compare one mode with torch's."""
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
        return Verdict("skipped", f"{type(error).__name__}: {error}"[:80])
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            got = _by_jitfuse(case, mode, drawn, moving)
    except jf.JitfuseError as error:
        return Verdict("refused", " ".join(f"{type(error).__name__}: {error}".split())[:160])
    except Exception as error:
        return Verdict("failed", " ".join(f"{type(error).__name__}: {error}".split())[:160])
    try:
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, **TOLERANCE)
    except AssertionError as error:
        return Verdict("wrong", " ".join(str(error).split())[:160])
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
        whole = sum(not (c.keys() - {"right", "skipped"}) and c["right"] > 0 for c in found.values())
        print(f"{mode}: {whole} of {len(found)} operators right in all samples; samples: "
              f"{dict(sum(found.values(), collections.Counter()))}")


if __name__ == "__main__":
    main()
