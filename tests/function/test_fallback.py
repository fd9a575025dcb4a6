"""Calls that cannot be traced are answered by the function itself: the same results, state, output and errors."""
from __future__ import annotations

import random
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.arange(1.0, 7.0)


def outcome(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """Return what a call returns or raises, and what its arrays are afterwards."""
    after = [a for a in args if isinstance(a, np.ndarray)]
    try:
        return repr(function(*args)), after
    except Exception as error:
        return type(error), str(error).partition("\n")[0], after  # pytest adds to assertions


def seeded(n: int) -> Any:
    return np.random.default_rng(n).normal(size=n)


def legacy(n: int) -> Any:
    np.random.seed(n)
    return np.random.rand(n).sum(), random.Random(n).random()


def shared(x: Any, rng: Any) -> Any:
    noise = rng.normal(size=len(x))
    x += noise
    return rng.permutation(x), rng.integers(3)


def reshaped_in_place(x: Any) -> Any:
    x.shape = (2, 3)
    return x.sum(0), x.flags.c_contiguous


def missing(x: Any) -> Any:
    return np.lib.stride_tricks.as_strided(x, (3, 2)).sum(1), np.poly1d(x)(2.0)


def other_class(x: Any) -> Any:
    return np.ma.masked_less(x, 3).sum(), {"set": {1, 2}, "object": slice(1, 2)}


@pytest.mark.parametrize(("function", "arguments"), [
    (seeded, lambda: (5,)), (legacy, lambda: (5,)), (shared, lambda: (X.copy(), np.random.default_rng(3))),
    (reshaped_in_place, lambda: (X.copy(),)), (missing, lambda: (X,)), (other_class, lambda: (X,)),
    (missing, lambda: (np.ones((2, 2, 2)),)),
])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_outcomes(function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> None:
    fused = jf.fuse(function)
    for _ in range(6):
        plain, given = arguments(), arguments()
        expected, found = outcome(function, *plain), outcome(fused, *given)
        assert repr(found) == repr(expected)
        assert str([a.bit_generator.state for a in plain if isinstance(a, np.random.Generator)]) == str(
            [a.bit_generator.state for a in given if isinstance(a, np.random.Generator)])


def test_it_is_counted_said_once_and_not_tried_for_ever() -> None:
    runs: list[int] = []

    def note() -> None:
        runs.append(1)

    def function(x: Any) -> Any:
        note.__wrapped__ = None  # type: ignore[attr-defined]
        return x + 0 * np.random.default_rng().random(len(x))

    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match=r"default_rng.*jf\.random") as caught:
        for n in range(2, 9):
            np.testing.assert_array_equal(fused(np.ones(n)), function(np.ones(n)))
    assert len(caught) == 1 and fused.stats()["fallbacks"] == 7 and fused.stats()["traces"] == 0
    with pytest.raises(jf.UntraceableError, match="default_rng"):
        jf.fuse(function, strict=True)(np.ones(3))


def test_state_that_the_trace_has_changed_is_put_back() -> None:
    class Model:
        def __init__(self) -> None:
            self.steps, self.seen = 0, [0.0]

    def function(model: Any, x: Any) -> Any:
        model.steps = model.steps + 1
        model.seen.append(float(model.steps))
        return x * model.steps + random.Random(model.steps).random()

    plain, given, fused = Model(), Model(), jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(5):
            np.testing.assert_array_equal(fused(given, X), function(plain, X))
            assert vars(given) == vars(plain)


def test_errors_of_the_function_are_its_own() -> None:
    def function(x: Any, kind: str) -> Any:
        if kind == "own":
            raise KeyError("mine")
        if kind == "assert":
            assert x is None, "no x"
        return x.no_such_attribute if kind == "attribute" else x @ np.ones(4)

    fused = jf.fuse(function)
    for kind, error in (("own", KeyError), ("assert", AssertionError), ("attribute", AttributeError)):
        for _ in range(4):
            expected, found = outcome(function, X, kind), outcome(fused, X, kind)
            assert found[0] is expected[0] is error or issubclass(found[0], error)
            assert kind == "attribute" or found[1] == expected[1]
    with pytest.raises(jf.ShapeError, match="test_fallback"):  # ours says more than NumPy's ValueError
        fused(X, "shape")
    assert fused.stats()["fallbacks"] == 0


def test_a_signature_that_works_goes_on_after_others_that_do_not() -> None:
    @jf.fuse
    def function(x: Any, noisy: bool) -> Any:
        return x * 2 + (random.Random(0).random() if noisy else 0.0)

    function(X, False)
    with pytest.warns(jf.FallbackWarning):
        for _ in range(5):
            function(X, True)
    before = function.stats()
    np.testing.assert_array_equal(function(X + 1, False), X * 2 + 2)
    assert function.stats()["fallbacks"] == before["fallbacks"] == 5


@pytest.mark.parametrize("error", [None, ValueError])
def test_arguments_are_what_numpy_leaves(error: type[Exception] | None) -> None:
    def function(x: Any) -> Any:
        x[0] = 7
        y = random.Random(0).random()
        if error is not None:
            raise error("after the write")
        return y

    plain, given = X.copy(), X.copy()
    with warnings.catch_warnings(action="ignore"):
        expected, found = outcome(function, plain), outcome(jf.fuse(function), given)
    assert repr(found) == repr(expected)
    np.testing.assert_array_equal(given, plain)


def test_errors_that_the_function_catches_are_caught() -> None:
    def inner(a: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.linalg.inv(a)

    def function(a: Any) -> Any:
        try:
            return inner(a), "regular"
        except np.linalg.LinAlgError as error:
            return np.linalg.pinv(a), str(error)

    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match=r"inv may raise inside of a try or with block"):
        for a in (np.ones((2, 2)), np.eye(2) * 2, np.ones((2, 2))):
            np.testing.assert_allclose(fused(a)[0], function(a)[0])
            assert fused(a)[1] == function(a)[1]

    @jf.fuse
    def outside(a: Any) -> Any:
        with np.errstate(all="ignore"):
            inverse = np.linalg.inv(a)
        try:
            return inverse + int("x")
        except ValueError:
            return inverse

    for _ in range(2):
        try:
            np.testing.assert_allclose(outside(np.eye(2) * 2), np.eye(2) / 2)
            outside(np.ones((2, 2)))
        except np.linalg.LinAlgError:
            pass
        else:
            pytest.fail("a singular matrix is inverted")
    assert outside.stats()["fallbacks"] == 0


class Ledger:
    """What a function keeps in objects, lists and globals."""

    def __init__(self) -> None:
        self.iterations, self.seen = 0, [0.0]


def refused(x: Any, ledger: Ledger, limit: float) -> Any:
    for k in range(3):
        x[k] += 1
        ledger.seen.append(float(k))
        ledger.iterations += 1
        print("round", k)
        if x[k] > limit:
            raise ValueError("too large")
    return x.sum()


def refused_from(x: Any, ledger: Ledger, limit: float) -> Any:
    try:
        return refused(x, ledger, limit)
    except ValueError as error:
        raise RuntimeError("refused") from error
    finally:
        ledger.seen.append(-1.0)


def refused_unseen(x: Any, ledger: Ledger, limit: float) -> Any:
    x *= 2
    ledger.iterations += 1
    if limit < 3:
        raise LookupError
    return {"x": x}[limit]


@pytest.mark.parametrize("function", [refused, refused_from, refused_unseen])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_calls_that_raise_leave_behind_what_plain_python_does(
    function: Callable[..., Any], capsys: pytest.CaptureFixture[str],
) -> None:
    fused = jf.fuse(function)
    for limit in (9.0, 2.5, 1.5, 2.5, 9.0):
        ends = []
        for call in (function, fused):
            x, ledger = X.copy(), Ledger()
            try:
                ends.append((call(x, ledger, limit), str(x), str(vars(ledger)), capsys.readouterr().out))
            except Exception as error:
                causes = type(error), str(error), type(error.__cause__), type(error.__context__)
                ends.append((causes, str(x), str(vars(ledger)), capsys.readouterr().out))
        assert ends[0] == ends[1]


def test_what_is_written_before_an_assertion() -> None:
    @jf.fuse
    def function(x: Any) -> Any:
        x += 1
        assert x.sum() < 0, "not yet"
        return x

    for _ in range(3):
        x = X.copy()
        with pytest.raises(AssertionError, match="not yet"):
            function(x)
        np.testing.assert_array_equal(x, X + 1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_signal_handlers_that_raise_end_a_trace() -> None:
    class StopError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise StopError

    def function(x: Any) -> Any:
        while True:
            x = x + 1

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(StopError):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            jf.fuse(function)(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
