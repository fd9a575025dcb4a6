"""Errors that data causes and the function catches: fused as in plain Python, whichever call they come in."""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import check

import jitfuse as jf


def divided(c: Any, x: Any, k: Any) -> Any:
    y = np.zeros(len(c))
    for i in range(len(c)):
        try:
            y[i] += 1 / int(c[i])
        except ZeroDivisionError:
            y[i] = -1
        except (ValueError, OverflowError):
            y[i] = -2
    return y


def _quotient(a: Any, b: Any) -> Any:
    try:
        return a // b
    except ZeroDivisionError:
        return -5


def divided_in_a_helper(c: Any, x: Any, k: Any) -> Any:
    return [_quotient(int(k[i]), int(k[i - 1])) for i in range(len(k))]


def suppressed(c: Any, x: Any, k: Any) -> Any:
    y = np.zeros(6)
    for i in range(6):
        with contextlib.suppress(ZeroDivisionError):
            y[i] = int(k[i]) % int(k[i - 1])
    return y


def of_no_use(c: Any, x: Any, k: Any) -> Any:
    caught = 0
    for i in range(6):
        try:
            1 / int(k[i])
        except ZeroDivisionError:
            caught += 1
    return x * caught


def with_its_text(c: Any, x: Any, k: Any) -> Any:
    try:
        return float(x[0]) / float(k[0])
    except ZeroDivisionError as error:
        return str(error), type(error).__name__
    finally:
        x[0] = 7


def divided_both_ways(c: Any, x: Any, k: Any) -> Any:
    found: list[Any] = []
    for i in range(3):
        try:
            found.append((divmod(float(k[i]), float(k[i - 1])), divmod(int(k[i]), int(k[i + 1]))))
        except ZeroDivisionError as error:
            found.append(str(error))
    return found


def indexed(c: Any, x: Any, k: Any) -> Any:
    try:
        v = x[k[0]]
    except IndexError:
        v = -1.0
    else:
        v = v + 1
    return v


def indexed_for_nothing(c: Any, x: Any, k: Any) -> Any:
    caught = 0
    for i in range(6):
        try:
            x[k[i]]
        except IndexError:
            caught += 1
    return caught


def indexed_by_an_array(c: Any, x: Any, k: Any) -> Any:
    try:
        return x[k]
    except IndexError as error:
        return str(error)


def written(c: Any, x: Any, k: Any) -> Any:
    try:
        x[k] = 1
    except IndexError:
        x[:] = -1
    return x


def written_one_by_one(c: Any, x: Any, k: Any) -> Any:
    with contextlib.suppress(IndexError):
        for i in range(6):
            x[i] = x[k[i]]
    return x


def taken(c: Any, x: Any, k: Any) -> Any:
    try:
        return x.take(k), np.take_along_axis(x, k, 0)
    except IndexError:
        return None


def rooted(c: Any, x: Any, k: Any) -> Any:
    try:
        return math.sqrt(float(k[0]))
    except ValueError as error:
        return str(error)


def listed(c: Any, x: Any, k: Any) -> Any:
    try:
        return [10, 20, 30][int(k[0])], {0: x, 2: x + 1}[int(k[1])]
    except IndexError as error:
        return str(error)
    except KeyError as error:
        return error.args


def raised_to_powers(c: Any, x: Any, k: Any) -> Any:
    try:
        return np.power(np.arange(6) + 1, k), k[0] ** -1
    except ValueError as error:
        return str(error)


def python_powers(c: Any, x: Any, k: Any) -> Any:
    try:
        return (float(k[0]) ** -1, (float(k[0]) * 1e200) ** 2.0)
    except (ZeroDivisionError, OverflowError) as error:
        return str(error)


def made_ints(c: Any, x: Any, k: Any) -> Any:
    y = np.zeros(6, int)
    try:
        y[0] = c[0] * 1e300 * float(k[1])
        y[1] = int(c[1])
    except (ValueError, OverflowError) as error:
        y[2] = -9
        return y, str(error)
    return y, ""


def all_nan(c: Any, x: Any, k: Any) -> Any:
    try:
        return np.nanargmax(np.where(k[0] > 0, x, np.nan))
    except ValueError as error:
        return str(error)


def returned_from_finally(c: Any, x: Any, k: Any) -> Any:
    try:
        return 1 / int(k[0])
    finally:
        return -1  # noqa: B012, SIM107


class _Catches:
    kind: type[BaseException] | None = None

    def __enter__(self) -> _Catches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> bool:
        self.kind = kind
        return True


def caught_by_a_manager(c: Any, x: Any, k: Any) -> Any:
    manager = _Catches()
    with manager:
        1 / int(k[0])
    return manager.kind.__name__ if manager.kind else None


