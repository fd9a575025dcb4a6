"""Calls of what plain Python computes otherwise from call to call, or returns in a way that a trace does not show."""
from __future__ import annotations

import concurrent.futures
import contextvars
import datetime
import multiprocessing.pool
import os
import threading
import time
import uuid
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf
from jitfuse.errors import UntraceableError

pytestmark = pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")


def shown(value: Any) -> Any:
    """Return what a result is, with types, as something that compares."""
    if isinstance(value, Exception):
        return type(value), str(value)
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype, repr(value.tolist())
    if isinstance(value, list | tuple):
        return type(value), [shown(part) for part in value]
    if isinstance(value, dict):
        return type(value), [(repr(k), shown(v)) for k, v in value.items()]
    return type(value), repr(value)


# ---------------------------------------------------------------- floating-point errors that are seen
def raised(x: Any) -> Any:
    try:
        with np.errstate(all="raise"):
            return np.log(x) / x
    except FloatingPointError as error:
        return str(error)


@np.errstate(divide="raise")
def decorated(x: Any) -> Any:
    return 1 / x


def set_again(x: Any) -> Any:
    before = np.seterr(divide="raise")
    try:
        return 1 / x
    finally:
        np.seterr(**before)


@pytest.mark.parametrize("function", [raised, decorated, set_again, lambda x: decorated(x) + 1])
def test_functions_that_have_floating_point_errors_raised_see_them(function: Any) -> None:
    fused = jf.fuse(function)
    for x in (np.ones(3), np.array([1.0, 0.0, 2.0]), np.full(2, 3.0), np.zeros(1)):
        assert shown(outcome(fused, x)) == shown(outcome(lambda v: function(v), x))


def test_a_function_that_numpy_has_wrapped_does_not_make_numpy_user_code() -> None:
    jf.fuse(decorated)(np.ones(2))
    fused = jf.fuse(lambda x: np.lexsort([x, x]) + np.linspace(0, 1, len(x)), strict=True)
    x = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(fused(x), np.lexsort([x, x]) + np.linspace(0, 1, 3))


def test_a_callback_for_floating_point_errors_is_called() -> None:
    met: list[str] = []

    def called(x: Any) -> Any:
        with np.errstate(divide="call"):
            return 1 / x

    fused = jf.fuse(called)
    before = np.seterrcall(lambda kind, flag: met.append(kind))
    try:
        for k in range(3):
            assert np.isinf(fused(np.zeros(2))).all()
            assert len(met) == k + 1
        with np.errstate(divide="call"):
            jf.fuse(lambda x: 1 / x)(np.zeros(2))
        assert len(met) == 4
    finally:
        np.seterrcall(before)


def test_states_that_ask_for_no_more_than_warnings_stay_native() -> None:
    def ignored(x: Any) -> Any:
        with np.errstate(all="ignore"):
            y = 1 / x
        with np.errstate(divide="warn"):
            return y + 1

    fused = jf.fuse(ignored, strict=True)
    assert np.isinf(fused(np.zeros(2))).all()
    assert fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("how", [{"record": True}, {"action": "error"}])
def test_warnings_that_the_function_reads_are_plain_pythons(how: dict[str, Any]) -> None:
    def looked(x: Any) -> Any:
        try:
            with warnings.catch_warnings(**how) as met:
                if met is not None:
                    warnings.simplefilter("always")
                return np.sqrt(x), met is not None and len(met)
        except RuntimeWarning as error:
            return str(error)

    fused = jf.fuse(looked)
    for x in (np.ones(2), np.array([-1.0, 1.0]), np.ones(2)):
        assert shown(fused(x)) == shown(looked(x))


