"""Arguments that native code cannot read directly, and calls that fail: results and writes are plain Python's."""
from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.tracing.record.recorder import active


def unaligned(values: Any) -> np.ndarray[Any, Any]:
    """Return the values in an array whose address is no multiple of its item size."""
    array = np.asarray(values, float)
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:].view(float)
    memory[:] = array
    assert not memory.flags.aligned
    return memory


def added(a: Any, b: Any) -> Any:
    a += 1
    return (a * b).sum()


CASES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "one twice": lambda x: (x, x), "reversed": lambda x: (x, x[::-1]), "overlapping": lambda x: (x[1:], x[:-1]),
    "apart": lambda x: (x[:2], x[2:]), "read alone": lambda x: (x.copy(), x),
}


@pytest.mark.parametrize("case", CASES)
def test_unaligned_arguments_that_share_memory(case: str) -> None:
    fused = jf.fuse(added)
    for _ in range(5):
        ours, plain = unaligned([1, 2, 3, 4]), unaligned([1, 2, 3, 4])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jf.FallbackWarning)
            found = fused(*CASES[case](ours))
        assert found == added(*CASES[case](plain))
        np.testing.assert_array_equal(ours, plain)


def test_arguments_that_are_refused_leave_others_compiled() -> None:
    fused = jf.fuse(lambda x: x * 2 + 1)
    odd = unaligned([1, 2]).view(">f8")
    with pytest.warns(jf.FallbackWarning, match="byte order"):
        for _ in range(5):
            np.testing.assert_array_equal(fused(odd), odd * 2 + 1)
    np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, 3.0))
    assert fused.stats()["traces"] == 1


def test_errors_of_the_function_for_tracers_alone_name_its_line() -> None:
    def refused(x: Any) -> Any:
        if active() is not None:
            raise LookupError
        return x.sum()

    fused = jf.fuse(refused)
    with pytest.warns(jf.FallbackWarning, match=r"plain Python: .*:62 raises LookupError with traced arrays.*JF109"):
        assert [fused(np.ones(3)) for _ in range(6)] == [3.0] * 6
    assert fused.stats()["fallbacks"] == 6


def test_a_list_that_holds_itself_is_no_endless_search() -> None:
    own: list[Any] = [1.0]
    own.append(own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        assert jf.fuse(lambda x, own: own[0] + x.sum())(np.ones(3), own) == 4.0


def test_plain_python_that_takes_over_draws_what_it_would_have_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        y = x + jf.random.uniform((2,))
        return y * {0: 1}.get(int(y[0] * 1000), 2)  # another value in each call: too many

    def results(function: Any) -> list[Any]:
        jf.random.seed(0)
        return [np.asarray(function(np.full(2, float(k)))) for k in range(14)]

    fused = jf.fuse(f)
    with pytest.warns(jf.FallbackWarning, match="plain Python"):
        found = results(fused)
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    np.testing.assert_allclose(found, results(fused))


def test_an_interrupt_at_any_line_leaves_the_thread_tracing() -> None:
    """Each step of a first call is interrupted once, as a signal handler that raises would; the next call compiles."""
    from jitfuse.tracing.interruption import WORK

    x = unaligned([1, 2, 3])

    class Interrupt(BaseException):
        pass

    def attempt(stop: int) -> bool:
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            code = frame.f_code
            if event == "call" and "jitfuse/function" in code.co_filename and not code.co_flags & inspect.CO_GENERATOR:
                count += 1
                if count == stop:
                    raise Interrupt
            return None

        fused = jf.fuse(lambda x: x * 2)
        fused(x)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            fused(x)
        except Interrupt:
            pass
        finally:
            sys.settrace(before)
        assert not WORK.going_on
        return count >= stop

    stop = 1
    while attempt(stop):
        stop += 1
    assert stop > 5
