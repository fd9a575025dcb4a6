"""The decorator: signatures, decorated methods, reports, bounds, threads, pickles."""
from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import cloudpickle
import numpy as np
import pytest

import jitfuse as jf
from jitfuse.compile import interface as compiler

X = np.arange(6.0)


def test_a_new_shape_is_traced_and_compiles_nothing() -> None:
    f = jf.fuse(lambda x, s: np.exp(-x) * s)
    for n in range(2, 60):
        np.testing.assert_allclose(f(np.arange(float(n)), n / 2), np.exp(-np.arange(float(n))) * (n / 2))
    stats = f.stats()
    assert stats["traces"] == 58 and stats["compiles"] + stats["cache_hits"] <= 1


def test_results_own_their_memory() -> None:
    pairs = [
        lambda x: (x + 1, x + 1), lambda x: (np.zeros(3), np.zeros(3)), lambda x: (x.copy(), x.copy()),
        lambda x: (lambda y: (y, y * 1))(x + 1), lambda x: (lambda y: (y, y.copy()))(x * 2),
    ]
    for fn in pairs:
        a, b = jf.fuse(fn)(X)
        assert not np.shares_memory(a, b)
        for got, want in zip((a, b), fn(X), strict=True):
            np.testing.assert_array_equal(got, want)
    a, b = jf.fuse(lambda x: (lambda y: (y, y))(x + 1))(X)
    assert a is b


def test_one_array_passed_twice_is_no_pattern_for_two() -> None:
    f = jf.fuse(lambda a, b: a * 2 + b)
    np.testing.assert_array_equal(f(X, X), X * 3)
    np.testing.assert_array_equal(f(X, X + 1), X * 3 + 1)


def test_functions_that_change_what_they_read_run_as_python() -> None:
    history: list[int] = []

    @jf.fuse
    def f(x: Any) -> Any:
        history.append(len(history))
        return x * len(history)

    with pytest.warns(jf.FallbackWarning, match="no call can do without Python"):
        first = f(X)
    np.testing.assert_array_equal([first, f(X), f(X)], [X, X * 2, X * 3])
    assert history == [0, 1, 2]
    with pytest.raises(jf.UntraceableError):
        jf.fuse(f.__wrapped__, strict=True)(X)  # type: ignore[attr-defined]


class Model:
    """Methods, class attributes, properties."""

    scale = 3.0

    def __init__(self, rate: float) -> None:
        self.rate = rate

    @property
    def shift(self) -> float:
        return 4.0

    @jf.fuse
    def step(self, x: Any) -> Any:
        return x * self.rate * self.scale + self.shift

    @staticmethod
    @jf.fuse
    def double(x: Any) -> Any:
        return x * 2


def test_methods_are_shared_by_instances() -> None:
    a, b = Model(1.0), Model(2.0)
    np.testing.assert_array_equal(a.step(X), X * 3 + 4)
    np.testing.assert_array_equal(b.step(X), X * 6 + 4)
    a.rate = 5.0
    np.testing.assert_array_equal(a.step(X), X * 15 + 4)
    np.testing.assert_array_equal(Model.double(X), X * 2)


def test_wrong_order_of_decorators_is_said() -> None:
    with pytest.raises(jf.ArgumentError, match="put @staticmethod above"):
        jf.fuse(staticmethod(lambda x: x))


def test_devices_that_there_are_none_of() -> None:
    with pytest.raises(jf.ArgumentError, match="'cpu' or 'gpu'"):
        jf.fuse(lambda x: x, device="tpu")


def test_what_cannot_be_fused_is_rejected_by_the_decorator() -> None:
    class Model:
        pass

    async def later(x: Any) -> Any:
        return x

    async def stream(x: Any) -> Any:
        yield x

    for fn, text in ((Model, "got the class .*Model"), (later, "later is async"), (stream, "stream is async"),
                     (3, "got a int")):
        with pytest.raises(jf.ArgumentError, match=text):
            jf.fuse(fn)  # type: ignore[call-overload]


