"""A plugin of pytest that runs NumPy's own tests of einsum with jitfuse's: `jf.einsum`, or `contract`.

`contract` has no words for a memory order, for a path, and for casts that are refused; and what is no call of einsum
has NumPy's errors: all these are left to NumPy, and counted.
"""
from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
from numpy._core.einsumfunc import _parse_einsum_input
from translation import contracted

import jitfuse as jf

theirs = np.einsum
calls: Counter[str] = Counter()


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """np.einsum by `contract`."""
    try:
        inputs, output, arrays = _parse_einsum_input(operands)
        numbers = [] if isinstance(operands[0], str) else [n for axes in operands[1::2] for n in axes if n is not ...]
        if min(numbers, default=0) < 0:  # which that function takes for the last letters
            raise ValueError(numbers)
        if options:
            arrays = [x.astype(options["dtype"]) for x in arrays]
        expressed = options.keys() == {"dtype", "casting"} and options["casting"] == "unsafe" if options else (
            out is None or out.dtype == np.result_type(*arrays))
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        expressed = False
    if not expressed or isinstance(optimize, list | tuple):
        calls["NumPy"] += 1
        return theirs(*operands, out=out, optimize=optimize, **options)
    calls["contract"] += 1
    made = contracted(inputs, output, arrays)
    if out is None:
        return made
    np.copyto(out, made, casting=options.get("casting", "safe"))
    return out


def pytest_collection_finish() -> None:
    np.einsum = einsum if os.environ["JUDGED"] == "contract" else jf.einsum


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"contract was called {calls['contract']} times, NumPy {calls['NumPy']} times")
