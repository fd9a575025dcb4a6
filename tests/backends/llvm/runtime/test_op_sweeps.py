"""Loops in a plan's ops: jumps backwards, values that move, late outputs, signals, the GIL."""
from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from single_plans import refuse

from jitfuse.backends.llvm.runtime.plan_table import SweptLaunch
from jitfuse.backends.llvm.runtime.tables import (
    ARENA,
    ArrayResult,
    EntryBuilder,
    HostStepArray,
    ObjectResult,
    PlanBuilder,
    ScalarResult,
    StateBlock,
)


def function(
    harness: Any, build: Callable[[PlanBuilder, list[int]], Any], arguments: int = 2, handler: Any = refuse
) -> tuple[Any, StateBlock]:
    """Return a function of int64 arrays of one element; `build` fills the plan for their values."""
    b = EntryBuilder(arguments, handler=handler)
    values = [b.guard_array(b.argument(k), "int64", (1,)) for k in range(arguments)]
    entry = b.build()
    plan = entry.plan_builder()
    build(plan, values)
    entry.set_plan(training=False, plan=plan.build())
    state = StateBlock(refuse)
    state.prepend(entry)
    return harness.attach(state), state


def counted(p: PlanBuilder, body: Callable[[], Any], low: int, high: int) -> None:
    """Run a body for the integers between two values; the present one lies at the arena's begin."""
    p.arena(64)
    again, test = p.label(), p.label()
    p.copy((ARENA, 0), (low, 0), 8)
    p.jump(test)
    p.place(again)
    body()
    p.count(ARENA, 1)
    p.place(test)
    p.branch_less((ARENA, 0), (high, 0), again)


def one(number: int) -> np.ndarray:
    return np.array([number], np.int64)


@pytest.mark.parametrize("bounds", [(0, 0), (3, 3), (4, -4), (-2, 5), (0, 5000)])
def test_a_counted_loop(harness: Any, bounds: tuple[int, int]) -> None:
    def build(p: PlanBuilder, values: list[int]) -> None:
        out = p.output("int64", (1,))
        p.copy((out.value, 0), (values[0], 0), 8)
        counted(p, lambda: p.launch(harness.kernel("increment"), 1, operands=[(out.value, 0)]), *values)
        p.finish(ArrayResult(out))

    f, state = function(harness, build)
    low, high = bounds
    for _ in range(3):
        assert f(one(low), one(high)) == max(low, high)
    assert state.launches == 3 * max(high - low, 0)


def test_values_move_and_change_places(harness: Any) -> None:
    """The rows of a table are filled by one launch that moves; two values that change places take turns."""
    def build(p: PlanBuilder, values: list[int]) -> None:
        table, turns = p.output("int64", (10,)), p.output("int64", (2,))
        row, a, b = p.value(), p.value(), p.value()
        p.move([(row, table.value, 0), (a, turns.value, 0), (b, turns.value, 8)])
        p.copy((a, 0), (values[0], 0), 8)
        p.copy((b, 0), (values[0], 0), 8)

        def body() -> None:
            p.copy((row, 0), (ARENA, 0), 8)
            p.launch(harness.kernel("increment"), 1, operands=[(a, 0)])
            p.swap([(a, b)])
            p.move([(row, row, 8)])

        counted(p, body, *values)
        p.finish(TupleOf(table, turns))

    f, _ = function(harness, build)
    table, turns = f(one(0), one(10))
    assert table.tolist() == list(range(10)) and turns.tolist() == [5, 5]
    assert f(one(3), one(10))[1].tolist() == [7, 6]


