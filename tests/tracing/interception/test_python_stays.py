"""The language around the reads stays Python's own: frames, errors, closures, threads, installed code."""
from __future__ import annotations

import contextlib
import inspect
import math
import sys
import textwrap
import threading
import traceback
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

from jitfuse.tracing.interception import bytecode, known, probes, swap
from jitfuse.tracing.record.source import hide_own_frames

X = np.array([1.0, 2.0, 3.0])
rate = 0.5


def scaled(x: Any) -> Any:
    return x * rate


def broken(x: Any) -> Any:
    return x.absent_attribute


def test_error_passes_with_the_users_frames_only(trace: Any) -> None:
    def f(x: Any) -> Any:
        return broken(x)

    with pytest.raises(AttributeError, match="absent_attribute") as caught:
        trace(f, X)
    error = caught.value
    hide_own_frames(error)
    frames = traceback.extract_tb(error.__traceback__)
    assert [frame.name for frame in frames[-2:]] == ["f", "broken"]
    assert frames[-1].line == "return x.absent_attribute"
    assert frames[-1].lineno == broken.__code__.co_firstlineno + 1
    assert not any("tracing/interception/" in frame.filename and "tests" not in frame.filename for frame in frames)


def test_tracebacks_of_what_has_no_line() -> None:
    """As where a signal's handler raises between two lines."""
    code = compile("raise ValueError", "user.py", "exec")
    try:
        exec(code.replace(co_linetable=b"\xff" * len(code.co_code)))
    except ValueError as error:
        hide_own_frames(error)
        *_, last = traceback.walk_tb(error.__traceback__)
        assert last[0].f_code.co_filename == "user.py" and last[1] in (None, -1)  # -1 in early versions of 3.11


@pytest.mark.parametrize("fails", [
    lambda x: not_defined, lambda x: {}["k"], lambda x: [][3], lambda x: x.nothing, lambda x: 1 / 0,  # noqa: F821
    lambda x: math.nothing,
], ids=range(6))
def test_same_errors(trace: Any, fails: Any) -> None:
    with pytest.raises(Exception) as plain:
        fails(X)
    with pytest.raises(type(plain.value)) as seen:
        trace(fails, X)
    if "Traced" not in str(seen.value):
        assert str(seen.value) == str(plain.value)


def test_code_is_restored_after_an_error(trace: Any) -> None:
    before = broken.__code__
    with pytest.raises(AttributeError):
        trace(lambda x: broken(x), X)
    assert broken.__code__ is before and not swap._swaps


def test_line_and_column_table_is_kept() -> None:
    def f(x: Any) -> Any:
        y = (x
             + rate)
        return [scaled(v)
                for v in y]

    new = bytecode.rewrite(f.__code__)
    lines = {line for _, _, line in new.co_lines() if line}
    assert lines == {line for _, _, line in f.__code__.co_lines() if line}
    assert new.co_filename == f.__code__.co_filename and new.co_varnames == f.__code__.co_varnames


def test_locals_super_and_name_mangling(trace: Any) -> None:
    class Base:
        def go(self, x: Any) -> Any:
            return x

    class Child(Base):
        def __init__(self) -> None:
            self.__hidden = 3.0

        def go(self, x: Any) -> Any:
            names = sorted(locals())
            return super().go(x) * self.__hidden * len(names)

    child = Child()
    np.testing.assert_array_equal(trace(lambda x: child.go(x), X).result, child.go(X))


def test_control_flow(trace: Any) -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def scope() -> Any:
        try:
            yield 2.0
        finally:
            log.append("closed")

    def f(x: Any, *more: Any, **named: Any) -> Any:
        total = x
        with scope() as s:
            for i, v in enumerate(more):
                try:
                    if i == 1:
                        raise ValueError("one")
                    total = total + v * s
                except ValueError as error:
                    total = total + len(str(error))
                else:
                    total = total * 2
                finally:
                    total = total + 1
        match named:
            case {"k": k}:
                total = total + k
        while (n := len(log)) < 1:
            pass
        return total if n else -total

    expected = f(X, 1.0, 2.0, 3.0, k=4.0)
    log.clear()
    np.testing.assert_array_equal(trace(f, X, 1.0, 2.0, 3.0, k=4.0).result, expected)
    assert log == ["closed"]


def test_generators_send_and_close(trace: Any) -> None:
    def echo() -> Any:
        got = yield rate
        while got is not None:
            got = yield got * rate

    def f(x: Any) -> Any:
        g = echo()
        first = next(g)
        second = g.send(x)
        g.close()
        return second + first + sum([*(v * rate for v in (1, 2))])

    np.testing.assert_array_equal(trace(f, X).result, f(X))


