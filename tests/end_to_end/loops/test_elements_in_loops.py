"""Loops that write single elements at places of data: in place, in loops within loops, as NumPy does."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_checked import check, same

import jitfuse as jf

N = 9
PLACES = np.array([3, 0, 8, 3, 3, -1, 7, 2, 0, 5, -9, 8])
VALUES = np.linspace(-1, 2, N)


def counted(places: Any, values: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        h[places[i]] += values[i % N]
        return h

    return jf.fori_loop(0, len(places), body, values)


def exchanged(places: Any, values: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        a, b = places[i], places[i - 1]
        one, other = h[a], h[b]
        h[a] = other
        h[b] = one
        return h

    return jf.fori_loop(1, len(places), body, values)


def handed_on(places: Any, values: Any) -> Any:
    def body(i: Any, carried: Any) -> Any:
        h, s = carried
        old = h[places[i]]
        h[places[i]] = s
        return h, old * 0.5 + h[0]

    return jf.fori_loop(0, len(places), body, (values, 1.5))


def read_as_a_whole(places: Any, values: Any) -> Any:
    def body(i: Any, carried: Any) -> Any:
        h, s = carried
        s = s + h.max()
        h[places[i]] -= s
        return h, s + h[2:5].max()

    return jf.fori_loop(0, len(places), body, (values, 0.0))


def nested(places: Any, values: Any) -> Any:
    def outer(i: Any, h: Any) -> Any:
        h[places[i]] += 1.0
        begin = h[places[0]]

        def inner(j: Any, h: Any) -> Any:
            h[places[j]] += begin * h[places[i]]
            return h

        h = jf.fori_loop(0, places[i], inner, h)
        h[2] = begin
        return h

    return jf.fori_loop(0, len(places), outer, values)


def nested_beside_views(places: Any, values: Any) -> Any:
    def outer(i: Any, h: Any) -> Any:
        part = h[2:6] + 0.0
        view = h[::2]

        def inner(j: Any, h: Any) -> Any:
            h[places[j]] = part[j % 4] + view[j % 5]
            return h

        return jf.fori_loop(0, i, inner, h)

    return jf.fori_loop(0, len(places), outer, values)


def turned(places: Any, values: Any) -> Any:
    def outer(i: Any, carried: Any) -> Any:
        def inner(j: Any, carried: Any) -> Any:
            a, b = carried
            a[places[j]] = b[places[i]] + 1.0
            return b, a

        a, b = jf.fori_loop(0, i % 4, inner, carried)
        b[0] = a[places[i]]
        return a, b

    return jf.fori_loop(0, len(places), outer, (values, values[::-1].copy()))


def carried_twice(places: Any, values: Any) -> Any:
    def outer(i: Any, h: Any) -> Any:
        def inner(j: Any, carried: Any) -> Any:
            a, b = carried
            a[places[j]] += 1.0
            b[places[j]] -= a[0]
            return a, b

        a, b = jf.fori_loop(0, 3, inner, (h, h))
        return a + b

    return jf.fori_loop(0, len(places), outer, values)


def while_it_lasts(places: Any, values: Any) -> Any:
    def going(carried: Any) -> Any:
        h, k = carried
        return (h[0] < 4.0) & (k < len(places))

    def body(carried: Any) -> Any:
        h, k = carried
        h[places[k]] += 1.0
        return h, k + 1

    return jf.while_loop(going, body, (values, 0))


def in_tables(places: Any, values: Any) -> Any:
    table = np.zeros((3, N))

    def body(i: Any, table: Any) -> Any:
        table[i % 3, places[i]] += values[i % N]
        table[-1] += table[i % 3] * 0.5
        return table

    return jf.fori_loop(0, len(places), body, table)


PROGRAMS = [
    counted, exchanged, handed_on, read_as_a_whole, nested, nested_beside_views, turned, carried_twice, while_it_lasts,
    in_tables,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_elements_are_written_as_in_numpy(program: Callable[..., Any]) -> None:
    check(program, PLACES, VALUES)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64", "complex128"])
def test_elements_of_any_dtype(dtype: str) -> None:
    check(exchanged, PLACES, np.arange(N).astype(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32])
def test_places_of_any_dtype(dtype: Any) -> None:
    check(counted, np.abs(PLACES).astype(dtype) % N, VALUES)


def test_places_out_of_bounds_raise() -> None:
    fused, places = jf.fuse(counted), PLACES.copy()
    places[5] = N
    for _ in range(3):
        with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
            fused(places, VALUES)
        same(fused(PLACES, VALUES), counted(PLACES, VALUES))


def test_a_loop_in_a_loop_goes_on_in_place() -> None:
    """In time that does not grow with the array: only its own memory is in the plan, and no copy of it."""
    fused = jf.fuse(nested)
    large = np.zeros(1 << 16)
    same(fused(PLACES, large), nested(PLACES, large))
    report = fused.explain(PLACES, large)
    assert "over 65536" not in report


# ---------------------------------------------------------------- drawn
_WRITES = st.tuples(
    st.sampled_from(["set", "add", "slice", "scalar", "whole"]), st.integers(0, 1), st.integers(0, 1),
    st.integers(0, 3), st.integers(0, 3),
)
_BLOCK = st.lists(_WRITES, min_size=1, max_size=4)


def drawn(writes: list[Any], inner: list[Any], after: list[Any], swapped: bool) -> Callable[..., Any]:
    """Return a function of two loops, in which these writes go to two arrays and a number."""

    def run(block: list[Any], i: Any, carried: Any, places: Any) -> Any:
        *arrays, s = carried
        for kind, target, source, p, q in block:
            at, other = places[i + p], places[i + q]
            if kind == "set":
                arrays[target][at] = arrays[source][other] + s
            elif kind == "add":
                arrays[target][at] += arrays[source][other]
            elif kind == "slice":
                arrays[target][p : p + 2] = arrays[source][q : q + 2] * 0.5
            elif kind == "scalar":
                s = s * 0.5 + arrays[source][at]
            else:
                s = s + arrays[source][p:].max() * 0.25
        return (*arrays, s)

    def program(places: Any, a: Any, b: Any) -> Any:
        def within(j: Any, carried: Any) -> Any:
            found = run(inner, j, carried, places)
            return (found[1], found[0], found[2]) if swapped else found

        def around(i: Any, carried: Any) -> Any:
            carried = run(writes, i, carried, places)
            carried = jf.fori_loop(i % 2, places[i] % 4, within, carried)
            return run(after, i, carried, places)

        return jf.fori_loop(0, 6, around, (a, b, 0.5))

    return program


@settings(max_examples=amount.drawn(40), deadline=None)
@given(_BLOCK, _BLOCK, _BLOCK, st.booleans(), st.integers(0, 1000))
def test_drawn_loops(writes: list[Any], inner: list[Any], after: list[Any], swapped: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    args = rng.integers(-5, 5, 12), np.round(rng.random(5), 2), np.round(rng.random(5), 2)
    program = drawn(writes, inner, after, swapped)
    fused = jf.fuse(program)
    for _ in range(2):
        same(fused(*args), program(*args))
