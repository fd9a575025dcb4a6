"""Plans through the real driver: whole programs, recursion, threads, every way in which a call can end."""
from __future__ import annotations

import contextvars
import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
from amount import drawn
from single_plans import StatusError, refuse, single, single_entry

from jitfuse.backends.llvm.runtime.tables import (
    ARENA,
    ArrayResult,
    DictResult,
    EntryBuilder,
    HostStepArray,
    NativeEntry,
    ObjectResult,
    Plan,
    PlanBuilder,
    ScalarResult,
    SlotResult,
    StateBlock,
)


class Counter:
    """State in its own storage, found through an attribute."""

    def __init__(self) -> None:
        self.value = np.zeros(1, np.int64)


class WholeProgram:
    """A program with a host step, a status, an observed value, an argument write and a state update.

    x is a float64 vector whose first 8 bytes of `codes` decide whether the status kernel fails. In NumPy:

        total = x.sum()
        if codes[0]: raise StatusError
        ordered = np.sort(x)                               # host
        out = ordered * factor if total > 0 else ordered * -factor     # observed
        x *= 0.5 (in place);  if training: counter += 1
        return {"out": out, "total": total, "x": x}
    """

    N = 16
    NBYTES = 8 * N

    def __init__(self, harness: Any) -> None:
        self.harness = harness
        self.counter = Counter()
        self.fail_host = False
        self.state = StateBlock(refuse)
        self.half = np.array([0.5])
        self.negative = np.array([-1.0])
        self.entry = self.make_entry()
        for training in (False, True):
            self.entry.set_plan(training=training, plan=self.make_plan(training))
        self.state.prepend(self.entry)
        self.f = harness.attach(self.state)

    def make_entry(self) -> NativeEntry:
        b = EntryBuilder(3, handler=self.handle)
        self.x = b.guard_array(b.argument(0), "float64", (self.N,), writeable=True)
        self.codes = b.guard_array(b.argument(1), "int64", (1,))
        b.guard_disjoint({self.x: (0, self.NBYTES)}, {self.codes: (0, 8)})
        self.factor = b.guard_float(b.argument(2))
        storage = b.attribute(b.constant(self.counter), "value")
        self.count = b.guard_array(storage, "int64", (1,), writeable=True)
        return b.build()

    def make_plan(self, training: bool) -> Plan:
        kernel, p = self.harness.kernel, self.entry.plan_builder()
        p.arena(64 + 2 * self.NBYTES)
        out = p.output("float64", (self.N,))
        p.launch(kernel("sum"), 1, operands=[(ARENA, 0), (self.x, 0)], words=[self.N])
        p.launch(kernel("status"), 1, operands=[(self.codes, 0)], site=7)
        p.host(self.sort, [HostStepArray(self.x, "float64", (self.N,), slot=0),
                           HostStepArray(ARENA, "float64", (self.N,), offset=64, writeable=True)])
        positive = p.label()
        p.observe(ARENA, "bool", [(True, positive)], offset=8)
        for case in (False, True):
            if case:
                p.place(positive)
            operands = [(out.value, 0), (ARENA, 64), (self.factor, 0)]
            p.launch(kernel("scale"), self.N, operands=operands)
            if not case:
                operands = [(out.value, 0), (out.value, 0)]
                p.launch(kernel("scale"), self.N, operands=operands, words=[self.negative.ctypes.data])
            self.finish(p, out, training)
        return p.build()

    def finish(self, p: PlanBuilder, out: Any, training: bool) -> None:
        kernel = self.harness.kernel
        p.launch(kernel("scale"), self.N, operands=[(self.x, 0), (self.x, 0)], words=[self.half.ctypes.data])
        if training:
            p.launch(kernel("increment"), 1, operands=[(self.count, 0)])
        p.finish(DictResult(("out", "total", "x"), (
            ArrayResult(out), ScalarResult(ARENA, "float64"), SlotResult(0))))

    def sort(self, x: np.ndarray, out: np.ndarray) -> None:
        assert not x.flags.writeable
        if self.fail_host:
            raise ArithmeticError("host step")
        out[:] = np.sort(x)

    def handle(self, site: int, status: int) -> NoReturn:
        raise StatusError(site, status)


