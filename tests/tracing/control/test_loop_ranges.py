"""Loops over ranges whose bounds are data: equal to plain Python, and traced once for all bounds."""
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import same
from sparse_rows import MANY, csr, drawn, into_arguments, product
from split_results import check

import jitfuse as jf


def product_in_place(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        for k in range(int(pointers[i]), int(pointers[i + 1])):
            y[i] += data[k] * x[columns[k]]
    return y


def transposed(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] < 0.2:
            continue
        for k in range(pointers[i], pointers[i + 1]):
            y[columns[k]] += data[k] * x[i]
    return y


def ranked(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    n = len(x)
    rank = np.full(n, 1 / n)
    for _ in range(3):
        new = np.zeros(n)
        for u in range(n):
            degree = pointers[u + 1] - pointers[u]
            if degree == 0:
                continue
            share = rank[u] / degree
            for k in range(pointers[u], pointers[u + 1]):
                new[columns[k]] += share
        rank = 0.15 / n + 0.85 * new
    return rank


def relaxed(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    n = len(x)
    far = np.full(n, np.inf)
    far[0] = 0.0
    parent = np.full(n, -1)
    for _ in range(n - 1):
        for u in range(n):
            for k in range(pointers[u], pointers[u + 1]):
                v = columns[k]
                if far[u] + abs(data[k]) < far[v]:
                    far[v] = far[u] + abs(data[k])
                    parent[v] = u
    return far, parent


def largest(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    out, at = np.zeros(len(x)), np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        best, place = -np.inf, -1
        for k in range(pointers[i], pointers[i + 1]):
            if data[k] > best:
                best, place = data[k], k
        out[i], at[i] = best, place
    return out, at


def backwards(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        value = x[i]
        for k in range(pointers[i + 1] - 1, pointers[i] - 1, -1):
            value = value * 0.5 + data[k]
        y[i] = value
    return y


def by_two(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    total = 0
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1], 2):
            total += data[k]
    return x[0] + total


def told_apart(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    above = 0
    seen = False
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            if data[k] > 0.3 and k % 3 != 1:
                above += 1
            elif data[k] < -0.3:
                seen = True
    return above, seen


def sums_of_some(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        s, count = 0.0, 0
        for k in range(pointers[i], pointers[i + 1]):
            if data[k] > 0:
                s += data[k]
                count += 1
        if count > 0:
            y[i] = s / count
    return y


def triangles(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    found = 0
    for u in range(len(x)):
        for k in range(pointers[u], pointers[u + 1]):
            v = columns[k]
            for j in range(pointers[v], pointers[v + 1]):
                if columns[j] == u:
                    found += 1
    return found


def rows_of_tables(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    table = np.zeros((len(x), 3))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            table[columns[k], 1] += data[k]
            table[i] = table[i] * 0.5 + table[columns[k]]
    return table


def by_a_helper(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = row_times(data, columns, x, pointers[i], pointers[i + 1])
    return y


def row_times(data: Any, columns: Any, x: Any, first: Any, last: Any) -> Any:
    s = 0.0
    for k in range(first, last):
        s = s + data[k] * x[columns[k]]
    return s


PROGRAMS = [
    product, product_in_place, transposed, ranked, relaxed, largest, backwards, by_two, told_apart, sums_of_some,
    triangles, into_arguments, rows_of_tables, by_a_helper,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_plain_python_s_for_any_bounds(program: Callable[..., Any]) -> None:
    fused = check(program, *MANY)
    assert fused.stats()["fallbacks"] == 0
    assert "plain Python" not in fused.explain(*MANY[0])


@pytest.mark.parametrize("program", [product, transposed, largest, told_apart])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint16])
def test_bounds_of_any_integer_dtype(program: Callable[..., Any], dtype: Any) -> None:
    check(program, *(drawn(seed, dtype=dtype) for seed in range(4)))


@pytest.mark.parametrize("lengths", [[], [0], [3], [0, 0, 0, 0, 0, 0], [0, 7, 0, 0, 1], [1] * 17, [40, 0]])
@pytest.mark.parametrize("program", [product, largest, told_apart, rows_of_tables])
def test_edges(program: Callable[..., Any], lengths: Any) -> None:
    check(program, drawn(0), csr(lengths))


def test_new_bounds_are_not_traced() -> None:
    fused = jf.fuse(product)
    columns = np.arange(40) % 8
    data, x = np.linspace(0, 1, 40), np.linspace(-1, 1, 8)
    rng = np.random.default_rng(0)
    traces = []
    for _ in range(20):
        pointers = np.sort(rng.integers(0, 41, 9))
        same(fused(data, columns, pointers, x), product(data, columns, pointers, x))
        traces.append(fused.stats()["traces"])
    assert traces[0] == traces[-1]
    assert fused.stats()["fallbacks"] == 0


def once(bounds: Any, x: Any) -> Any:
    s = x[0] * 0.0
    for k in range(bounds[0]):
        s = s * 0.5 + x[k]
    return s


def test_one_loop_whose_bound_is_another_one_in_each_call() -> None:
    fused = check(once, *((np.array([n]), np.linspace(-1, 1, 20)) for n in range(21)))
    assert fused.stats()["traces"] < 14


def test_unordered_and_negative_bounds() -> None:
    data, columns, _, x = drawn(1, rows=8, most=9)
    rng = np.random.default_rng(5)
    n = len(data)
    check(product, *((data, columns, rng.integers(-n, n, 9), x) for _ in range(11)))


# ---------------------------------------------------------------- drawn
@pytest.mark.full
@settings(max_examples=amount.drawn(25), deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(0, 99),
    st.sampled_from([np.int32, np.int64]), st.sampled_from(PROGRAMS),
)
def test_drawn_structures(lengths: list[int], seed: int, dtype: Any, program: Callable[..., Any]) -> None:
    given_ = csr(lengths, dtype, seed)
    expected, found = copy.deepcopy(given_), copy.deepcopy(given_)
    result = program(*expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(_FUSED[program](*found), result)
    same(found, expected)


_FUSED = {program: jf.fuse(program) for program in PROGRAMS}
