"""`jf.fori_loop` and `jf.scan` whose loops run in kernels: bounds, counters, windows of scanned arrays, interrupts."""
from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.compile import interface as compiler

X = np.random.default_rng(1).random((40, 3))


@pytest.fixture(params=[False, True], ids=["native", "from Python"])
def direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(compiler, "runtime_is_ready", lambda *_: False)
        monkeypatch.setattr(compiler, "build_runtime", lambda: None)


def swept(fused: Any) -> int:
    """Return how many of a function's kernels run loops."""
    plans = [plan for spec in fused.parts.specs for plan in spec.plans.values()]
    return sum(form.sweep is not None for plan in plans for form in plan.forms)


def check(fn: Any, reference: Any, *args: Any, kernels: int | None = 1) -> None:
    fused = jf.fuse(fn)
    for _ in range(3):
        got, want = fused(*args), reference(*args)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
    assert kernels is None or swept(fused) == kernels


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (0, 500), (-7, 4), (5, -5), (2**40, 2**40 + 3)])
def test_numbers_of_a_counted_loop(bounds: tuple[int, int]) -> None:
    def fn(low: int, high: int, x: Any) -> Any:
        return jf.fori_loop(low, high, lambda i, c: (c[0] * 0.5 + i * x[0, 0], c[0] - c[1]), (x[1, 0], x[1, 1]))

    def reference(low: int, high: int, x: Any) -> Any:
        a, b = x[1, 0], x[1, 1]
        for i in range(low, high):
            a, b = a * 0.5 + i * x[0, 0], a - b
        return a, b

    check(fn, reference, *bounds, X)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_vector_and_a_number_of_a_counted_loop(count: int) -> None:
    def fn(n: int, x: Any) -> Any:
        return jf.fori_loop(0, n, lambda i, c: (c[0] * 0.5 + x[i], c[1] * 0.5 + i), (x[0], 1.0))

    def reference(n: int, x: Any) -> Any:
        v, s = x[0].copy(), 1.0
        for i in range(n):
            v, s = v * 0.5 + x[i], s * 0.5 + i
        return v, s

    check(fn, reference, count, X, kernels=None)


@pytest.mark.usefixtures("direct")
def test_writes_at_the_counter() -> None:
    def fn(x: Any) -> Any:
        def body(i: Any, carried: Any) -> Any:
            y, total = carried
            y[i] = total
            return y, total * 0.5 + x[i, 0]

        return jf.fori_loop(0, len(x), body, (np.zeros(len(x)), 0.25))

    def reference(x: Any) -> Any:
        y, total = np.zeros(len(x)), 0.25
        for i in range(len(x)):
            y[i] = total
            total = total * 0.5 + x[i, 0]
        return y, total

    check(fn, reference, X, kernels=None)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("view", ["x", "x[::-1]", "x[::2]", "x[:1]", "x[:0]", "x[:2]", "x[:, 0]", "x[::-3, 1]", "x.T",
                                  "x.astype('f4')", "x.view('i4')[:, ::2]", "np.broadcast_to(x[0], (5, 3))"])
def test_parts_of_a_scanned_array(view: str, reverse: bool) -> None:
    x = eval(view, {"x": X, "np": np})

    def fn(x: Any) -> Any:
        return jf.scan(lambda c, v: (c * 0.5 + v, c - v), x[0] if len(x) else x.sum(axis=0), x, reverse=reverse)

    def reference(x: Any) -> Any:
        c, out = x[0] if len(x) else x.sum(axis=0), np.zeros_like(x, (x[:1] * 0.5).dtype)
        for k in reversed(range(len(x))) if reverse else range(len(x)):
            out[k] = c - x[k]
            c = c * 0.5 + x[k]
        return c, out

    fused = jf.fuse(fn)
    for _ in range(3):
        try:
            got = fused(x)
        except jf.JitfuseError:  # of integers that become floats
            assert x.dtype.kind == "i"
            return
        for a, b in zip(got, reference(x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_long_loop_is_interrupted() -> None:
    fn = jf.fuse(lambda n, x: jf.fori_loop(0, n, lambda i, a: a * 0.5 + i * x[0, 0], 1.0))
    assert fn(1000, X) == fn(1000, X)
    assert swept(fn) == 1

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        begin = time.process_time()
        with pytest.raises(TimeoutError):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            fn(10**12, X)
        assert time.process_time() - begin < 300  # it would take half an hour
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_values_that_stay_change_places_or_are_not_read(count: int) -> None:
    def fn(x: Any, n: int) -> Any:
        same = jf.fori_loop(0, n, lambda i, c: (c[0], c[1] * 0.5 + i), (x, 0.0))
        swapped = jf.fori_loop(0, n, lambda i, c: (c[1], c[0]), (x[0], 2.0))
        shifted = jf.fori_loop(0, n, lambda i, c: (i * 1.0, c[0]), (x[0], 2.0))
        last = jf.scan(lambda c, v: ((c[0], v, c[1] * 0.5), c[1]), (x, 0.25, 0.5), x[:n])
        return *same, *swapped, *shifted, *last[0], last[1]

    def reference(x: Any, n: int) -> Any:
        total, a, b, c, d, e, f, stack = 0.0, x[0], 2.0, x[0], 2.0, 0.25, 0.5, []
        for i in range(n):
            stack.append(e)
            total, a, b, c, d, e, f = total * 0.5 + i, b, a, i * 1.0, c, x[i], e * 0.5
        return x, total, a, b, c, d, x, e, f, np.array(stack)

    check(fn, reference, X[:, 0].copy(), count, kernels=None)
