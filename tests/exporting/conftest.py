"""What the tests of exports share: running an exported module where jitfuse cannot be imported."""
from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.dtypes import numpy_dtype

sys.path[:0] = [str(Path(__file__).parents[1] / "end_to_end"), str(Path(__file__).parents[1] / "backends/interpreter")]


@contextmanager
def without_jitfuse() -> Iterator[None]:
    """Have every import of jitfuse fail."""
    real = builtins.__import__

    def guarded(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("jitfuse", "tracing", "backends"):
            raise ImportError(f"an exported module imports {name}")
        return real(name, *args, **kwargs)

    builtins.__import__ = guarded
    try:
        yield
    finally:
        builtins.__import__ = real


def load(text: str, name: str = "fused") -> Callable[..., Any]:
    """Return the function of an exported module, to be called where jitfuse cannot be imported."""
    assert all(len(line) <= 120 for line in text.splitlines()), max(text.splitlines(), key=len)
    assert "jitfuse." not in text.partition('"""\n')[2].replace("jf.random.state", "")
    names: dict[str, Any] = {"__name__": "exported"}
    with without_jitfuse():
        exec(compile(text, "<exported>", "exec"), names)

    def function(*args: Any, **kwargs: Any) -> Any:
        with without_jitfuse():
            return names[name](*args, **kwargs)

    return function


def same(actual: Any, expected: Any, where: Any = "") -> None:
    """Compare two values bit by bit; any NaN is NaN."""
    a, e = np.asarray(actual), np.asarray(expected)
    assert (a.dtype, a.shape) == (e.dtype, e.shape), where
    if e.dtype.name == "bfloat16":
        a, e = a.astype("float32"), e.astype("float32")
    if e.dtype.kind == "c":
        same(a.real, e.real, where)
        same(a.imag, e.imag, where)
        return
    wrong = a != e
    if e.dtype.kind == "f":
        wrong = (wrong | (np.signbit(a) != np.signbit(e))) & ~(np.isnan(a) & np.isnan(e))
    assert not wrong.any(), (where, a[wrong][:3], e[wrong][:3])


@pytest.fixture(name="load")
def _load() -> Any:
    return load


@pytest.fixture(name="same")
def _same() -> Any:
    return same


@pytest.fixture(name="as_dtype")
def _as_dtype() -> Any:
    return numpy_dtype
