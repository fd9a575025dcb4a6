"""Loops and branches in the native driver: where values lie, how calls end, and what runs beside them.

What loops compute is compared in test_control_flow.py, of which the cases here take the places that could go wrong.
"""
from __future__ import annotations

import gc
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from oracle import same

import jitfuse as jf
from jitfuse.backends.llvm.runtime.native import runtime
from jitfuse.errors import BoundsError

X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def native() -> None:
    """Have the runtime there from the first call on."""
    runtime().accept_error_state()


def check(fn: Any, *args: Any) -> Any:
    """Compare native calls with a plain run, bit by bit."""
    want = fn(*args)
    fused = jf.fuse(fn)
    fused(*args)
    fused(*args)
    misses = fused.parts.entries.misses
    for _ in range(3):
        got = fused(*args)
        same(got, want)
    assert fused.parts.entries.misses == misses, "calls ran through Python"
    return fused


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
def test_where_carried_values_lie(n: int) -> None:
    def fn(x: Any, n: int) -> Any:
        def body(i: Any, c: Any) -> Any:
            a, b, t, _, _, fixed = c
            wide = np.concatenate([a, b]) * 0.5
            return b, a + i, t.T + 1, wide[:3], wide[3:], fixed

        square = x[:, :3] + 0
        return jf.fori_loop(0, n, body, (x, x * 2, square, x + 0, x - 1, x))

    check(fn, X, n)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_one_value_carried_more_than_once(n: int) -> None:
    def fn(x: Any, n: int) -> Any:
        return jf.fori_loop(0, n, lambda i, c: (c[1] * 0.5, c[1] * 0.5, c[2], c[1] * 0.5 + c[0]), (x, x + 1, x, x))

    check(fn, X, n)


def test_operands_that_lie_apart() -> None:
    def fn(x: Any) -> Any:
        total, rows = jf.scan(lambda c, v: (c + v, c * v), x[::-1, 0], x.T[:, ::-1])
        return total, rows, jf.fori_loop(0, 3, lambda i, c: c + x.T[1], x[:, ::2][:, 0])

    check(fn, X)
    check(fn, np.asfortranarray(X))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_stacks_of_what_is_carried_and_of_views(n: int, reverse: bool) -> None:
    def fn(x: Any) -> Any:
        def body(c: Any, v: Any) -> Any:
            new = c * 0.5 + v
            return new, (new, c, new.T, np.concatenate([new, v])[1:3], v, new)

        last, made = jf.scan(body, np.zeros((4, 4)), x, reverse=reverse)
        return last, *made

    check(fn, np.arange(n * 16.0).reshape(n, 4, 4))


def test_loops_in_branches_in_loops_with_library_steps() -> None:
    def fn(x: Any, n: int) -> Any:
        def outer(i: Any, c: Any) -> Any:
            def inner(s: Any) -> Any:
                return np.sort(s[0] * -0.5) + i, s[1] + 1

            return jf.cond((i % 2) == 0, lambda: jf.while_loop(lambda s: s[1] < i, inner, (c, 0))[0],
                           lambda: jf.fori_loop(0, i, lambda k, v: v @ x.T @ x * 0.01 + k, c))

        return jf.fori_loop(0, n, outer, x)

    for n in (0, 1, 6):
        check(fn, X, n)


def test_an_error_in_a_loop_ends_the_call_and_leaks_nothing() -> None:
    def fn(x: Any, n: int) -> Any:
        return jf.fori_loop(0, n, lambda i, c: c + x[i], np.zeros(4))

    fused = check(fn, X, 3)
    gc.collect()
    live = runtime().memory_statistics()["live_bytes"]
    for _ in range(20):
        with pytest.raises(BoundsError, match="index 3 is out of bounds"):
            fused(X, 1000)
    gc.collect()
    assert runtime().memory_statistics()["live_bytes"] == live
    np.testing.assert_array_equal(fused(X, 3), fn(X, 3))


def test_an_exception_of_a_library_step_in_a_loop() -> None:
    def fn(x: Any, n: int) -> Any:
        return jf.fori_loop(0, n, lambda i, c: np.linalg.inv(c - i * np.eye(3)), x)

    good = np.diag([2.0, 3.0, 0.5])
    fused = check(fn, good, 1)
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            fused(np.diag([1.0, 3.0, 0.5]), 2)
    np.testing.assert_array_equal(fused(good, 1), fn(good, 1))


def test_an_endless_loop_can_be_interrupted() -> None:
    @jf.fuse
    def forever(x: Any) -> Any:
        return jf.while_loop(lambda s: s < 10, lambda s: s * 1, x)

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        assert forever(np.float64(10)) == 10
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                forever(np.float64(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert forever(np.float64(11)) == 11


def test_threads_run_one_loop_at_once() -> None:
    @jf.fuse
    def fn(x: Any, n: int) -> Any:
        return jf.fori_loop(0, n, lambda i, c: (c[0] * 0.5 + x, c[1] + c[0].sum()), (x, 0.0))

    fn(X, 3)
    want = {k: fn(X * k, 20_000 + k) for k in range(4)}
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda k: fn(X * (k % 4), 20_000 + k % 4), range(32))
        for k, got in enumerate(made):
            np.testing.assert_array_equal(got[0], want[k % 4][0])
            assert got[1] == want[k % 4][1]


def test_python_goes_on_beside_a_long_loop() -> None:
    stop = np.array([0.0])

    @jf.fuse
    def wait(flag: Any) -> Any:
        return jf.while_loop(lambda s: flag[0] == 0, lambda s: s + 1, 0)

    stop[0] = 1
    for _ in range(3):
        assert wait(stop) == 0
    for seconds in (0.05, 0.5, 5.0, 50.0):  # on a busy machine the timer may ring before the loop begins
        stop[0] = 0
        timer = threading.Timer(seconds, lambda: stop.fill(1))
        timer.start()
        rounds = wait(stop)
        timer.join()
        if rounds > 100:
            return
    pytest.fail("the loop had ended before it began")


def test_what_a_loop_draws_is_the_same_in_each_path() -> None:
    def fn(x: Any) -> Any:
        return jf.fori_loop(0, 5, lambda i, c: c + jf.random.uniform(x.shape), x * 0)

    results = []
    for _ in range(2):
        jf.random.seed(3)
        fused = jf.fuse(fn)
        results.append([fused(X) for _ in range(4)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len({r.tobytes() for r in results[0]}) == 4
