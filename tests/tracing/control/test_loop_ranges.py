"""Loops over ranges whose bounds are data: equal to plain Python, and traced once for all bounds."""
from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import same
from split_results import check

import jitfuse as jf

Csr = tuple[Any, Any, Any, Any]


def csr(lengths: Any, dtype: Any = np.int64, seed: int = 0) -> Csr:
    """Return the data, columns and row pointers of a matrix with rows of these lengths, and a vector."""
    rng = np.random.default_rng(seed)
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    count, n = int(pointers[-1]), len(lengths)
    return np.round(rng.random(count) - 0.4, 2), rng.integers(0, n, count).astype(dtype), pointers, rng.random(n)


def drawn(seed: int, rows: int = 9, most: int = 5, dtype: Any = np.int64) -> Csr:
    return csr(np.random.default_rng(seed).integers(0, most, rows), dtype, seed)


MANY = [drawn(seed) for seed in range(11)]
"""Matrices of one number of rows, with more different bounds than a place may show where each is traced."""


# ---------------------------------------------------------------- programs
def product(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(pointers) - 1)
    for i in range(len(pointers) - 1):
        s = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            s += data[k] * x[columns[k]]
        y[i] = s
    return y


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


def into_arguments(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    half = data[::-1]
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            half[k] = i
            x[columns[k]] -= 0.5
            x[-1] += data[k]
    return half


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
    check(program, *(drawn(seed, dtype=dtype) for seed in range(11)))


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


# ---------------------------------------------------------------- what Python raises, and what is bound
@pytest.mark.parametrize("program", [product, into_arguments])
def test_an_index_out_of_bounds_raises_as_in_numpy(program: Callable[..., Any]) -> None:
    data, columns, pointers, x = drawn(3)
    wrong = columns.copy()
    wrong[len(wrong) // 2] = len(x)
    fused = jf.fuse(program)
    for _ in range(3):
        given_ = drawn(3), drawn(3)
        same(fused(*given_[0]), program(*given_[1]))
        for args in ((data, wrong, pointers, x), (data, columns, pointers + 2, x)):
            before = copy.deepcopy(args)
            with pytest.raises(IndexError, match="is out of bounds for axis 0 with size"):
                fused(*args)
            same(args, before)  # written as a whole or not at all


def last_variable(pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            y[i] += x[k]
        y[i] += k
    return y


def last_item(pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            item = x[k]
        y[i] = item
    return y


@pytest.mark.parametrize("program", [last_variable, last_item])
def test_what_a_loop_leaves_bound_is_python_s(program: Callable[..., Any]) -> None:
    x = np.linspace(0, 1, 8)
    for bounds in (np.arange(9), np.array([0, 1, 1, 2, 3, 5, 6, 7, 8]), np.zeros(9, int)):
        fused = jf.fuse(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                try:
                    expected = program(bounds, x)
                except UnboundLocalError:
                    with pytest.raises(UnboundLocalError):
                        fused(bounds, x)
                else:
                    same(fused(bounds, x), expected)


def with_break(pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            if x[k] > 0.5:
                break
            y[i] += x[k]
    return y


def with_list(pointers: Any, x: Any) -> Any:
    found = []
    for i in range(len(x)):
        s = x[i] * 0.0
        for k in range(pointers[i], pointers[i + 1]):
            s += x[k]
        found.append(s)
    return found


def with_item_of_list(pointers: Any, x: Any) -> Any:
    found = [0.0] * len(x)
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            found[i] = x[k]
    return found


def with_while(pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            value = x[k]
            while value > 0.3:
                value = value * 0.5
            y[i] += value
    return y


def dividing(pointers: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        s = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            s = s + x[k]
        y[i] = 1.0 / s
    return y


def growing(pointers: Any, x: Any) -> Any:
    product = 1
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            product = product * (k + 2)
    return product


def of_names(pointers: Any, x: Any) -> Any:
    one, other = x, np.ones_like(x)
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            one, other = other, one
            one[k] += other[i]
    return one, other


def numbers_of_kinds(pointers: Any, x: Any) -> Any:
    s, t, u = 0, 1.5, None
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            s = s + 0.5
            t = x[k] if t > 1 else t * 2
            u = k
    return s, t, u


def of_floats(pointers: Any, x: Any) -> Any:
    narrow = x.astype(np.float32)
    y = np.zeros_like(narrow)
    for i in range(len(x)):
        s = np.float32(0)
        for k in range(pointers[i], pointers[i + 1]):
            s += narrow[k]
        y[i] = s
    return y


def of_python_floats(pointers: Any, x: Any) -> Any:
    narrow = x.astype(np.float32)
    s = 0.0
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            s += narrow[k]
    return s, s * 0.1


def shadowed(pointers: Any, x: Any) -> Any:
    k = 3
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            k = min(k + 1, 7)
            y[k] += 1
    return y, k


def in_arms(pointers: Any, x: Any) -> Any:
    y, total = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        if x[i] > 0.4:
            for k in range(pointers[i], pointers[i + 1]):
                y[k] += x[i]
                total += 1.0
        else:
            y[i] -= 1.0
    return y, total


TABLE = np.zeros(8)


def into_what_is_found_there(pointers: Any, x: Any) -> Any:
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            TABLE[k] = TABLE[k] * 0.5 + x[i]
    return TABLE.sum() * 0.0


def lists_that_grow(pointers: Any, x: Any) -> Any:
    found = [0.0]
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            found += [x[k]]
    return found


def of_rank_0(pointers: Any, x: Any) -> Any:
    s = np.zeros(())
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            s += x[k]
    return x * s


def complex_numbers(pointers: Any, x: Any) -> Any:
    z = x + 1j * x[::-1]
    s = 0j
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            s += z[k] * x[i]
            z[i] += s
    return s, z


OTHERS = [
    into_what_is_found_there, lists_that_grow, of_rank_0, complex_numbers,
    with_break, with_list, with_item_of_list, with_while, dividing, growing, of_names, numbers_of_kinds, of_floats,
    of_python_floats, shadowed, in_arms,
]


@pytest.mark.parametrize("program", OTHERS)
def test_other_loops_are_plain_python_s_too(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    calls = [(csr(np.random.default_rng(seed).integers(0, 3, 8))[2] % 9, np.linspace(0, 1, 8)) for seed in range(12)]
    calls += [(np.minimum(pointers, 7), x) for pointers, x in calls]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for args in calls:
            expected, found = copy.deepcopy(args), copy.deepcopy(args)
            try:
                result = program(*expected)
            except Exception as error:
                with pytest.raises(type(error)):
                    fused(*found)
            else:
                same(fused(*found), result)
                same(found, expected)


# ---------------------------------------------------------------- drawn
@settings(max_examples=25, deadline=None)
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


# ---------------------------------------------------------------- errors that are caught, and iterators
def caught_around(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    try:
        for i in range(12):
            for k in range(p[i], p[i + 1]):
                v = d[k]
            y[i] = v
    except Exception:
        y[0] = -1
    return y


def caught_afterwards(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v
    try:
        x[0] = v * k
    except NameError:
        x[0] = -1
    return x


def _last_of(p: Any, d: Any, i: Any) -> Any:
    for k in range(p[i], p[i + 1]):
        v = d[k]
    return v


def caught_by_the_caller(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    for i in range(12):
        try:
            y[i] = _last_of(p, d, i)
        except UnboundLocalError:
            y[i] = -1
    return y


def suppressed(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v
    with contextlib.suppress(NameError):
        x[0] = v * 3
    return x


def caught_in_a_closure(p: Any, d: Any, x: Any) -> Any:
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            v = d[k]
            x[i] = v

    def last() -> Any:
        try:
            return v
        except NameError:
            return -1.0

    return last()


_fused_last = jf.fuse(_last_of)


def caught_around_a_fused_call(p: Any, d: Any, x: Any) -> Any:
    y = np.zeros(12)
    for i in range(12):
        try:
            y[i] = _fused_last(p, d, i)
        except Exception:
            y[i] = -1
    return y


def used_up(p: Any, d: Any, x: Any) -> Any:
    it = iter([1.0, 2.0, 3.0])
    for i in range(12):
        for k in range(p[i], p[i + 1]):
            x[i] += d[k] * sum(it)
    return x


def used_up_in_a_branch(p: Any, d: Any, x: Any) -> Any:
    it = iter([1.0, 2.0, 3.0])
    for i in range(12):
        if d[i] > 0.3:
            x[i] += max(it, default=0.5)
    return x


@pytest.mark.parametrize("program", [
    caught_around, caught_afterwards, caught_by_the_caller, suppressed, caught_in_a_closure, caught_around_a_fused_call,
    used_up, used_up_in_a_branch,
])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_what_is_caught_and_used_up_is_python_s(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p = np.concatenate([[0], np.cumsum(rng.integers(1, 4, 12))])
        arguments = p, np.round(rng.random(int(p[-1])), 2), rng.random(12)
        want, got = program(*copy.deepcopy(arguments)), fused(*copy.deepcopy(arguments))
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
