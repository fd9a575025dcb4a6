"""A plugin of pytest that puts `contract` behind opt_einsum: its einsum, its tensordot."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from opt_einsum import get_symbol
from opt_einsum.backends import dispatch
from opt_einsum.parser import parse_einsum_input
from translation import contracted

calls = 0


def einsum(equation: str, *operands: Any, **options: Any) -> Any:
    """np.einsum by `contract`."""
    global calls
    calls += 1
    out = options.pop("out", None)
    assert not options, options
    inputs, output, _ = parse_einsum_input((equation, *operands))
    made = np.asarray(contracted(inputs, output, [np.asarray(x) for x in operands]))
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