def test_options_are_checked_by_the_decorator() -> None:
    for names in (("wieght",), (0,), "wieght"):
        with pytest.raises(jf.ArgumentError, match="has the parameters a, weight"):
            jf.fuse(lambda a, weight: a * weight, static_argnames=names)  # type: ignore[arg-type]
    with pytest.raises(jf.ArgumentError, match="schedule='fast': pass one of 'slack', 'asap', 'alap', 'ilp'"):
        jf.fuse(lambda a: a, schedule="fast")  # type: ignore[call-overload]
    fused = jf.fuse(lambda a, weight: a * weight, static_argnames="weight")
    for weight in (2.0, 3.0):
        np.testing.assert_array_equal(fused(np.ones(3), weight), np.full(3, weight))
    assert fused.stats()["traces"] == 2
    jf.fuse(lambda a, **options: a, static_argnames="any")


@pytest.mark.parametrize("options", [{"donate": ("x",)}, {"fastmath": True}])
def test_options_of_later_versions_say_so(options: dict[str, Any]) -> None:
    with pytest.raises(jf.ArgumentError, match="this version"):
        jf.fuse(lambda x: x, **options)


def test_a_number_of_which_python_reads_many_values_is_data() -> None:
    def element(x: Any, i: int) -> Any:
        return x[i] * 2

    def folded(x: Any, n: int) -> Any:
        return x.reshape(n, -1).sum(axis=0)

    data, at, fold = np.arange(2520.0), jf.fuse(element), jf.fuse(folded)
    for i in (*range(40), -1, -2520):
        assert at(data, i) == element(data, i)
    with pytest.raises(IndexError):
        at(data, 2520)
    assert at.stats()["traces"] <= 10 and at.stats()["fallbacks"] == 0
    with pytest.warns(jf.FallbackWarning, match="more than 8 different values"):
        for n in (n for n in range(1, 120) if 2520 % n == 0):
            np.testing.assert_allclose(fold(data, n), folded(data, n))
    before = fold.stats()
    for n in (1, 2, 3):
        np.testing.assert_allclose(fold(data, n), folded(data, n))
    assert fold.stats()["fallbacks"] == before["fallbacks"] and fold.stats()["traces"] < 20


def test_decisions_are_guarded_by_their_outcomes() -> None:
    class Run:
        time, step = 0.0, 0

    def advance(x: Any, run: Any) -> Any:
        run.step += 1
        run.time = run.time + 0.25
        if run.step % 10 == 0 and not run.time - 1.0 < 1.75:
            return x + run.time
        if (run.step & 1) == 1 or run.time // 3 > 2:
            return x * 2
        return x - run.step

    fused, states = jf.fuse(advance), (Run(), Run())
    for k in range(100):
        x = np.arange(3.0) + k
        np.testing.assert_array_equal(fused(x, states[0]), advance(x, states[1]))
        assert vars(states[0]) == vars(states[1])
    assert fused.stats()["traces"] <= 6 and fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("values", [
    (1, 2, 3, True, False, 1.0, 0.0, -0.0, 2**40, 2**62, -(2**63), 7), (float("nan"), float("inf"), -1.5, 1, 0, True),
    (np.float64(2.0), 2.0, 2, np.int64(2), np.float32(2), np.bool_(True), -3),
])
def test_decisions_by_numbers_of_changing_types(values: tuple[Any, ...]) -> None:
    def sign(x: Any, n: Any) -> Any:
        if n > 1:
            return x * n
        return x - n if n < 0 else x

    def truth(x: Any, n: Any) -> Any:
        return x + 1 if n else x - 1

    for function in (sign, truth):
        fused = jf.fuse(function)
        for n in (*values, *reversed(values)) * 2:
            with np.errstate(invalid="ignore"):
                expected, found = function(np.arange(3.0), n), fused(np.arange(3.0), n)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_arguments_with_a_shape_of_their_own_are_no_arrays() -> None:
    class Shaped:
        shape = None

        def __mul__(self, other: Any) -> Any:
            return "product"

    fused = jf.fuse(lambda x: x * 2)
    for x in (np.ones(3), Shaped(), np.ones(3)):
        expected, found = x * 2, fused(x)
        assert type(found) is type(expected) and np.all(found == expected)
    assert fused.stats()["fallbacks"] == 0


