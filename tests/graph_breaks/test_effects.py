"""What split functions leave behind: written arguments, state, errors, warnings, counts; and calls at once."""
from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split_results import check

import jitfuse as jf

UP, DOWN = np.arange(1.0, 6.0), -np.arange(1.0, 6.0)


def test_written_arguments() -> None:
    def function(x: Any, y: Any) -> Any:
        x[1:3] = 7
        if x.sum() > 10:
            y += x
            if y[0] > 3:
                x[0] = y[1]
            return x
        y[...] = 0
        return x[::2]

    check(function, (UP, DOWN), (DOWN, UP), (UP, UP * 3), (DOWN * 9, DOWN))


def test_written_in_a_loop() -> None:
    def function(x: Any) -> Any:
        while x[0] > 1:
            x /= 2
            x[1] += 1
        return x.sum()

    check(function, *(np.array([2.0**k, 0.0]) for k in (0, 1, 2, 5, 20)))


def test_what_is_written_where_the_function_raises() -> None:
    @jf.fuse
    def function(x: Any) -> Any:
        x += 1
        if x[0] < 0:
            raise ValueError(f"x[0] is {x[0]}")
        x *= 2
        return x

    for _ in range(3):
        for start in (3.0, -7.0, -9.0):
            x = np.array([start, 1.0])
            if start > 0:
                function(x)
                np.testing.assert_array_equal(x, [8, 4])
            else:
                with pytest.raises(ValueError, match=f"x.0. is {start + 1}"):
                    function(x)
                np.testing.assert_array_equal(x, [start + 1, 2])  # as plain Python leaves it


def test_arguments_that_share_memory() -> None:
    def function(x: Any, y: Any) -> Any:
        if x.sum() > 0:
            x[0] = 5
            return y + x
        return y - x

    fused = jf.fuse(function)
    for a in (UP, DOWN):
        for shared in (False, True, False):
            expected_x = a.copy()
            expected = function(expected_x, expected_x if shared else UP)
            x = a.copy()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.testing.assert_array_equal(fused(x, x if shared else UP), expected)
            np.testing.assert_array_equal(x, expected_x)


def test_a_kernel_that_raises_raises_in_each_call() -> None:
    @jf.fuse
    def function(x: Any, i: Any) -> Any:
        if x.sum() > 0:
            y = x[i]
            if y.sum() > 0:
                return y
            return x
        return -x

    for _ in range(3):
        np.testing.assert_array_equal(function(UP, np.array([1, 2])), [2, 3])
        with pytest.raises(IndexError):
            function(UP, np.array([1, 9]))
        np.testing.assert_array_equal(function(DOWN, np.array([1, 9])), UP)


def test_dropout_draws_the_same_numbers_before_and_after_a_graph_break() -> None:
    @jf.fuse(training=True)
    def split(x: Any) -> Any:
        a = jf.nn.dropout(x, 0.5)
        if x.sum() > 0:
            return a, jf.nn.dropout(x, 0.5), a * 1
        return a, x, a

    @jf.fuse(training=True)
    def whole(x: Any) -> Any:
        a = jf.nn.dropout(x, 0.5)
        return a, jf.nn.dropout(x, 0.5), a * 1

    for _ in range(3):
        jf.random.seed(3)
        found = [split(np.ones(100)) for _ in range(3)]
        jf.random.seed(3)
        for a, b in zip(found, [whole(np.ones(100)) for _ in range(3)], strict=True):
            for p, q in zip(a, b, strict=True):
                np.testing.assert_array_equal(p, q)
        np.testing.assert_array_equal(found[0][0], found[0][2])
    np.testing.assert_array_equal(split(np.ones(9), training=False)[0], np.ones(9))


