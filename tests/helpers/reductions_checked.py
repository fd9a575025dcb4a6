"""Reductions and scans with any option, and out= arguments, fused and in NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import REDUCED, outcome, same

import jitfuse as jf


def assert_agrees(function: Callable[..., Any], *args: Any) -> None:
    """Compare a fused function with the plain one over the same arguments; out= arguments too."""
    plain_args, fused_args = [np.copy(a) for a in args], [np.copy(a) for a in args]
    want, got = outcome(function, *plain_args), outcome(jf.fuse(function), *fused_args)
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), f"{got!r} for {want!r}"
        assert isinstance(got, jf.JitfuseError | OverflowError | type(want)), repr(got)
        return
    same(got, want, REDUCED)
    same(fused_args, plain_args, REDUCED)
