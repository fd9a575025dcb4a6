"""Split functions against plain Python: each call of the fused function must do what the function itself does."""
from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jitfuse as jf
from jitfuse.compile import interface as compiler

sys.path.insert(0, str(Path(__file__).parent))  # for `split_results`
from split_results import same


def outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return what a call returns or raises, and what its arguments are afterwards."""
    given = copy.deepcopy((args, kwargs))
    try:
        return function(*given[0], **given[1]), None, given
    except Exception as error:
        return None, error, given


@pytest.fixture
def natively() -> Iterator[None]:
    """Have the runtime, and no warnings."""
    compiler.native_runtime()
    with warnings.catch_warnings():
        warnings.simplefilter("error", jf.FallbackWarning)
        yield


@pytest.fixture
def check() -> Callable[..., jf.FusedFunction]:
    """Run a function fused and plain on several calls, all of them three times; return the fused function."""
    def run(function: Callable[..., Any], *calls: Any, iterations: int = 3, writes: bool = True) -> jf.FusedFunction:
        fused = jf.fuse(function)
        with warnings.catch_warnings():
            warnings.simplefilter("error", jf.FallbackWarning)
            for _ in range(iterations):
                for call in calls:
                    args = call if isinstance(call, tuple) else (call,)
                    expected, error, after = outcome(function, args, {})
                    found, raised, changed = outcome(fused, args, {})
                    assert type(raised) is type(error), (raised, error)
                    assert str(raised).split("\n")[0] == str(error).split("\n")[0]  # pytest adds to assertions
                    same(found, expected)
                    if error is None and writes:
                        same(changed[0], after[0])
        return fused

    return run
