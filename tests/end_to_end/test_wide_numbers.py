"""Ints beyond 64 bits that traced floats become: plain Python answers those calls, native code all others."""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome, same_outcome

import jitfuse as jf

VALUES = (1e19, -1e19, 9.3e18, 1e300, math.inf, -math.inf, math.nan, -(2.0**63), 2.0**63, 2.0**63 - 1024, -0.5)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "root": lambda a: a * math.sqrt(int(a[0])),
    "floor": lambda a: a * math.floor(a[0]),
    "ceil": lambda a: (a + 1, math.ceil(a[0])),
    "trunc": lambda a: (math.trunc(a[0]) + 1) * a,
    "round": lambda a: (a, round(a[0])),
    "int": lambda a: (a.sum() * 2, int(a.sum())),
    "quotient": lambda a: a * (int(a[0]) // 3),
    "remainder": lambda a: a * (int(a[0]) % 7),
    "written": lambda a: [a.__setitem__(1, 7.0), (int(a[0]), a + 1)][1],
    "looked at": lambda a: a * 2 if a[1] > 0 and int(a[0]) % 2 == 0 else a - int(a[0]),
    "item": lambda a: a + int(np.max(a).item()),
    "caught": lambda a: a + _caught(a[0]),
}


def _caught(value: Any) -> float:
    try:
        return int(value) % 10
    except (OverflowError, ValueError):
        return -1.0


def _outcome(f: Callable[..., Any], array: Any) -> Any:
    given = array.clone() if hasattr(array, "clone") else array.copy()
    return outcome(lambda: (f(given), given))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_before_and_after_native_code(name: str) -> None:
    f = FUNCTIONS[name]
    fused = jf.fuse(f)
    for _ in range(20):
        same_outcome(_outcome(fused, np.array([5.0, 2.0])), _outcome(f, np.array([5.0, 2.0])))
    for value in VALUES:
        same_outcome(_outcome(fused, np.array([value, 2.0])), _outcome(f, np.array([value, 2.0])))
        same_outcome(_outcome(fused, np.array([5.0, 3.0])), _outcome(f, np.array([5.0, 3.0])))
    for value in VALUES:
        same_outcome(_outcome(jf.fuse(f), np.array([value, 2.0])), _outcome(f, np.array([value, 2.0])))


def test_of_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for name in ("floor", "quotient", "int"):
        f = FUNCTIONS[name]
        fused = jf.fuse(f)
        for value in (5.0, 5.0, 1e19, 5.0, *VALUES):
            given = torch.tensor([value, 2.0], dtype=torch.float64)
            want, got = _outcome(f, given), _outcome(fused, given)
            assert isinstance(got, Exception) == isinstance(want, Exception)
            if not isinstance(want, Exception):
                same_outcome(got, want)


def test_arguments_by_name_and_modes() -> None:
    @jf.fuse
    def f(x: Any, *, scale: float, training: bool = False) -> Any:
        return x * scale * (int(x[0]) % 10) + (1.0 if training else 2.0)

    x = np.array([21.0, 3.0])
    for _ in range(3):
        np.testing.assert_array_equal(f(x, scale=2.0), x * 2.0 + 2.0)
        np.testing.assert_array_equal(f(x, scale=2.0, training=True), x * 2.0 + 1.0)
    wide = np.array([1e19 + 4096, 3.0])
    with pytest.warns(jf.FallbackWarning, match="beyond 64 bits"):
        found = f(wide, scale=0.5, training=True)
    np.testing.assert_array_equal(found, wide * 0.5 * (int(wide[0]) % 10) + 1.0)
    np.testing.assert_array_equal(f(wide, scale=0.5), wide * 0.5 * (int(wide[0]) % 10) + 2.0)
    assert f.stats()["fallbacks"] == 2


def test_threads_do_not_take_each_others(in_threads: Any) -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return x + int(x[0]) % 1000

    f(np.array([5.0]))
    f(np.array([6.0]))
    wrong: list[Any] = []

    def work(value: float) -> None:
        for _ in range(200):
            found = f(np.array([value]))[0]
            if found != value + int(value) % 1000:
                wrong.append((value, found))

    values = (1e19, 7.0, 3e25, 2.0**40)
    with warnings.catch_warnings(action="ignore"):  # the filters are the process's, so no thread may set them
        in_threads(len(values), lambda k: work(values[k]))
    assert not wrong


@pytest.mark.parametrize("base", [1, 1.0, 0.0, -2.0, 2.0, 10, math.inf, math.nan])
def test_logarithms_to_a_base(base: float) -> None:
    def known(a: Any) -> Any:
        return a[1] * math.log(a[0], base)

    def given(a: Any) -> Any:
        return a[1] * math.log(a[0], a[1])

    for f, second in ((known, 3.0), (given, base)):
        fused = jf.fuse(f)
        for value in (5.0, 5.0, 0.0, -1.0, 1.0, math.inf, math.nan, -math.inf, 5.0):
            array = np.array([value, second])
            want, got = _outcome(f, array), _outcome(fused, array)
            if isinstance(want, Exception):
                assert isinstance(got, type(want)), (value, got, want)
            else:
                np.testing.assert_allclose(got[0], want[0], rtol=1e-15)