def test_one_program_through_the_whole_convention(harness: Any) -> None:
    gc.collect()
    live = harness.live_bytes()
    program = WholeProgram(harness)
    f, rng = program.f, np.random.default_rng(1)
    fine, failing = np.zeros(1, np.int64), np.array([2])
    trained = 0
    for iteration in range(200):
        sign, training = (-1) ** (iteration // 2), bool(iteration % 3)
        x = rng.random(program.N) * sign
        before, factor = x.copy(), float(rng.random())
        if iteration % 5 == 4:
            with pytest.raises(StatusError) as caught:
                f(x, failing, factor, training=training)
            assert caught.value.args == (7, 2)
            assert np.array_equal(x, before)
            continue
        if iteration % 7 == 6:
            program.fail_host = True
            with pytest.raises(ArithmeticError, match="host step"):
                f(x, fine, factor, training=training)
            program.fail_host = False
            assert np.array_equal(x, before)
            continue
        result = f(x, fine, factor, training=training)
        trained += training
        assert list(result) == ["out", "total", "x"] and result["x"] is x
        assert np.array_equal(result["out"], np.sort(before) * factor * (1 if sign > 0 else -1))
        assert result["total"] == np.cumsum(before)[-1] and type(result["total"]) is np.float64
        assert np.array_equal(x, before * 0.5)
        assert program.counter.value[0] == trained
    assert program.state.misses == 0
    with pytest.raises(RuntimeError, match="unexpected"):
        f(x, x[:1].view(np.int64), 1.0)  # overlaps what is written
    del result, caught
    gc.collect()
    assert harness.live_bytes() == live


def test_recursion_and_reentrancy(harness: Any) -> None:
    """A host step calls the same function, which is itself in a host step, many frames deep."""
    depth = 200

    def host(x: np.ndarray) -> None:
        if x[0] > 0:
            inner = np.array([x[0] - 1])
            assert f(inner) == x[0] - 1
            x[0] = inner[0] + 1

    def build(p: PlanBuilder, value: int) -> None:
        p.arena(64)
        p.launch(harness.kernel("copy"), 1, operands=[(ARENA, 0), (value, 0)], words=[8])
        p.host(host, [HostStepArray(value, "int64", (1,), slot=0, writeable=True)])
        p.finish(ScalarResult(ARENA, "int64"))

    f = single(harness, build)
    x = np.array([depth])
    assert f(x) == depth and x[0] == depth
    with pytest.raises(RecursionError):
        f(np.array([10**6]))


def test_a_handler_may_call_the_function_and_extend_it(harness: Any) -> None:
    """An entry that the handler prepends takes over from the next call on."""
    state = StateBlock(refuse)

    def finish(p: PlanBuilder, value: int) -> None:
        p.launch(harness.kernel("status"), 1, operands=[(value, 0)])
        p.finish(ObjectResult("old"))

    def handler(site: int, code: int) -> NoReturn:
        assert f(np.array([0])) == "old"
        state.prepend(single_entry(lambda p, v: p.finish(ObjectResult("new"))))
        assert f(np.array([0])) == "new"
        raise StatusError

    state.prepend(single_entry(finish, handler=handler))
    f = harness.attach(state)
    with pytest.raises(StatusError):
        f(np.array([4]))
    assert f(np.array([4])) == "new"
    assert len(state.entries) == 2


def test_out_of_memory_is_an_exception(harness: Any) -> None:
    def build(p: PlanBuilder, value: int) -> None:
        p.arena(1 << 20)
        p.output("int64", (4,))
        p.output("int64", (1 << 58,))
        p.finish(ObjectResult(1))

    gc.collect()
    live = harness.live_bytes()
    f = single(harness, build)
    with pytest.raises(MemoryError):
        f(np.zeros(1, np.int64))

    def with_scratch(p: PlanBuilder, value: int) -> None:
        p.launch(harness.kernel("through_scratch"), 1, operands=[(value, 0)], scratch=1 << 60)
        p.finish(ObjectResult(1))

    with pytest.raises(MemoryError):
        single(harness, with_scratch)(np.zeros(1, np.int64))
    assert harness.live_bytes() == live


@pytest.mark.usefixtures("still")
def test_large_frames(harness: Any) -> None:
    """Hundreds of arguments, guards and launch words: the frame leaves the stack."""
    n = 400
    b = EntryBuilder(n, handler=refuse)
    values = [b.guard_array(b.argument(i), "int64", (1,)) for i in range(n)]
    entry = b.build()
    p = entry.plan_builder()
    outs = [p.output("int64", (1,)) for _ in range(n)]
    for value, out in zip(values, outs):
        p.launch(harness.kernel("copy"), 1, operands=[(out.value, 0), (value, 0)], words=[8, *[0] * 1000])
    p.finish(DictResult(tuple(range(n)), tuple(ArrayResult(o) for o in outs)))
    entry.set_plan(training=False, plan=p.build())
    state = StateBlock(lambda self, *args: "miss")
    state.prepend(entry)
    f = harness.attach(state)
    arguments = [np.array([i]) for i in range(n)]
    assert {k: int(v[0]) for k, v in f(*arguments).items()} == {i: i for i in range(n)}
    assert f(*arguments[:-1], 3) == "miss"
    assert state.launches == n
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(50):
        f(*arguments)
    assert tracemalloc.get_traced_memory()[0] - start < 20_000
    tracemalloc.stop()


def test_many_python_threads(harness: Any) -> None:
    """32 threads call one function whose launches drop the GIL, while entries are prepended."""
    n, per_thread = 1000, drawn(100)
    state, errors = StateBlock(refuse), []

    def add_entry(bound: float) -> None:
        b = EntryBuilder(2, handler=refuse)
        x = b.guard_array(b.argument(0), "float32", (n,))
        y = b.guard_array(b.argument(1), "float32", (n,))
        entry = b.build()
        p = entry.plan_builder()
        out = p.output("float32", (n,))
        p.launch(harness.kernel("add"), n, operands=[(out.value, 0), (x, 0), (y, 0)], threads=0, gil=True)
        p.finish(ArrayResult(out))
        entry.set_plan(training=False, plan=p.build())
        state.prepend(entry)

    add_entry(0)
    f = harness.attach(state)

    def work(seed: int) -> None:
        x, y = (np.full(n, seed + k, np.float32) for k in range(2))
        for _ in range(per_thread):
            result = f(x, y)
            if not (result == 2 * seed + 1).all():
                errors.append((seed, result[0]))

    gc.collect()
    live = harness.live_bytes()
    in_this = [contextvars.copy_context() for _ in range(32)]  # a test before may have set another NumPy error state
    threads = [threading.Thread(target=context.run, args=(work, i)) for i, context in enumerate(in_this)]
    for t in threads:
        t.start()
    for _ in range(20):
        add_entry(0)
    for t in threads:
        t.join()
    assert not errors
    assert state.launches == 32 * per_thread
    assert harness.live_bytes() == live


def test_no_way_out_leaks(harness: Any) -> None:
    """Statuses, host steps that work, raise or cannot get their arrays: 1,000 times each."""
    returned = object()

    def handler(site: int, status: int) -> Any:
        if site == 1:
            return returned
        raise StatusError

    def failing(*arrays: Any) -> None:
        raise ArithmeticError

    def status(p: PlanBuilder, value: int, site: int) -> None:
        p.launch(harness.kernel("status"), 1, operands=[(value, 0)], site=site)
        p.finish(ObjectResult(0))

    def host(p: PlanBuilder, value: int, function: Any, *shapes: tuple[int, ...]) -> None:
        p.arena(64)
        arrays = [HostStepArray(ARENA, "int64", s, (0,) * len(s)) for s in ((2,), *shapes)]
        p.host(function, [*arrays, HostStepArray(value, "int64", (1,), slot=0)])
        p.finish(ObjectResult(0))

    ways: list[tuple[Callable[[PlanBuilder, int], None], Any]] = [
        (lambda p, v: status(p, v, 0), StatusError),
        (lambda p, v: status(p, v, 1), RuntimeError),  # of the miss handler
        (lambda p, v: host(p, v, lambda *arrays: returned), None),
        (lambda p, v: host(p, v, failing), ArithmeticError),
        (lambda p, v: host(p, v, failing, (2**40, 2**40)), ValueError),
    ]
    x = np.array([1])
    for build, outcome in ways:
        f = single(harness, build, handler=handler)

        def repeat(f: Any, n: int, outcome: Any = outcome) -> None:
            for _ in range(n):
                if isinstance(outcome, type):
                    try:
                        f(x)
                    except outcome:
                        continue
                    raise AssertionError("no exception")
                assert f(x) == 0

        repeat(f, 10)
        gc.collect()
        watched: tuple[Any, ...] = (True, None, returned, handler, x, failing, harness.runtime.memory_handler)
        before, live = [sys.getrefcount(w) for w in watched], harness.live_bytes()
        blocks = sys.getallocatedblocks()
        repeat(f, 1000)
        after = [sys.getrefcount(w) for w in watched]
        assert max(abs(a - c) for a, c in zip(after, before)) < 20, (outcome, before, after)
        assert harness.live_bytes() == live and sys.getallocatedblocks() - blocks < 100, outcome
