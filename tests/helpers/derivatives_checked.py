"""Derivatives of programs against central differences along random directions, in both modes.

With J the Jacobian at the operands, t tangents and c cotangents, the forward mode gives J t, which central differences
give too; the reverse mode gives J* c, and <c, J t> = <J* c, t> in the inner product Re(conj(a) * b).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import jitfuse as jf
from jitfuse.dtypes import kind
from jitfuse.gradients.programs import Derivative, forward, reverse
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.program_builder import ProgramBuilder

STEP = 1e-6
TOLERANCE = 2e-7


def one_step(name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> FusedProgram:
    """Return the program of one step, whose feeds are its operands."""
    row = ops.get(name)
    assert row is not None
    full = row.check_attrs(dict(attrs))
    return of_tensors(operands, lambda first, *others: first.call(name, *others, **full))


def of_tensors(operands: Sequence[Any], function: Callable[..., Any]) -> FusedProgram:
    """Return the program of a function of tensors that returns one tensor."""
    metas = {k: Meta(np.shape(x), str(np.asarray(x).dtype)) for k, x in enumerate(operands)}
    builder = ProgramBuilder(FusedProgram(frozenset(metas), (), {}, metas))
    made = function(*map(builder.tensor, metas))
    return builder.finish({}, outputs={"y": made.id})


def run(program: FusedProgram, operands: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return outputs of a program, in the interpreter."""
    with np.errstate(all="ignore"):
        outputs = jf.ProgramRunner(program)(dict(zip(program.ordered_feeds, operands, strict=True))).outputs
    return [outputs[name] for name in names]


def drawn_like(rng: np.random.Generator, x: Any) -> Any:
    """Return random numbers of an array's shape and dtype."""
    made = rng.standard_normal(np.shape(x))
    dtype = np.asarray(x).dtype
    return np.asarray(made + 1j * rng.standard_normal(np.shape(x)) if dtype.kind == "c" else made, dtype)


def product(a: Any, b: Any) -> float:
    """Return the inner product of two arrays."""
    return float(np.sum(np.real(np.conj(a) * b)))


def smooth_names(program: FusedProgram) -> list[str]:
    """Return the names of the outputs that have derivatives."""
    return [name for name, i in program.outputs.items() if kind(program.meta[i].dtype) in ("float", "complex")]


def check(
    program: FusedProgram, operands: Sequence[Any], wanted: Sequence[int], names: Sequence[str] | None = None,
    tolerance: float = TOLERANCE,
) -> Derivative:
    """Compare both modes by the operands at these places with differences; return the reverse mode's program."""
    names = smooth_names(program) if names is None else list(names)
    feeds, rng = program.ordered_feeds, np.random.default_rng(7)
    tangents = {k: drawn_like(rng, operands[k]) for k in wanted}
    ahead, behind = (
        run(program, [x + s * STEP * tangents[k] if k in tangents else x for k, x in enumerate(operands)], names)
        for s in (1, -1))
    numbers = [(a - b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]

    moved = forward(program, [feeds[k] for k in wanted], names)
    got = run(moved.program, [*operands, *tangents.values()], [f"d{k}" for k in range(len(names))])
    for want, found, value in zip(numbers, got, ahead, strict=True):
        scale = 1 + float(np.max(np.abs(want), initial=0))
        assert np.shape(found) == np.shape(value) and np.asarray(found).dtype == np.asarray(value).dtype
        np.testing.assert_allclose(found / scale, want / scale, rtol=0, atol=tolerance, err_msg="forward mode")

    back = reverse(program, [feeds[k] for k in wanted], names)
    cotangents = [drawn_like(rng, y) for y in ahead]
    grads = run(back.program, [*operands, *cotangents], [f"d{k}" for k in range(len(wanted))])
    for k, gradient in zip(wanted, grads, strict=True):
        assert np.shape(gradient) == np.shape(operands[k])
        assert np.asarray(gradient).dtype == np.asarray(operands[k]).dtype
    left = [product(c, t) for c, t in zip(cotangents, got, strict=True)]
    right = [product(g, tangents[k]) for g, k in zip(grads, wanted, strict=True)]
    size = 1 + sum(map(abs, left)) + sum(map(abs, right))
    assert abs(sum(left) - sum(right)) < 1e-9 * size, ("reverse mode", sum(left), sum(right))
    return back


def check_twice(
    program: FusedProgram, operands: Sequence[Any], wanted: Sequence[int], tolerance: float = TOLERANCE
) -> None:
    """Compare the first derivatives, and those of the reverse mode's program: the second ones."""
    back = check(program, operands, wanted, tolerance=tolerance)
    rng = np.random.default_rng(8)
    like = [np.zeros(back.program.meta[i].shape, back.program.meta[i].dtype) for i in back.changes]
    by = [*wanted, *range(len(operands), len(operands) + len(like))]
    names = [f"d{k}" for k in range(len(wanted))]
    for changes in ([drawn_like(rng, x) for x in like], like):  # and of zero, where only they themselves count
        check(back.program, [*operands, *changes], by, names, 10 * tolerance)