def test_filters_that_make_warnings_errors_are_plain_pythons() -> None:
    def strictly(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.sqrt(x)

    fused = jf.fuse(strictly)
    np.testing.assert_array_equal(fused(np.ones(2)), np.ones(2))
    with pytest.raises(RuntimeWarning, match="invalid value"):
        fused(-np.ones(2))

    def quietly(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.sqrt(x)

    assert np.isnan(jf.fuse(quietly, strict=True)(-np.ones(2))).all()


# ---------------------------------------------------------------- what moves on its own
def test_context_variables_are_read_in_each_call() -> None:
    rate: contextvars.ContextVar[float] = contextvars.ContextVar("rate", default=1.0)
    fused = jf.fuse(lambda x: x * rate.get())
    for value in (2.0, 3.0, 2.0, 5.0):
        rate.set(value)
        assert fused(np.ones(2)).tolist() == [value, value]


@pytest.mark.parametrize("read", [
    lambda: datetime.datetime.now().timestamp(), lambda: datetime.date.today().toordinal(),
    lambda: uuid.uuid4().int % 9,
    lambda: os.urandom(1)[0], lambda: time.localtime().tm_sec, lambda: len(time.ctime()),
    lambda: int(time.strftime("%S")),
])
def test_clocks_and_drawn_bytes_are_refused(read: Any) -> None:
    with pytest.raises(UntraceableError, match="is called: jitfuse does not see"):
        jf.fuse(lambda x: x + read(), strict=True)(np.ones(2))
    assert jf.fuse(lambda x: x + read())(np.ones(2)).shape == (2,)


# ---------------------------------------------------------------- containers
@dataclass
class Point:
    x: Any
    scale: float = 2.0

    def __post_init__(self) -> None:
        self.doubled = self.scale * 2


Pair = namedtuple("Pair", "a b")


class Tagged(Pair):
    pass


def tagged(x: Any) -> Any:
    pair = Tagged(x * 2, 1)
    pair.tag = 3  # type: ignore[attr-defined]
    return pair


def moved(x: Any) -> Any:
    found = OrderedDict(a=x * 2, b=x + 1)
    found.move_to_end("a")
    return found


def test_what_is_returned_keeps_attributes_and_order() -> None:
    x = np.arange(3.0)
    for _ in range(3):
        assert jf.fuse(tagged)(x).tag == 3
        assert list(jf.fuse(moved)(x)) == ["b", "a"]
    fused = jf.fuse(lambda x: Point(x * 2, 5.0))
    for _ in range(3):
        assert fused(x).doubled == 10.0 and fused(x).x.tolist() == [0, 2, 4]


@pytest.mark.parametrize("make", [lambda y: [y], lambda y: {"k": y}, lambda y: [], OrderedDict])
def test_one_container_in_two_places_stays_one(make: Any) -> None:
    def twice(x: Any) -> Any:
        held = make(x * 2) if make is not OrderedDict else OrderedDict(k=x * 2)
        return held, {"again": held}

    fused = jf.fuse(twice)
    for _ in range(3):
        first, rest = fused(np.ones(2))
        assert first is rest["again"]
    point = jf.fuse(lambda x: [Pair(x, 1), (), ()], strict=True)(np.ones(2))
    assert point[0].b == 1


def test_computed_keys_are_kept_as_what_they_are() -> None:
    memo: dict[Any, Any] = {}

    def looked_up(x: Any, k: int) -> Any:
        if k not in memo:
            memo[k] = x.sum() * k
        if (k, 1) not in memo:
            memo[k, 1] = k
        return x + memo[k]

    fused = jf.fuse(looked_up)
    for k in (1, 2, 1, 3, 2):
        assert fused(np.ones(2), k).tolist() == [1 + 2 * k] * 2
    assert list(memo) == [1, (1, 1), 2, (2, 1), 3, (3, 1)]
    assert all(type(k) is int or type(k[0]) is int for k in memo)


def test_numbers_as_keys_of_results_are_what_they_are() -> None:
    fused = jf.fuse(lambda x, k: ({k: x * 2, (k, "a"): 1}, [{"b": {k: k}}]))
    for k in (1, 2, 1, True, 2.5):
        found, (rest,) = fused(np.ones(2), k)
        assert repr(list(found)) == repr([k, (k, "a")]) and rest == {"b": {k: k}}


@pytest.mark.parametrize("number", [3, 2.5, True, 1j, np.float64(2), np.int8(3), np.ones(2), np.array(2.0)])
def test_numbers_have_the_attributes_of_their_types_alone(number: Any) -> None:
    def asked(x: Any, n: Any) -> Any:
        names = ("shape", "ndim", "dtype", "sum", "real", "conjugate", "bit_length", "__len__", "item")
        return [hasattr(n, name) for name in names], getattr(n, "ndim", -1), x * n

    fused = jf.fuse(asked)
    for _ in range(2):
        assert shown(fused(np.ones(2), number)) == shown(asked(np.ones(2), number))
    sized = jf.fuse(lambda n: n.shape)
    assert shown(outcome(sized, number))[0] == shown(outcome(lambda n: n.shape, number))[0]


# ---------------------------------------------------------------- values that Python holds equal
@pytest.mark.parametrize("values", [
    [{1}, {1.0}, {True}, {1}], [frozenset([1]), frozenset([1.0])], [{1: 2}, {1.0: 2}, {True: 2}, {1: 2}],
    [{0.0: 1}, {-0.0: 1}], [{(1, 2): 1}, {(1.0, 2): 1}, {(True, 2): 1}], [slice(1, 2), slice(True, 2), slice(1.0, 2)],
    [slice(0.0), slice(-0.0)], [range(0), range(5, 5), range(0)], [(0.0, 1), (-0.0, 1), (0, 1)],
    [{1, "a"}, {True, "a"}],
])
def test_equal_values_of_other_types_are_told_apart(values: list[Any]) -> None:
    def reads(x: Any, given: Any) -> Any:
        parts = (given.start, given.stop) if isinstance(given, slice) else list(given)
        numbers = [part for part in parts if isinstance(part, int | float)]
        return repr(given), [type(part) for part in parts], [x * part for part in numbers], given

    fused = jf.fuse(reads)
    x = np.ones(2, np.int8)
    for _ in range(2):
        for given in values:
            assert shown(fused(x, given)) == shown(reads(x, given))

    class Holder:
        held: Any = None

    kept = Holder()
    fused = jf.fuse(lambda x: reads(x, kept.held))
    for given in values * 2:
        kept.held = given
        assert shown(fused(x)) == shown(reads(x, given))


def test_orders_of_dicts_are_told_apart() -> None:
    weighted = jf.fuse(lambda d: sum((k + 1) * v for k, v in enumerate(d.values())))
    held = OrderedDict(a=np.ones(1), b=np.full(1, 10.0))
    for expected in (21, 12, 21):
        assert weighted(held) == expected
        held.move_to_end(next(iter(held)))
    large = {k: k for k in range(3000)}
    first = jf.fuse(lambda x: x + next(iter(large)))
    for expected in (0, 1, 2):
        assert first(np.zeros(1)) == expected
        large[expected] = large.pop(expected)


# ---------------------------------------------------------------- views of arguments
@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x.reshape(-1), lambda x: x.ravel(), lambda x: x[1:].T[::-1],
    lambda x: x.reshape(4, 3).T[1:],
    lambda x: np.moveaxis(x, 0, 1), lambda x: np.rot90(x), lambda x: x.T.reshape(-1), lambda x: x[:, ::2].reshape(-1),
    lambda x: x[None].swapaxes(0, 2), lambda x: np.squeeze(x.T[:, None]), lambda x: x.T.T, lambda x: x[:0].T,
])
@pytest.mark.parametrize("order", ["C", "F", "reversed", "strided", "readonly"])
def test_views_of_arguments_share_their_memory(view: Any, order: str) -> None:
    def made() -> Any:
        x = np.arange(12.0).reshape(3, 4)
        if order == "strided":
            return np.repeat(x, 2, axis=1)[:, ::2]
        x = np.asfortranarray(x) if order == "F" else x[::-1] if order == "reversed" else x
        x.flags.writeable = order != "readonly"
        return x

    def changed(x: Any) -> Any:
        shown = view(x)
        if x.flags.writeable if isinstance(x, np.ndarray) else order != "readonly":
            x *= 2
        return shown, x.sum()

    for function in (lambda x: (view(x), x.sum()), changed):
        fused = jf.fuse(function)
        for _ in range(3):
            x, y = made(), made()
            (expected, total), (found, its_total) = function(x), fused(y)
            assert its_total == total
            np.testing.assert_array_equal(found, expected, strict=True)
            assert np.shares_memory(found, y) == np.shares_memory(expected, x)
            assert found.flags.writeable == expected.flags.writeable
            assert found.size == 0 or not np.shares_memory(found, y) or all(  # parts of computed arrays have no gaps
                n == 1 or a == b for n, a, b in zip(found.shape, found.strides, expected.strides, strict=True))


