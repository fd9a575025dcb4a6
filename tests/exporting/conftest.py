"""What the tests of exports share: running an exported module where jitfuse cannot be imported."""
from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from oracle import EXACT, same_numbers

from jitfuse.dtypes import numpy_dtype


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


@pytest.fixture(name="load")
def _load() -> Any:
    return load


@pytest.fixture(name="same")
def _same() -> Any:
    return lambda got, want, where="": same_numbers(got, want, EXACT, str(where))


@pytest.fixture(name="as_dtype")
def _as_dtype() -> Any:
    return numpy_dtype
