"""The budget of a fused function: how much it may trace and compile, before calls run as plain Python.

Owns the five numbers. Does not own what is counted against them (`jitfuse.graph_breaks.limits`).
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import ArgumentError


class Budget(Record, frozen=True):
    """What one fused function may spend, as `jf.fuse(budget=...)` takes it.

    Work is estimated from counts, not measured, so that runs repeat. What is known stays compiled past the budget.

    Args:
        seconds: estimated seconds of tracing and compiling that one call with graph breaks may take; also those that
            all signatures and paths after the first may take together. Calls that run compiled add to the latter.
        operators: operators that one call may record. Loops are captured from half of them on. A program may have a
            tenth part as many steps.
        branches: reads of values that one call may add to the known ones; half of them at one source line.
        subgraphs: signatures, and subgraphs between graph breaks, that are kept. Past that the function starts over,
            with its kernels from the cache.
        values: values of data that Python may read at one source line, and eight times as many extents; also the
            values of one argument after which it is data itself.

    Raises:
        ArgumentError: a number is no positive number, or no int where one is counted.

    Example:
        >>> f = jf.fuse(lambda x: x + 1, budget=jf.Budget(seconds=10))
        >>> f(np.ones(2))
        array([2., 2.])
    """

    seconds: float = 1.0
    operators: int = 180_000
    branches: int = 128
    subgraphs: int = 512
    values: int = 8

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self._fields:
            value = getattr(self, name)
            kind, called = (int | float, "number") if name == "seconds" else (int, "int")
            if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
                raise ArgumentError(f"Budget({name}={value!r}): pass a positive {called}")


DEFAULT: Final = Budget()
"""The budget of functions that have none of their own."""
