"""A plugin of pytest that puts `contract` behind opt_einsum: its einsum, its tensordot.

NumPy's einsum repeats axes of size 1, and contract does not: such axes are taken out here first.
"""
from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from opt_einsum import get_symbol
from opt_einsum.backends import dispatch
from opt_einsum.parser import parse_einsum_input

from jitfuse.axes import Axis, TensorOp, ax, contract

calls = 0


@functools.cache
def operation(equation: str) -> TensorOp:
    """Return the operation of an equation in letters."""
    inputs, output = equation.split("->")
    lists = [ax[tuple(Axis(f"x{ord(letter)}") for letter in term)] for term in (*inputs.split(","), output)]
    return contract(tuple(lists[:-1]), lists[-1])


def einsum(equation: str, *operands: Any, **options: Any) -> Any:
    """np.einsum by `contract`."""
    global calls
    calls += 1
    out = options.pop("out", None)
    assert not options, options
    inputs, output, _ = parse_einsum_input((equation, *operands))
    arrays = [np.asarray(x) for x in operands]
    terms = inputs.split(",")
    sizes: dict[str, int] = {}
    for letter, n in ((letter, n) for term, x in zip(terms, arrays) for letter, n in zip(term, x.shape)):
        sizes[letter] = max(sizes.get(letter, 1), n)
    for k, (term, x) in enumerate(zip(terms, arrays)):
        alone = tuple(i for i, letter in enumerate(term) if x.shape[i] == 1 != sizes[letter])
        arrays[k] = x.squeeze(alone)
        terms[k] = "".join(letter for i, letter in enumerate(term) if i not in alone)
    made = np.asarray(operation(f"{','.join(terms)}->{output}")(*arrays))
    if out is None:
        return made
    out[...] = made
    return out


def tensordot(a: Any, b: Any, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """np.tensordot by `contract`."""
    a, b = np.asarray(a), np.asarray(b)
    pairs = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    one = [get_symbol(k) for k in range(a.ndim)]
    other = [get_symbol(a.ndim + k) for k in range(b.ndim)]
    for i, j in zip(*pairs):
        other[j] = one[i]
    kept = [s for s in one if s not in other] + [s for s in other if s not in one]
    return einsum(f"{''.join(one)},{''.join(other)}->{''.join(kept)}", a, b)


def pytest_configure() -> None:
    dispatch._cached_funcs["einsum", "numpy"] = einsum
    dispatch._cached_funcs["tensordot", "numpy"] = tensordot


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep every function's first cases, and one in twenty of the thousands behind."""
    count: Counter[str] = Counter()
    kept = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if count[name] < 20 or count[name] % 20 == 0:
            kept.append(item)
        count[name] += 1
    items[:] = kept


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"contract was called {calls} times")
