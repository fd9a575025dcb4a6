"""Rows and blocks that are read and written at places of data: swapped, in chains, in loops, out of bounds."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed, drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_checked import check, same

import jitfuse as jf

A = np.random.default_rng(3).integers(-9, 9, (7, 5)) + 0.5
PLACES = np.array([2, 5, -1, 0, 2, 6])


def swapped(p: Any, a: Any) -> Any:
    a = a.copy()
    a[[0, p[0]]] = a[[p[0], 0]]
    a[[p[1], p[2]]] = a[[p[2], p[1]]]
    return a


def eliminated(p: Any, a: Any) -> Any:
    a = a.copy()
    for k in range(3):
        a[[k, p[k]]] = a[[p[k], k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def of_the_array_itself(p: Any, a: Any) -> Any:
    a = a.copy()
    for k in range(4):
        a[p[k]] = a[::-1].sum(axis=0) * 0.125 + a[p[k + 1]]
        a[p[k + 1], ::-1] = a[p[k]] - 1.0
    return a


def at_places_that_it_holds(p: Any, a: Any) -> Any:
    a = a.copy()
    for k in range(4):
        place = (np.abs(a[p[k], 0]) * 100).astype(np.int64) % 7
        a[place] = a[0] * 0.5 + a[place - 1]
        a[k] += a[(np.abs(a[k, 1]) * 10).astype(np.int64) % 7]
    return a


def broadcast(p: Any, a: Any) -> Any:
    a = a.copy()
    a[p[0]] = 2.5
    a[p[1]] = a[p[2], :1]
    a[[p[3], p[4]]] = a[1]
    a[[p[3], p[5]]] = a[:2] * 2
    a[p[0]] += 1
    return a


def of_more_axes(p: Any, a: Any) -> Any:
    cube = np.stack([a, a * 2, a - 1])
    cube[p[0], p[1]] = cube[0, p[2]] + 1.0
    cube[p[0] - 1] = cube[p[4]] * 0.5
    cube[1, p[2]] = 7.0
    cube[-1, 0, p[3]] = 8.0
    cube[p[0], :, p[3]] -= 3.0
    return cube


def columns(p: Any, a: Any) -> Any:
    a = a.copy()
    a[:, [1, p[0]]] = a[:, [p[0], 1]]
    a[:, p[3]] = a.sum(axis=1)
    return a


def read_between(p: Any, a: Any) -> Any:
    a = a.copy()
    found = []
    for k in range(5):
        before = a[1:3] * 2.0
        a[p[k]] = before[0] + k
        found.append(a[p[k]] + before[1])
        found.append(a[k, None])
    return a, np.concatenate([f.reshape(-1) for f in found])


def in_a_loop(p: Any, a: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        a[p[i]] = a[p[i - 1]] * 0.5 + a[i]
        a[[i, p[i]]] = a[[p[i], i]]
        return a

    return jf.fori_loop(0, len(p), body, a)


def in_a_loop_of_loops(p: Any, a: Any) -> Any:
    def around(i: Any, a: Any) -> Any:
        def within(j: Any, a: Any) -> Any:
            a[p[j]] += a[i] * 0.5 + a[p[i]].max()
            return a

        return jf.fori_loop(0, p[i] % 4 + 1, within, a)

    return jf.fori_loop(0, len(p), around, a)


def summed_in_a_loop(p: Any, a: Any) -> Any:
    sums = np.zeros((3, a.shape[1]))

    def body(i: Any, sums: Any) -> Any:
        sums[p[i] % 3] += a[i]
        return sums

    return jf.fori_loop(0, len(p), body, sums)


PROGRAMS = [
    swapped, eliminated, of_the_array_itself, at_places_that_it_holds, broadcast, columns, read_between,
    in_a_loop, in_a_loop_of_loops, summed_in_a_loop,
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("given_as", [np.copy, np.asfortranarray, np.flipud, lambda a: np.repeat(a, 2, 1)[:, ::2]])
def test_rows_are_written_as_in_numpy(program: Callable[..., Any], given_as: Callable[..., Any]) -> None:
    check(program, PLACES, given_as(A))


def test_blocks_of_more_axes() -> None:
    check(of_more_axes, PLACES % 3, A)


@pytest.mark.parametrize(("program", "dtype"), crossed(
    2, [swapped, eliminated, broadcast, read_between], ["float32", "float16", "complex128", "int64", "bool"]))
def test_rows_of_any_dtype(program: Callable[..., Any], dtype: str) -> None:
    a = (A * 4).astype(dtype)
    if program is eliminated and np.dtype(dtype).kind not in "fc":
        return
    if program in (broadcast, read_between) and dtype == "bool":
        return
    check(program, PLACES, a)


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (7, 0), (7, 40_000), (300, 501)])
def test_rows_of_any_length(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(-9, 9, shape) + 0.5
    places = PLACES % shape[0]

    def program(p: Any, a: Any) -> Any:
        a = a.copy()
        for k in range(5):
            a[[p[k], 0]] = a[[0, p[k]]]
            a[p[k]] = a[p[k + 1]] * 0.5 + a[0]
        return a, a.sum(axis=0)

    check(program, places, a)


@pytest.mark.parametrize("place", [7, -8, 1 << 40])
def test_places_out_of_bounds_raise(place: int) -> None:
    fused, places = jf.fuse(eliminated), PLACES.copy()
    places[1] = place
    for _ in range(3):
        with pytest.raises(IndexError, match=f"index {place} is out of bounds for axis 0 with size 7"):
            fused(places, A)
        same(fused(PLACES, A), eliminated(PLACES, A))


_WRITES = st.lists(
    st.tuples(st.sampled_from(["row", "swap", "add", "slice", "element", "sum"]), *[st.integers(0, 5)] * 2),
    min_size=3, max_size=10,
)


@pytest.mark.full
@settings(max_examples=drawn(60), deadline=None)
@given(_WRITES, st.integers(0, 1000))
def test_drawn_updates(writes: list[Any], seed: int) -> None:
    def program(p: Any, a: Any, b: Any) -> Any:
        found = []
        for kind, m, n in writes:
            if kind == "row":
                a[p[m]] = b[p[n]] * 0.5 + a[n]
            elif kind == "swap":
                a[[m, p[n]]] = a[[p[n], m]]
            elif kind == "add":
                b[p[m]] += a[p[n]] - 1.0
            elif kind == "slice":
                a[m:, 1:3] = b[p[n], 1:3]
            elif kind == "element":
                b[p[m], 2] = a[n, p[m] % 4]
            else:
                found.append(a[:m].sum() + b[p[n]].max())
        return found

    rng = np.random.default_rng(seed)
    places, (a, b) = rng.integers(-6, 6, 6), (rng.integers(-9, 9, (2, 6, 4)) + 0.5)
    fused = jf.fuse(program)
    for _ in range(2):
        mine, plain = (a.copy(), b.copy()), (a.copy(), b.copy())
        same(fused(places, *mine), program(places, *plain))
        same(mine, plain)


# ---------------------------------------------------------------- what is written into arguments in the end
def written_and_gone_on_with(p: Any, a: Any) -> Any:
    b = a[1:]
    b[p[0]] = b[p[1]] * 2
    c = b * 1.0
    for k in range(3):
        c[p[k] % 4] = c[p[k + 1] % 4] * 2
    return c


def copied_and_gone_on_with(p: Any, a: Any) -> Any:
    b = a[::-1]
    b[p[0]] = 7.0
    c = b.copy()

    def body(i: Any, c: Any) -> Any:
        c[p[i]] += 1.0
        return c

    return jf.fori_loop(0, len(p), body, c)


def part_gone_on_with(p: Any, a: Any) -> Any:
    c = np.zeros(4)
    for k in range(5):
        c[k % 4] = a[k, 0] + 1
    a[1:5, 1] = c
    for k in range(5):
        c[k % 4] = a[k, 0] + 3
    return c


def elements_gone_on_with(p: Any, a: Any) -> Any:
    b = a[1:]
    b[p[0], p[1] % 5] = 7.0
    c = b * 1.0
    for k in range(6):
        c[k % 4] = c[k % 4 + 1] + 9.0
    return c


@pytest.mark.parametrize(
    "program", [written_and_gone_on_with, copied_and_gone_on_with, part_gone_on_with, elements_gone_on_with])
def test_arguments_hold_what_was_written_not_what_came_later(program: Callable[..., Any]) -> None:
    fused, places = jf.fuse(program), PLACES % 5
    for _ in range(3):
        mine, plain = A.copy(), A.copy()
        same(fused(places, mine), program(places, plain))
        same(mine, plain)


@pytest.mark.parametrize("places", [(9, 1), (1, 9), (-4, 0), (0, -8), (9, 9)])
def test_the_axis_of_an_index_out_of_bounds_is_named(places: tuple[int, int]) -> None:
    def rows(cube: Any, p: Any) -> Any:
        cube = cube * 1.0
        cube[p[0], p[1]] = 3
        return cube

    def elements(cube: Any, p: Any) -> Any:
        cube = cube * 1.0
        cube[p[0], p[1], p[1] % 2] = 3
        return cube

    cube, given = np.zeros((3, 7, 5)), np.array(places)
    for program in (rows, elements):
        with pytest.raises(IndexError) as plain:
            program(cube, given)
        with pytest.raises(IndexError, match=str(plain.value).replace("(", r"\(")):
            jf.fuse(program)(cube, given)
