"""Batches: launches of one form that need nothing of each other run as one, with the same results."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf
from jitfuse.backends.llvm.runtime import native
from jitfuse.compile.call_plans.call_plan import decode, encode
from jitfuse.errors import FallbackWarning
from jitfuse.plans import HostCall, ProgramPlan

Function = Callable[..., Any]
PlanOf = Callable[..., ProgramPlan]
rng = np.random.default_rng(0)


@pytest.fixture(params=[1, 3])
def threads(request: Any) -> Iterator[int]:
    before = native.runtime().threads
    native.runtime().set_threads(request.param)
    yield request.param
    native.runtime().set_threads(before)


def arrays(sizes: tuple[int, ...], *dtypes: str) -> list[Any]:
    return [rng.normal(size=n).astype(dtypes[k % len(dtypes)]) for k, n in enumerate(sizes)]


def launches(function: Any, *args: Any) -> int:
    """Return the launches of a native call."""
    function(*args)
    before = function.stats()["launches"]
    function(*args)
    return int(function.stats()["launches"] - before)


def mapped(xs: Any) -> Any:
    return [np.tanh(x) * 3 - x for x in xs]


def summed(xs: Any) -> Any:
    return [(x * x).sum() for x in xs]


def clipped(xs: Any) -> Any:
    norm = np.sqrt(sum((x * x).sum() for x in xs))
    return [x / np.maximum(norm, 1) for x in xs]


def in_place(xs: Any) -> None:
    for x in xs:
        x *= 1.5
        x += 1


def chained(xs: Any) -> Any:
    """Sorts between kernels of one form, two for each array."""
    return [np.sort(np.sort(x * 2 + 1) * 2 + 1) for x in xs]


def rotated(xs: Any) -> None:
    """Each array gets what the next one holds: the first is read last."""
    first = xs[0] + 0
    for a, b in zip(xs, [*xs[1:], first], strict=True):
        a[...] = b * 2


SIZES: dict[str, tuple[int, ...]] = {
    "none": (0, 0, 0), "odd": (1, 0, 7, 33, 4097, 8191, 5), "equal": (1000,) * 20, "huge": (3, 3_000_001, 0, 300_000),
}


@pytest.mark.parametrize(("size", "dtypes", "function"), crossed(
    2, SIZES, [("float64", "float32"), ("int64", "float32", "float16")],
    [mapped, summed, clipped, in_place, chained, rotated]))
def test_results_are_those_of_numpy(
    function: Function, dtypes: tuple[str, ...], size: str, threads: int
) -> None:
    sizes = SIZES[size]
    if function in (in_place, rotated):
        dtypes = dtypes[-1:]
    if function is rotated:
        sizes = (sizes[-1],) * min(len(sizes), 6)
    wanted = arrays(sizes, *dtypes)
    found = [x.copy() for x in wanted]
    fused = jf.fuse(function)
    for _ in range(2):
        a, b = function(wanted), fused(found)
        for w, f in zip([*(a or ()), *wanted], [*(b or ()), *found], strict=True):
            loose = 1e-2 if w.dtype == np.float16 else 2e-4 if w.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(f, w, rtol=loose, atol=loose)
            assert f.dtype == w.dtype


@pytest.mark.parametrize(("function", "dtypes", "count"), [
    (mapped, ("float32",), 1), (mapped, ("float32", "float64"), 2), (summed, ("float64",), 1), (in_place, ("f4",), 1),
])
def test_arrays_of_many_sizes_take_one_launch_a_dtype(function: Function, dtypes: Any, count: int) -> None:
    found = arrays((5, 100, 7, 4097, 30_000, 9, 9, 1000), *dtypes)
    assert launches(jf.fuse(function), found) == count


def test_kernels_of_many_arrays_hold_all_that_belongs_to_one() -> None:
    """However many kernels come between the values of one array."""
    def moved(ps: Any, ms: Any, vs: Any, gs: Any) -> None:
        for p, m, v, g in zip(ps, ms, vs, gs, strict=True):
            m[...] = 0.9 * m + 0.1 * g
            v[...] = 0.99 * v + 0.01 * g * g
            p -= 0.1 * m / (np.sqrt(v) + 1e-3)

    wanted = [[np.abs(x) for x in arrays((9, 100) * 20, "float64")] for _ in range(4)]
    found = [[x.copy() for x in xs] for xs in wanted]
    fused = jf.fuse(moved)
    assert launches(fused, *found) == 1
    for _ in range(2):
        moved(*wanted)
    for a, b in zip(chain(*wanted), chain(*found), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


def test_many_arrays_are_as_few_launches_as_one() -> None:
    few, many = (jf.fuse(clipped) for _ in range(2))
    assert launches(many, arrays((500,) * 60, "float32")) <= launches(few, arrays((500,), "float32")) + 2


def test_a_call_reads_new_arrays_and_aliases() -> None:
    """The addresses of a batch are those of each call, also where an array comes twice."""
    fused = jf.fuse(mapped)
    for _ in range(3):
        xs = arrays((100, 100, 100), "float64")
        for given in (xs, [xs[0], xs[1], xs[0]], [xs[2]] * 3):
            for w, f in zip(mapped(given), fused(given), strict=True):
                np.testing.assert_allclose(f, w, rtol=1e-12)


def test_overlapping_arrays_are_written_as_by_numpy() -> None:
    fused, ends = jf.fuse(in_place), []
    for function in (in_place, fused, fused):
        memory = np.arange(40.0)
        function([memory[:20], memory[20:]])
        with warnings.catch_warnings(action="ignore", category=FallbackWarning):
            function([memory[:20], memory[10:30]])
        ends.append(memory)
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_nothing_is_written_before_what_may_raise() -> None:
    """Kernels of one form before and after an index that is checked: no argument moves."""
    def function(x: Any, y: Any, z: Any, index: Any) -> Any:
        kept = x * 2 + 1
        picked = z[index]
        y[...] = y * 2 + 1
        return kept, picked

    fused = jf.fuse(function)
    x, y, z = arrays((1000, 1000, 3), "float64")
    was = y.copy()
    for _ in range(3):
        with pytest.raises(IndexError):
            fused(x, y, z, np.array([5]))
        np.testing.assert_array_equal(y, was)
    kept, picked = fused(x, y, z, np.array([2]))
    np.testing.assert_allclose(y, was * 2 + 1)
    np.testing.assert_allclose(kept, x * 2 + 1)
    assert picked == z[2]


def test_large_values_are_not_held_for_a_batch(plan_of: PlanOf) -> None:
    """Sorted one after the other: the products are not in memory at one time."""
    def function(xs: Any) -> Any:
        return sum(np.sort(x * 2).sum() for x in xs)

    plan = plan_of(function, [np.ones(100_000) for _ in range(8)])
    assert plan.best().arena_bytes == plan.replace(batches=False).best().arena_bytes
    small = plan_of(function, [np.ones(1000) for _ in range(8)]).best()
    assert sum(launch.batched for launch in small.launches) >= 7


def test_memory_is_not_shared_within_a_batch(plan_of: PlanOf) -> None:
    """What the kernels of a batch touch in the arena lies apart, as far as one of them writes it."""
    plan = plan_of(chained, [np.ones(1000) for _ in range(6)]).best()
    batches: list[list[Any]] = []
    for step in plan.steps:
        if isinstance(step, HostCall) or not step.batched:
            batches.append([])
        if not isinstance(step, HostCall):
            batches[-1].append(step)
    assert any(len(batch) > 1 for batch in batches)
    for batch in batches:
        written = [b for one in batch for (b, _), o in zip(one.buffers, one.form.operands, strict=True) if o.out]
        spans = {b: (plan.offsets[b], plan.offsets[b] + plan.sizes[b])
                 for one in batch for b, _ in one.buffers if b in plan.offsets}
        for w in written:
            for b, (low, high) in spans.items():
                assert b == w or w not in spans or high <= spans[w][0] or spans[w][1] <= low


def test_bodies_of_loops_run_step_by_step() -> None:
    def function(x: Any, y: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            a, b = carry
            return b * 2 + 1, a * 2 + 1

        return jf.fori_loop(0, 5, body, (x, y))

    x, y = arrays((50, 50), "float64")
    fused = jf.fuse(function)
    a, b = x, y
    for _ in range(5):
        a, b = b * 2 + 1, a * 2 + 1
    for _ in range(3):
        for w, f in zip((a, b), fused(x, y), strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-12)


def test_stored_plans_and_reports_have_batches() -> None:
    xs = arrays((50, 60, 70), "float64")
    fused = jf.fuse(mapped)
    fused(xs)
    assert str(fused.explain(xs)).count("in one launch with the kernel before") == 2
    plan = fused.parts.specs[0].plans[False].call
    assert plan.launches == 1 and decode(encode(plan, ()), ()) == plan