def test_more_than_eight_values_fall_back() -> None:
    def function(x: Any) -> Any:
        return x * len(range(int(x.sum())))

    fused = jf.fuse(function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(12):
            np.testing.assert_array_equal(fused(UP + k), function(UP + k))
    assert [w.category for w in caught] == [jf.FallbackWarning]
    text = str(caught[0].message)
    assert "test_effects.py:" in text and "jf.cond" in text and "int()" in text
    assert fused.stats()["fallbacks"] == 4 and fused.stats()["traces"] == 9


def test_truths_have_no_limit() -> None:
    def function(x: Any) -> Any:
        n = 0
        for v in x:
            if v > 0:
                n += 1
        return n

    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(32):
            x = np.array([1.0 if k >> b & 1 else -1.0 for b in range(5)])
            assert fused(x) == function(x)


def test_strict_raises_at_once() -> None:
    with pytest.raises(jf.TracedValueError, match=r"test_effects.py:\d+"):
        jf.fuse(lambda x: x if x.sum() > 0 else -x, strict=True)(UP)


def test_reads_in_bodies_raise() -> None:
    @jf.fuse(strict=True)
    def function(x: Any) -> Any:
        return jf.fori_loop(0, 3, lambda k, y: y + 1 if y.sum() > 0 else y, x)

    with pytest.raises(jf.TracedValueError, match=r"np\.where"):
        function(UP)


def test_warm_and_program_say_that_there_are_no_values() -> None:
    fused = jf.fuse(lambda x: x + 1 if x.sum() > 0 else -x)
    for look in (fused.program, fused.warm, fused.explain):
        with pytest.raises(jf.TracedValueError):
            look(UP)
    fused(UP)
    text = fused.explain(UP)
    assert "True: subgraph 1, then the result" in text and "False:" not in text
    fused(DOWN)
    assert "False: subgraph 2, then the result" in fused.explain(UP)
    assert len(fused.kernels) >= 2


def test_functions_that_keep_state_fall_back() -> None:
    log: list[float] = []

    def function(x: Any) -> Any:
        log.append(1.0)
        return x + len(log) if x.sum() > 0 else x

    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1, 5):
            np.testing.assert_array_equal(fused(UP), UP + k)
    assert len(log) == 4


def test_caught_signals_do_no_harm() -> None:
    def function(x: Any) -> Any:
        try:
            while x[0] > 1:
                x = x / 2
        except BaseException:
            x = x * 0
        return x

    check(function, *(np.array([2.0**k]) for k in (0, 1, 5, 40)))


def test_threads_that_call_at_once(in_threads: Any) -> None:
    def function(x: Any) -> Any:
        while x.sum() > 1:
            x = x * 0.5 if x[0] > x[1] else x * 0.25
        if x[0] > 0.1:
            return x + 1
        return x[::-1] * 2

    fused = jf.fuse(function)

    def call(k: int) -> None:
        rng = np.random.default_rng(k)
        for _ in range(30):
            x = rng.random(2) * 2.0 ** rng.integers(0, 12)
            np.testing.assert_array_equal(fused(x), function(x))

    in_threads(8, call)


def test_torch_tensors_and_eager_arrays() -> None:
    torch = pytest.importorskip("torch")
    fused = jf.fuse(lambda x: x + 1 if x.sum() > 0 else x[:2])
    for x in (UP, DOWN):
        expected = x + 1 if x.sum() > 0 else x[:2]
        found = fused(torch.from_numpy(x))
        assert isinstance(found, torch.Tensor) and np.array_equal(found.numpy(), expected)
        eager = fused(jf.asarray(x))
        assert isinstance(eager, jf.AbstractTensor) and np.array_equal(np.asarray(eager), expected)


def test_an_eager_array_among_the_globals() -> None:
    held = jf.asarray(UP)
    fused = jf.fuse(lambda x: held + x if x.sum() > 0 else held * 2)
    for x in (UP, DOWN, UP):
        found = fused(x)
        assert isinstance(found, jf.AbstractTensor)
        np.testing.assert_array_equal(np.asarray(found), UP + x if x.sum() > 0 else UP * 2)