def test_cells_are_shared(trace: Any) -> None:
    def f(x: Any) -> Any:
        total = x

        def add(v: Any) -> None:
            nonlocal total
            total = total + v * rate

        def read() -> Any:
            return total

        add(1.0)
        add(2.0)
        return read()

    np.testing.assert_array_equal(trace(f, X).result, f(X))


def test_class_made_in_the_trace(trace: Any) -> None:
    def f(x: Any) -> Any:
        class Local:
            factor = rate * 2

            def go(self, v: Any) -> Any:
                return v * self.factor

        return Local().go(x)

    got = trace(f, X)
    np.testing.assert_array_equal(got.result, f(X))
    assert "rate" in got.hooks.asked


def test_functions_keep_their_identity(trace: Any) -> None:
    table = {scaled: 2.0}
    np.testing.assert_array_equal(trace(lambda x: x * table[scaled], X).result, X * 2)
    assert trace(lambda x: x if scaled.__code__.co_name == "scaled" else -x, X).holds


def test_substitution_everywhere(trace: Any) -> None:
    def mine(n: Any) -> str:
        return f"mine {n}"

    class Holder:
        xp = np

    cell = np

    def local() -> Any:
        import numpy
        import numpy as xp
        from numpy import zeros

        return numpy.zeros(1), xp.zeros(1), zeros(1)

    def f() -> Any:
        return [np.zeros(1), cell.zeros(1), Holder.xp.zeros(1), Holder().xp.zeros(1), *local(),
                *map(np.zeros, [1]), getattr(np, "zeros")(1)]  # noqa: B009

    assert trace(f, substitutes={np.zeros: mine}).result == ["mine 1"] * 9


def test_installed_code_runs_as_it_is(trace: Any) -> None:
    got = trace(lambda x: x * math.pi * len(textwrap.dedent('  ab')), X)
    assert got.hooks.asked == ["args[0]"] and got.holds


def test_signature_of_helper_in_the_trace(trace: Any) -> None:
    np.testing.assert_array_equal(trace(lambda x: x * len(inspect.signature(scaled).parameters), X).result, X)


def test_two_threads_trace_at_once_and_a_third_runs_plain(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    meet = threading.Barrier(3, timeout=PATIENCE)
    monkeypatch.setattr(known, "_MODULES", known._MODULES | {"threading"})
    monkeypatch.setitem(known._INSTANCES, "threading", "Barrier")
    results: dict[str, Any] = {}

    def held(x: Any, wait: Any) -> Any:
        wait()
        return scaled(x)

    def tracing(name: str, x: Any) -> None:
        got = trace(lambda x: held(x, meet.wait), x)
        results[name] = got.result, got.hooks.asked, got.holds

    def plain() -> None:
        meet.wait()
        results["plain"] = scaled(X)

    threads = [threading.Thread(target=tracing, args=("a", X)), threading.Thread(target=tracing, args=("b", X * 2)),
               threading.Thread(target=plain)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(results["a"][0], X * 0.5)
    np.testing.assert_array_equal(results["b"][0], X)
    assert results["a"][1] == ["args[0]", "rate"] and results["a"][2] and type(results["plain"]) is np.ndarray
    assert not swap._swaps


def test_trace_in_a_trace(trace: Any) -> None:
    inner: list[Any] = []

    def nested() -> int:
        inner.append(trace(lambda x: scaled(x), X))
        return 1

    outer = trace(lambda x: scaled(x) * nested(), X, substitutes={nested: nested.__call__})
    np.testing.assert_array_equal(outer.result, X * 0.5)
    assert inner[0].hooks.asked == outer.hooks.asked == ["args[0]", "rate"]
    assert inner[0].holds and outer.holds and probes.current.get() is None


def test_many_threads_share_helpers(trace: Any, in_threads: Any) -> None:
    class Layer:
        def __init__(self, k: float) -> None:
            self.k = k

        def __call__(self, x: Any) -> Any:
            return scaled(x) * self.k

    layers = [Layer(2.0), Layer(3.0)]

    def f(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    def work(k: int) -> None:
        for i in range(k * 100, k * 100 + 40):
            got = trace(f, X * i)
            assert got.holds, (i, got.guard_log.why_failed(got.args))
            np.testing.assert_array_equal(got.result, X * i * 1.5)
            np.testing.assert_array_equal(f(X), X * 1.5)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(8, work)
    finally:
        sys.setswitchinterval(before)
    assert not swap._swaps and scaled.__code__.co_consts == (None,)