def caught_by_a_generator(c: Any, x: Any, k: Any) -> Any:
    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        try:
            yield
        except ZeroDivisionError:
            x[0] = 99

    with manager():
        x[1] = 1 / int(k[0])
    return x


def from_a_generator(c: Any, x: Any, k: Any) -> Any:
    found: list[Any] = []
    try:
        for v in (1 / int(v) for v in k):
            found.append(v)
    except ZeroDivisionError:
        found.append("x")
    return found


class _Places:
    def __init__(self, x: Any, k: Any) -> None:
        self.x, self.k = x, k

    def __getitem__(self, i: int) -> Any:
        return self.x[self.k[i]]


def iterated_by_items(c: Any, x: Any, k: Any) -> Any:
    return list(_Places(x, np.abs(k)))


def nested(c: Any, x: Any, k: Any) -> Any:
    try:
        try:
            v = 1 / int(k[0])
        except IndexError:
            v = 1
    except ZeroDivisionError:
        v = 2
    else:
        v = 3 * v
    return v


def raised_anew(c: Any, x: Any, k: Any) -> Any:
    try:
        try:
            return 1 / int(k[0])
        except ZeroDivisionError as error:
            raise ValueError("bad") from error
    except ValueError as error:
        return str(error), str(error.__cause__)


def left_early(c: Any, x: Any, k: Any) -> Any:
    for i in range(6):
        try:
            if k[i] == 0:
                continue
            x[i] = 1 / int(k[i])
            if k[i] > 5:
                break
        finally:
            x[0] += 1
    return x


def before_the_block(c: Any, x: Any, k: Any) -> Any:
    a = 1 / int(k[0])
    try:
        return a if x.sum() > 3 else 2
    except ZeroDivisionError:
        return -1


def shapes(c: Any, x: Any, k: Any) -> Any:
    found = []
    for work in (lambda: x[900], lambda: x + np.ones(7), lambda: x.reshape(5)):
        try:
            found.append(work())
        except (IndexError, ValueError) as error:
            found.append((str(error), type(error)))
    return found


def indexed_by_constants(c: Any, x: Any, k: Any) -> Any:
    y = x * 2
    inside, outside = np.arange(3), np.arange(5, 7)

    def written(at: Any) -> None:
        y[at] = 3

    for at in (inside, outside, np.array([7]), np.full(2, -9), [0, 2]):
        for work in (  # called at once
            lambda: x[at].sum(), lambda: np.take(x, at), lambda: np.add.at(y, at, 1), lambda: written(at),  # noqa: B023
        ):
            try:
                work()
            except IndexError:
                y += 10
    return y


PROGRAMS = [
    divided, divided_in_a_helper, suppressed, of_no_use, with_its_text, divided_both_ways, indexed, indexed_for_nothing,
    indexed_by_an_array, written, written_one_by_one, taken, rooted, listed, raised_to_powers, python_powers, made_ints,
    all_nan, returned_from_finally, caught_by_a_manager, caught_by_a_generator, from_a_generator, iterated_by_items,
    nested, raised_anew, left_early, before_the_block, shapes,
    indexed_by_constants,
]


def _calls() -> list[tuple[Any, Any, Any]]:
    calls = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        calls.append((rng.integers(-1, 3, 6).astype(float), rng.random(6), rng.integers(-4, 9, 6)))
    calls.append((np.array([1, np.nan, 2, np.inf, 0, 1e300]), np.ones(6), np.arange(6)))
    calls.append((np.ones(6), np.ones(6), np.ones(6, int)))
    return calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_are_caught_as_in_python(program: Callable[..., Any]) -> None:
    check(program, *_calls(), errors=Exception, compiled=False)


def test_what_raises_nothing_is_compiled_within_blocks() -> None:
    def function(x: Any, k: Any) -> Any:
        try:
            return x[k] * (1 / int(k[0]))
        except (IndexError, ZeroDivisionError):
            return x

    fused = jf.fuse(function)
    for k in (np.array([1, 2, 3]), np.array([4, 0, 2]), np.array([3, 3, 3])):
        np.testing.assert_array_equal(fused(np.arange(5.0), k), function(np.arange(5.0), k))
    assert fused.stats()["fallbacks"] == 0


def test_constants_within_bounds_are_compiled_within_blocks() -> None:
    def function(x: Any) -> Any:
        try:
            return x[np.arange(3)] + np.take(x, np.full(3, -1)) + x[[0, 1, 4]]
        except IndexError:
            return x

    fused = jf.fuse(function, strict=True)
    np.testing.assert_array_equal(fused(np.arange(5.0)), function(np.arange(5.0)))
