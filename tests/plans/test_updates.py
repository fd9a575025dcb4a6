"""Updates that the next one writes over are left out, whatever is read in between: the bits stay those of NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf
from jitfuse.ir.program import FusedProgram
from jitfuse.plans.updates import updated_in_place

WRITTEN = (np.s_[2], np.s_[1:3], np.s_[1:4:2], np.s_[:0], np.s_[4:1:-1])
READ = {
    "the same": lambda a, k: a[k],
    "apart": lambda a, k: a[5:].sum(),
    "apart by parity": lambda a, k: a[2::2].sum(),
    "next to it": lambda a, k: a[0],
    "part of it": lambda a, k: a[1:2].sum(),
    "more than it": lambda a, k: a[:6].sum(),
    "all": lambda a, k: a.sum(),
    "the same, as a copy that is kept": lambda a, k: np.sum(a[k].copy()),
}


def updates(program: FusedProgram) -> int:
    return sum(s.op_name == "update_slice" for s in program.steps)


@pytest.mark.parametrize(("what", "key"), crossed(2, READ, WRITTEN), ids=str)
def test_what_is_read_between_two_updates(what: str, key: Any) -> None:
    read: Callable[[Any, Any], Any] = READ[what]

    def f(a: Any, x: Any) -> Any:
        seen = []
        for k in range(4):
            a[key] = a[key] * x
            seen.append(read(a, key) * 2.0)
            a[key] = a[key] / (a[6] + k)
            a[key] = np.sqrt(a[key]) - a[7]
        return seen, a[1:]

    for first in (np.nan, -0.0, 3.0):
        data = np.array([first, 4.0, 2.5, 9.0, 1.5, 7.0, 2.0, 0.25, 8.0, 6.0])
        plain, ours = data.copy(), np.repeat(data, 2)[::2]
        expected, result = f(plain, 1.5), jf.fuse(f)(ours, 1.5)
        np.testing.assert_array_equal(ours, plain)
        for e, r in zip((*expected[0], expected[1]), (*result[0], result[1]), strict=True):
            np.testing.assert_array_equal(np.signbit(e), np.signbit(r))
            np.testing.assert_allclose(r, e, rtol=1e-14)


@pytest.mark.parametrize("what", ["the same", "apart", "next to it", "all"])
def test_which_updates_are_left_out(what: str, plan_of: Callable[..., Any]) -> None:
    def f(a: Any) -> Any:
        for _ in range(4):
            a[2] = a[2] + 1.0
            a[2] = a[2] / READ[what](a, np.s_[2])
            a[3] = a[2]
        return a

    program = plan_of(f, np.arange(1.0, 11.0)).program
    left = {"the same": 4, "apart": 4, "next to it": 4, "all": 0}[what]
    assert updates(program) - updates(updated_in_place(program, {})) == left


def test_a_number_written_over_a_region_is_not_what_is_read_of_it() -> None:
    def f(a: Any, x: Any) -> Any:
        for _ in range(4):
            a[1:4] = x * 2.0
            a[1:4] = a[1:4] * a[0]
            a[5:6, :] = x
            a[5:6, :] = a[5:6, :].sum() * a[4]
        return a

    data = np.random.default_rng(0).random((6, 3))
    np.testing.assert_array_equal(jf.fuse(f)(data.copy(), 1.5), f(data.copy(), 1.5))


def test_integers_written_into_floats_are_read_as_floats() -> None:
    def f(a: Any, n: Any) -> Any:
        for _ in range(4):
            a[1] = n
            a[1] = a[1] / a[0]
        return a

    data, numbers = np.arange(1.0, 5.0), np.asarray(7)
    np.testing.assert_array_equal(jf.fuse(f)(data.copy(), numbers), f(data.copy(), numbers))
