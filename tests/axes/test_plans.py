"""Plans: several candidates, each kind of which wins somewhere, all with the same results; scores; arities."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.axes import TensorOp, ax, axes, contract, einop, rearrange, reduce, repeat, view
from jitfuse.axes.plans.abstract import AbstractPlan
from jitfuse.axes.plans.report import PlanReport
from jitfuse.axes.plans.steps import SymbolicStep
from jitfuse.axes.plans.structural import Reindex
from jitfuse.axes.plans.symbolic import Score

a, b, c, d, e, f, h, w = axes("a", "b", "c", "d", "e", "f", "h", "w")

SIGNATURES: dict[str, tuple[TensorOp, list[tuple[int, ...]], str]] = {
    "grouped as written": (rearrange(ax[b, h, w], ax[w, b * h]), [(2, 3, 4)], "as written"),
    "grouped as wanted": (
        rearrange(ax[a * b, c, d, e], ax[b * c, a, d, e]).with_sizes(b=2), [(6, 4, 2, 3)], "as wanted"),
    "joined": (rearrange((ax[c, a], ax[b, c]), ax[a + b, c]), [(3, 2), (4, 3)], "concat"),
    "written to its place": (einop((ax[b, c, d], ax[d]), ax[b, 1 + c, d]), [(2, 3, 4), (4,)], "as written, reindex"),
    "repeated by the library": (repeat(ax[a, c], ax[a, b, c]).with_sizes(b=3), [(4, 5)], "concat"),
    "repeated in place": (repeat(ax[a, c], ax[d, c, b, a]).with_sizes(b=3, d=2), [(4, 5)], "reindex"),
    "a product of matrices": (contract((ax[a, b], ax[b, c]), ax[a, c]), [(3, 4), (4, 5)], "contract chain"),
    "a chain of matrices": (
        contract((ax[a, b], ax[b, c], ax[c, d]), ax[a, d]), [(30, 4), (4, 50), (50, 6)], "contract chain"),
    "an einsum": (contract((ax[a, b], ax[a, b], ax[a, b]), ax[a]), [(30, 4)] * 3, "einsum"),
    "a chain of einsums": (
        contract((ax[a, b], ax[a, b], ax[a, b, c]), ax[a]), [(3, 4), (3, 4), (3, 4, 5)], "einsum chain"),
    "one axis summed first": (contract((ax[a, b], ax[c]), ax[a, c]), [(3, 40), (5,)], "contract chain"),
    "projections, each on its own": (
        contract((ax[a, b], ax[b, c + d + e]), (ax[a, c], ax[d, a], ax[a, e])).with_sizes(c=2, d=1), [(3, 4), (4, 6)],
        "contract chain, split first"),
    "one product for several parts": (
        contract((ax[a], ax[b + c * d]), (ax[a, b], ax[d, a, c])).with_sizes(b=2, c=2), [(3,), (8,)],
        "as written, contract chain, contract first"),
    "one product for several parts behind another": (
        contract((ax[a, b], ax[a, b], ax[b, c + d]), (ax[a, c], ax[a, d])).with_sizes(c=1), [(30, 4), (30, 4), (4, 3)],
        "contract chain, contract first"),
    "two parts repeated": (repeat(ax[a], ax[b, a + a]).with_sizes(b=3), [(4,)], "reindex"),
}


def results(report: PlanReport, arrays: list[Any]) -> list[tuple[np.ndarray, ...]]:
    """Return the results of every candidate, step by step."""
    found = []
    for plan in report.candidates:
        slots = dict(enumerate(arrays))
        for step in plan.specialize(report.context):
            made = step.run(tuple(slots[s] for s in step.operands))
            assert len(made) == step.output_arity
            slots.update(zip(step.results, made))
        found.append(tuple(slots[s] for s in plan.outputs))
    return found


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_kind_wins_somewhere(name: str) -> None:
    op, shapes, kind = SIGNATURES[name]
    report = op.plan(*shapes)
    assert len(report.candidates) > 1
    assert report.winner.kind == kind, str(report)
    arrays = [np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    want = op(*arrays)
    for got in results(report, arrays):
        for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    lowest = min(report.scores)
    assert report.winner.score(report.context) == lowest
    text = str(report)
    assert text.startswith(f"{op!r} for ") and text.count("lost: ") == len(report.candidates) - 1


ARITIES = {
    "view": (1, 1), "reshape": (1, 1), "permute": (1, 1), "expand": (1, 1), "reduce": (1, 1), "split": (1, None),
    "concat": (None, 1), "promote": (None, None), "einsum": (None, 1), "contract": (None, 1), "reindex": (None, 1),
}


def steps() -> list[SymbolicStep]:
    more = [
        (rearrange(ax[a + b, c], (ax[a, c], ax[b, c])).with_sizes(a=1), [(3, 2)]),
        (reduce(ax[a, a, b], ax[a]).reduce_by("max"), [(3, 3, 2)]), (repeat(ax[a], ax[a, a]), [(3,)]),
    ]
    every = [*((op, shapes) for op, shapes, _ in SIGNATURES.values()), *more]
    return [step for op, shapes in every for plan in op.plan(*shapes).candidates for step in plan.steps]


def test_steps_have_their_arities() -> None:
    found = steps()
    assert {step.name for step in found} == set(ARITIES)
    for step in found:
        ins, outs = ARITIES[step.name]
        assert step.input_arity == (ins or step.input_arity) and step.output_arity == (outs or step.output_arity)
        if step.name in ("concat", "split"):
            assert max(step.input_arity, step.output_arity) >= 2


def test_a_score_has_the_six_integers_in_their_order() -> None:
    names = ("peak_einsum_numel", "pre_einsum_materialize_numel", "post_einsum_materialize_numel", "allocation_count",
             "kernel_count", "step_count")
    assert Score._fields == names


def test_the_score_of_a_plan() -> None:
    op, shapes, _ = SIGNATURES["written to its place"]
    report = op.plan(*shapes)
    by_kind = {plan.kind: score for plan, score in zip(report.candidates, report.scores)}
    # the row is repeated (2 x 1 x 4), then everything is joined (2 x 4 x 4); or everything is written once
    assert by_kind["as written, concat"][:5] == (0, 0, 8 + 32, 2, 2)
    assert by_kind["as written, reindex"][:5] == (0, 0, 32, 1, 2)


def test_an_abstract_plan_knows_no_shapes() -> None:
    plan = AbstractPlan("rearrange", (ax[a, b],), (ax[b, a],))
    assert AbstractPlan._fields == ("op_name", "lhs", "rhs", "lowering")
    assert plan == AbstractPlan("rearrange", (ax[a, b],), (ax[b, a],))


def test_the_plan_of_arrays_follows_their_strides() -> None:
    op = view(ax[b, h, w], ax[b, h * w])
    x = np.zeros((2, 3, 4))
    report = op.plan(x)
    assert not report.copies and report.shapes == ((2, 12),)
    assert rearrange(ax[b, h], ax[h * b]).plan((2, 3)).copies
    assert not rearrange(ax[b, h], ax[h * b]).plan((2, 1)).copies
    assert not rearrange(ax[b * h], ax[h, b]).with_sizes(b=2).plan((6,)).copies


def test_torch_is_never_written_in_place() -> None:
    torch = pytest.importorskip("torch")
    op = repeat(ax[a, c], ax[b, c, a]).with_sizes(b=3)
    found = op.plan(torch.zeros(2, 3)).candidates
    assert not any(isinstance(step, Reindex) for plan in found for step in plan.steps)
    assert any(isinstance(step, Reindex) for plan in op.plan((2, 3)).candidates for step in plan.steps)


@pytest.mark.parametrize("way", ["fused", "torch"])
def test_one_product_for_several_parts_everywhere(way: str) -> None:
    op, shapes, _ = SIGNATURES["one product for several parts behind another"]
    arrays = [np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    if way == "torch":
        torch = pytest.importorskip("torch")
        found = op(*map(torch.from_numpy, arrays))
    else:
        found = jf.fuse(lambda *xs: op(*xs))(*arrays)
    x, y, z = arrays
    for got, want in zip(found, (x * y @ z[:, :1], x * y @ z[:, 1:]), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