def bounds(p: PlanBuilder, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Have the numbers -3 and `count` - 3 in the arena; return where."""
    p.arena(16)
    literals = np.array([-3, count - 3])

    def fill(numbers: np.ndarray) -> None:
        numbers[...] = literals

    p.host(fill, [HostStepArray(ARENA, "int64", (2,), writeable=True)])
    return (ARENA, 0), (ARENA, 8)


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("count", [-9, 0, 1, 2, 7])
def test_launches_of_a_loop_count_its_iterations(harness: Any, begin: int, count: int) -> None:
    """Two launches by turns: one over the rows of a table, one over two places; others go back, or stay."""
    def build(p: PlanBuilder, values: list[int]) -> None:
        table, turns = p.output("int64", (40,)), p.output("int64", (3,))
        for k in range(40):
            p.copy((table.value, 8 * k), (values[0], 0), 8)
        for k in range(3):
            p.copy((turns.value, 8 * k), (values[0], 0), 8)
        climb, place = harness.kernel("climb"), (turns.value, 0)
        p.sweep(begin, *bounds(p, begin + count), 1, [
            SweptLaunch(climb, 2, 1, [(table.value, 0)], {}, [8]),
            SweptLaunch(climb, 1, 2, [place], {0: (turns.value, 8)}, [0]),
            SweptLaunch(climb, 1, 3, [(table.value, 39 * 8)], {}, [-8 & (1 << 64) - 1]),
            SweptLaunch(climb, 1, 4, [(turns.value, 16)], {}, [0]),
        ])
        p.finish(TupleOf(table, turns))

    f, state = function(harness, build, 1)
    for _ in range(2):
        table, turns = f(one(5))
        want, ran = np.full(40, 5), max(count, 0)
        want[2 * begin : 2 * (begin + ran)] += 1
        want[::-1][begin : begin + ran] += 1
        assert table.tolist() == want.tolist()
        assert turns.tolist() == [5 + (ran + 1) // 2, 5 + ran // 2, 5 + ran]
    assert state.launches == 8 * ran


@pytest.mark.parametrize("piece", [1, 3, 7, 8])
def test_iterations_are_launched_in_pieces(harness: Any, piece: int) -> None:
    def build(p: PlanBuilder, values: list[int]) -> None:
        table = p.output("int64", (10,))
        for k in range(10):
            p.copy((table.value, 8 * k), (values[0], 0), 8)
        p.sweep(1, *bounds(p, 8), piece, [SweptLaunch(harness.kernel("climb"), 1, 1, [(table.value, 0)], {}, [8])])
        p.finish(ArrayResult(table))

    f, state = function(harness, build, 1)
    assert f(one(3)).tolist() == [3, *[4] * 7, 3, 3]
    assert state.launches == -(-7 // piece)


def test_a_status_ends_launches_that_are_repeated(harness: Any) -> None:
    seen: list[Any] = []

    def handler(site: int, status: int) -> None:
        seen.append((site, status))
        raise ArithmeticError("status")

    def build(p: PlanBuilder, values: list[int]) -> None:
        out = p.output("int64", (8,))
        for k in range(8):
            p.copy((out.value, 8 * k), (values[k == 5], 0), 8)
        p.sweep(0, *bounds(p, 8), 1, [SweptLaunch(harness.kernel("statuses"), 1, 9, [(out.value, 0)], {}, [])])
        p.finish(ArrayResult(out))

    f, _ = function(harness, build, 2, handler)
    assert f(one(0), one(0)).tolist() == [0] * 8
    with pytest.raises(ArithmeticError):
        f(one(0), one(4))
    assert seen == [(9, 4)]


def TupleOf(*outputs: Any) -> Any:
    from jitfuse.backends.llvm.runtime.tables import TupleResult

    return TupleResult(tuple(ArrayResult(o) for o in outputs))


def test_a_host_step_in_a_loop_ends_it(harness: Any) -> None:
    def build(p: PlanBuilder, values: list[int]) -> None:
        again, done = p.label(), p.label()
        p.arena(64)
        p.copy((ARENA, 0), (values[0], 0), 8)
        place = p.value()
        p.move([(place, ARENA, 0)])

        def step(n: np.ndarray, more: np.ndarray) -> None:
            n[...] -= 1
            more[...] = n > 0
            if n == 13:
                raise ArithmeticError("thirteen")

        p.place(again)
        p.host(step, [HostStepArray(place, "int64", (), writeable=True),
                      HostStepArray(ARENA, "bool", (), offset=8, writeable=True)])
        p.branch(ARENA, done, offset=8, wanted=False)
        p.jump(again)
        p.place(done)
        p.finish(ScalarResult(ARENA, "int64"))

    f, _ = function(harness, build, 1)
    gc.collect()
    live = harness.live_bytes()
    assert f(one(12)) == 0
    with pytest.raises(ArithmeticError, match="thirteen"):
        f(one(100))
    gc.collect()
    assert harness.live_bytes() == live


def test_a_status_ends_a_loop_without_the_gil(harness: Any) -> None:
    class StatusError(Exception):
        pass

    def handler(site: int, code: int) -> Any:
        raise StatusError(site, code)

    def build(p: PlanBuilder, values: list[int]) -> None:
        p.arena(128)
        kernel = harness.kernel
        counted(p, lambda: p.launch(kernel("through_scratch"), 8, operands=[(ARENA, 64)], scratch=8), *values)
        p.copy((ARENA, 8), (values[1], 0), 8)
        p.launch(kernel("status"), 1, operands=[(ARENA, 8)], site=5)
        p.finish(ObjectResult("done"))

    f, _ = function(harness, build, handler=handler)
    assert f(one(-1), one(0)) == "done"
    with pytest.raises(StatusError) as caught:
        f(one(0), one(300_000))
    assert caught.value.args == (5, 300_000)


def endless(p: PlanBuilder, values: list[int]) -> None:
    again = p.label()
    p.place(again)
    p.copy((ARENA, 0), (values[0], 0), 8)
    p.arena(64)
    p.branch(values[0], again)
    p.finish(ObjectResult("ended"))


def test_a_signal_ends_an_endless_loop(harness: Any) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    f, _ = function(harness, endless, 1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        assert f(one(0)) == "ended"
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            f(one(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_beside_a_long_loop(harness: Any) -> None:
    f, _ = function(harness, endless, 1)
    more = one(1)

    def stop() -> None:
        time.sleep(0.02)
        more[0] = 0

    thread = threading.Thread(target=stop)
    thread.start()
    assert f(more) == "ended"
    thread.join()


def test_late_outputs_are_there_where_they_are_allocated(harness: Any) -> None:
    def build(p: PlanBuilder, values: list[int]) -> None:
        small, large = p.output("int64", (1,), late=True), p.output("int64", (100_000,), late=True)
        other = p.label()
        p.branch(values[0], other, wanted=False)
        p.allocate(small)
        p.allocate(small)
        p.copy((small.value, 0), (values[0], 0), 8)
        p.finish(ArrayResult(small))
        p.place(other)
        p.allocate(large)
        p.launch(harness.kernel("through_scratch"), 100_000, operands=[(large.value, 0)], scratch=8)
        p.finish(ArrayResult(large))

    f, _ = function(harness, build, 1)
    gc.collect()
    live = harness.live_bytes()
    assert f(one(7)).tolist() == [7]
    assert np.array_equal(f(one(0)), np.arange(100_000))
    gc.collect()
    assert harness.live_bytes() == live