def test_a_decision_that_raises_raises_again() -> None:
    def f(x: Any, n: int, m: int) -> Any:
        return x * 2 if n // m > 2 else x + 1

    fused = jf.fuse(f)
    for n, m in ((9, 3), (1, 3), (1, 0), (9, 0), (9, 3), (10, 3), (0, 0)):
        if m:
            np.testing.assert_array_equal(fused(np.ones(2), n, m), f(np.ones(2), n, m))
        else:
            with pytest.raises(ZeroDivisionError):
                fused(np.ones(2), n, m)
    assert fused.stats()["fallbacks"] == 0


def test_signatures_that_are_new_in_each_call_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.native_runtime()  # else Python answers the first calls, and native code knows of no others

    def f(x: Any) -> Any:
        return x * 2 + 1

    budget = jf.Budget(seconds=0.02)
    new, known = jf.fuse(f, budget=budget), jf.fuse(f, budget=budget)
    for _ in range(5):
        new(np.ones(3))
    with pytest.warns(jf.FallbackWarning, match=r"new again and again, last args\[0\]: .*JF201"):
        for n in range(40):
            np.testing.assert_array_equal(new(np.ones(n)), f(np.ones(n)))
    assert new.stats()["traces"] < 12
    before = new.stats()["fallbacks"]
    np.testing.assert_array_equal(new(np.ones(3)), f(np.ones(3)))
    assert new.stats()["fallbacks"] == before  # what has been used stays compiled
    np.testing.assert_array_equal(new(np.ones(4)), f(np.ones(4)))
    assert new.stats()["fallbacks"] == before + 1
    with np.errstate(over="ignore"):  # native code has not met this state
        np.testing.assert_array_equal(new(np.ones(3)), f(np.ones(3)))
    assert new.stats()["fallbacks"] == before + 1
    monkeypatch.setattr("jitfuse.graph_breaks.limits.RETRIED", 20)
    for _ in range(40):  # what has become usual is compiled
        np.testing.assert_array_equal(new(np.ones(50)), f(np.ones(50)))
    assert new.stats()["fallbacks"] < before + 30
    for n in range(30):  # calls of known signatures earn new ones
        for _ in range(150):
            known(np.ones(4))
        np.testing.assert_array_equal(known(np.ones(n)), f(np.ones(n)))
    assert known.stats()["fallbacks"] == 0


def test_signatures_are_bounded() -> None:
    @jf.fuse(budget=jf.Budget(subgraphs=3))
    def f(x: Any) -> Any:
        if x.shape == (7,):
            raise RuntimeError("not this one")
        return np.sin(x) + 1

    for n in range(1, 30):
        if n == 7:
            with pytest.raises(RuntimeError, match="not this one"):
                f(np.ones(n))
        else:
            np.testing.assert_allclose(f(np.ones(n)), np.sin(np.ones(n)) + 1)
    assert f.stats()["launches"] == 28


def test_many_threads_compile_once(in_threads: Any) -> None:
    f = jf.fuse(lambda x: np.exp(x) * 2 + np.sum(x))
    want = np.exp(X) * 2 + np.sum(X)

    def call(k: int) -> None:
        for _ in range(50):
            np.testing.assert_allclose(f(X), want, rtol=1e-5)

    in_threads(32, call)
    assert f.stats()["traces"] == 1


def test_a_dropped_function_is_freed_at_once() -> None:
    f = jf.fuse(lambda x: x + 1)
    f(X)
    gone = weakref.ref(f)
    gc.disable()
    try:
        del f
        assert gone() is None
    finally:
        gc.enable()


def test_it_pickles_and_works_where_it_arrives() -> None:
    f = jf.fuse(lambda x: np.cos(x) * 2)
    f(X)
    data = cloudpickle.dumps(f)
    assert len(data) < 4096
    g = cloudpickle.loads(data)
    np.testing.assert_array_equal(g(X), f(X))