def test_under_another_error_state() -> None:
    fused = jf.fuse(lambda x: x + 1 if x.sum() > 0 else x - 1)
    for state in ("ignore", "warn", "ignore"):
        with np.errstate(all=state):  # type: ignore[arg-type]
            for x in (UP, DOWN):
                np.testing.assert_array_equal(fused(x), x + 1 if x.sum() > 0 else x - 1)


SCRIPT = """
import numpy as np, jitfuse as jf
@jf.fuse
def f(x):
    while x.sum() > 1:
        x = np.sin(x) * 0.5
    return x * 3 if x[0] > 0.2 else np.cos(x)
for k in range(6):
    f(np.arange(5.0) * k)
print(f.stats()["compiles"])
"""


@pytest.mark.full
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    env = {"JITFUSE_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    ran = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert int(ran[0]) > 0 and int(ran[1]) == 0


def test_loops_that_are_not_detected_fall_back() -> None:
    def function(x: Any) -> Any:
        steps = []
        while x[0] > 1:
            x = x * 0.875
            steps.append(None)
        return x, len(steps)

    fused = jf.fuse(function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(14):
            x = np.array([2.0 ** (6.3 + 0.4 * k)])
            found, expected = fused(x), function(x)
            assert found[1] == expected[1] and found[0] == expected[0]
    assert [w.category for w in caught] == [jf.FallbackWarning] and "iteration by iteration" in str(caught[0].message)
    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fused(np.array([1e80]))[1] == function(np.array([1e80]))[1]


def test_trees_start_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitfuse.graph_breaks.limits.STATES", 1)

    def function(x: Any) -> Any:
        return [x * k if v > 0 else x - k for k, v in enumerate(x)]

    fused = jf.fuse(function, budget=jf.Budget(subgraphs=3))
    for _ in range(2):
        for x in (UP, DOWN, np.array([1.0, -1, 1, -1, 1])):
            for a, b in zip(fused(x), function(x), strict=True):
                np.testing.assert_array_equal(a, b)


def test_functions_with_too_many_graph_breaks_fall_back() -> None:
    def function(a: Any) -> Any:
        for k in range(600):
            a = np.sin(a * 0.5 + k)
            if a[0] > 100:
                break
        return a

    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match=r"reads data .*jf\.while_loop"):
        for k in range(3):
            np.testing.assert_array_equal(fused(UP + k), function(UP + k))
    assert fused.stats()["traces"] < 4 and fused.stats()["fallbacks"] == 3  # the loop as one of the program is tried


def test_functions_that_go_another_path_in_each_call_are_not_traced_for_ever() -> None:
    def function(x: Any) -> Any:
        y, ways = np.zeros(3), []
        for k in range(len(x)):
            ways.append("left" if x[k] > 0 else "right")  # no number: Python decides
            y = np.cos(y) + np.sqrt(np.abs(y)) * 2 - np.exp(-y * y) + y if ways[k] == "left" else np.sin(y) - y + x[k]
        return y

    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match="take another path"):
        for seed in range(40):
            x = np.random.default_rng(seed).normal(size=16)
            np.testing.assert_allclose(fused(x), function(x), rtol=1e-9)
    assert 12 <= fused.stats()["traces"] < 40
    before = fused.stats()["fallbacks"]
    fused(np.random.default_rng(0).normal(size=16))  # a known way
    assert fused.stats()["fallbacks"] in (before, before + 1)


@pytest.mark.full
def test_functions_that_add_many_graph_breaks_in_each_call_are_given_up_sooner() -> None:
    def function(x: Any) -> Any:
        total, ways = x.sum(), []
        for k in range(len(x)):
            if x[k] > 0:
                ways.append(k)  # which both ways cannot do
                total = total + x[k] * k
        return total

    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match="take another path"):
        for seed in range(6):
            x = np.random.default_rng(seed).normal(size=62)
            np.testing.assert_allclose(fused(x), function(x), rtol=1e-9)
    assert fused.stats()["traces"] == 5 and fused.stats()["fallbacks"] == 1
