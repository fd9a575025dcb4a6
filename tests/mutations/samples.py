"""Real entries to mutate: of functions that have every kind of kernel, as this process stores them."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import jitfuse as jf
from jitfuse.cache import Entry, default_store
from jitfuse.cache.inspect import walk
from jitfuse.cache.sources import sources_digest

Function = Callable[..., Any]


def functions() -> Iterator[tuple[Function, tuple[Any, ...]]]:
    """Yield functions with the arguments that they are made for: every kind of stage, access, reduction and chain."""
    x, y = jf.spec((6, 5), "float64"), jf.spec((5,), "float32")
    yield lambda x, y: np.sin(x) * 0.1 + y, (x, y)
    yield lambda x: x[:, ::-1].T[::2] + x.T[::2], (x,)
    yield lambda x: (x - np.mean(x, axis=1, keepdims=True)).astype(np.float16), (x,)
    yield lambda x: (np.sum(x * x, axis=0), np.max(x, axis=0), np.any(x > 1, axis=0)), (x,)
    yield lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / x.sum(axis=1, keepdims=True), (x,)
    yield lambda x: np.cumsum(np.sqrt(x), axis=1) + np.cumsum(x, axis=0), (x,)
    yield lambda x: np.argmax(x * 2, axis=1), (x,)
    yield lambda x: (np.sum(x), np.argmin(x)), (jf.spec((300_000,), "float32"),)
    yield lambda x: jf.softmax(x @ x.T) @ x, (x,)
    yield lambda x: (x @ x + 1).astype(np.float32), (jf.spec((2, 6, 6), "int32"),)
    yield lambda x: np.pad(x, 1)[::2] * (1 + 2j), (x,)
    yield lambda x, i: x[i] ** 3 + jf.random.uniform((3, 5)), (x, jf.spec((3,), "int64"))
    yield lambda x: np.concatenate([x, x * 2, x[:1]]), (x,)
    yield lambda x: np.sum(x, axis=1) + np.prod(x, axis=1), (jf.spec((40, 4), "float64"),)
    yield lambda x: x // 3 % 2 << 1 | (x > 2), (jf.spec((9,), "int64"),)
    yield lambda x: jf.fori_loop(0, 50, lambda i, v: np.sin(v) + i, x), (jf.spec((), "float64"),)
    yield lambda x: jf.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[1], (x,)


@cache
def entries() -> tuple[Entry, ...]:
    """Return the kernels' entries in the order of their canonical forms, from the disk where they are there."""
    sources_digest()  # once it is known, what is compiled is stored at once
    for fn, arguments in functions():
        jf.fuse(fn).warm(*arguments)
    found = [e for _, e in walk(default_store()) if e is not None and e.metadata.get("backend") == "llvm"]
    return tuple(sorted((e for e in found if e.metadata.get("kernels")), key=lambda e: e.canonical))
