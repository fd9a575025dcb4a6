"""Loops over ranges of data: what Python raises in them, what they leave bound, and those that are plain Python's."""
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import same
from sparse_rows import csr, drawn, into_arguments, product

import jitfuse as jf


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