# ---------------------------------------------------------------- threads
_drawn = np.random.default_rng(0)
_read = np.ones(2)
_pool = concurrent.futures.ThreadPoolExecutor(1)


def _in_a_thread(work: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


class _Worker(threading.Thread):
    def run(self) -> None:
        self.made = _drawn.random()


def _of_a_class() -> Any:
    worker = _Worker()
    worker.start()
    worker.join()
    return worker.made


def _of_a_pool() -> Any:
    with multiprocessing.pool.ThreadPool(1) as pool:
        return pool.apply(_drawn.random)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("draw", [
    lambda: _in_a_thread(_drawn.random), lambda: _in_a_thread(np.random.rand), lambda: _in_a_thread(time.perf_counter),
    _of_a_class, lambda: _pool.submit(_drawn.random).result(),
    lambda: sum(_pool.map(lambda k: _drawn.random(), [1, 2])), _of_a_pool,
])
def test_what_threads_draw_is_drawn_in_each_call(draw: Any) -> None:
    fused = jf.fuse(lambda x: x + draw())
    assert len({float(fused(np.zeros(1))[0]) for _ in range(5)}) == 5


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_what_threads_read_is_read_in_each_call() -> None:
    fused = jf.fuse(lambda x: (x + _in_a_thread(lambda: _read * 1), _in_a_thread(lambda: x * 2)))
    for k in range(3):
        _read[:] = k
        shown, double = fused(np.ones(2))
        assert shown.tolist() == [k + 1] * 2 and double.tolist() == [2, 2]
