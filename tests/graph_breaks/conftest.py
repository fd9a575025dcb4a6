"""Split functions against plain Python: each call of the fused function must do what the function itself does."""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jitfuse as jf
from jitfuse.compile import interface as compiler

sys.path.insert(0, str(Path(__file__).parent))  # for `split_results`
from oracle import arguments, outcome, outcome_without_warnings, same, same_outcome


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
        for _ in range(iterations):
            for call in calls:
                args = call if isinstance(call, tuple) else (call,)
                plain, ours = arguments(args), arguments(args)
                want, got = outcome(function, *plain), outcome_without_warnings(fused, *ours)
                assert not isinstance(want, Exception) or type(got) is type(want), (got, want)
                assert str(got).split("\n")[0] == str(want).split("\n")[0] or not isinstance(want, Exception)
                same_outcome(got, want)
                if not isinstance(want, Exception) and writes:
                    same(ours, plain)
        return fused

    return run