def test_reports() -> None:
    @jf.fuse(name="wave")
    def f(x: Any, b: float) -> Any:
        return np.sin(x) * x + b

    text = f.explain(X, 1.0)
    for part in ("wave", "sin(%0)", "args[0]", "1 kernel", "kernel over", "B moved"):
        assert part in text, part
    (kernel,) = f.kernels
    assert kernel.backend == "llvm" and "define i64 @k0" in kernel.source and "ret" in kernel.asm
    assert len(kernel.key) == 64 and kernel.compile_ms > 0
    assert f.stats()["launches"] == 0
    program = f.program(X, 1.0)
    assert jf.FusedProgram.from_json(program.to_json()) == program
    assert [s.op_name for s in program.steps] == ["sin", "multiply", "add"]


def test_disabled_runs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    f = jf.fuse(lambda x, training: x * 2 if training else x)
    np.testing.assert_array_equal(f(X, training=True), X * 2)
    np.testing.assert_array_equal(f(X), X)
    assert f.stats()["traces"] == 0


def test_fused_functions_inside_fused_functions_are_inlined() -> None:
    inner = jf.fuse(lambda x: np.exp(x))
    outer = jf.fuse(lambda x: inner(x) + 1)
    np.testing.assert_allclose(outer(X), np.exp(X) + 1)
    assert outer.stats()["launches"] == 1 and inner.stats()["traces"] == 0


def test_tracebacks_show_the_users_frames() -> None:
    def inner(c: Any, b: Any) -> Any:
        return c @ b

    f = jf.fuse(lambda a, b: inner(a + 1, b))
    f(np.ones((2, 3)), np.ones((3, 2)))
    for arguments in ((np.ones((3, 4)), np.ones((5, 2))), (np.ones((3, 4)), "text")):
        with pytest.raises((jf.ShapeError, TypeError)) as caught:
            f(*arguments)
        names = [entry.name for entry in caught.traceback]
        assert names[-2:] == ["<lambda>", "inner"]
        assert len(names) <= 5


def test_under_raising_error_states_functions_fall_back() -> None:
    f = jf.fuse(lambda x: 1 / x)
    zero = np.zeros(3)
    for _ in range(3):
        assert np.isinf(f(zero)).all()
    with np.errstate(divide="raise", over="raise"):
        with pytest.warns(jf.FallbackWarning, match="divide='raise', over='raise'"):
            np.testing.assert_array_equal(f(zero + 2), zero + 0.5)
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                f(zero)
        with pytest.raises(jf.ArgumentError, match="divide='raise', over='raise'"):
            jf.fuse(lambda x: 1 / x, strict=True)(zero)
    with np.errstate(all="ignore"):
        calls = f.stats()["launches"]
        assert np.isinf(f(zero)).all() and np.isinf(f(zero)).all()
        assert f.stats()["launches"] == calls + 2
    assert np.isinf(f(zero)).all() and f.stats()["traces"] == 1


def test_error_states_belong_to_threads() -> None:
    f = jf.fuse(lambda x: 1 / x)
    f(np.zeros(3))
    seen: list[bool] = []
    with np.errstate(divide="raise"):
        thread = threading.Thread(target=lambda: seen.append(bool(np.isinf(f(np.zeros(3))).all())))
        thread.start()
        thread.join()
        with pytest.warns(jf.FallbackWarning), pytest.raises(FloatingPointError):
            f(np.zeros(3))
    assert seen == [True]


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("default", [None, True])
def test_the_mode_reaches_options(default: bool | None) -> None:
    def function(x: Any, **options: Any) -> Any:
        return x * (len(options) + (2 if options.get("training") else 1))

    fused = jf.fuse(function, training=default)
    for _ in range(2):
        for options in ({}, {"training": True}, {"training": False}, {"a": 1}, {"a": 1, "training": True}):
            np.testing.assert_array_equal(fused(np.ones(3), **options), function(np.ones(3), **options))
    outer = jf.fuse(lambda x: fused(x) + fused(x, training=True))
    np.testing.assert_array_equal(outer(np.ones(3)), np.full(3, 4.0))
