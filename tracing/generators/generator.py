"""`np.random.default_rng(seed)` and the methods of `np.random.Generator` in a trace.

Owns the methods that `RandomState` does not share. Does not own states and RNG calls
(`jitfuse.tracing.generators.rng`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.generators.rng import TracedRng, seeded
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.traced import TracedTensor


def default_rng(seed: Any = None) -> Any:
    """Return a generator with this seed, which may be a traced int; a generator of the trace itself."""
    if type(seed) is TracedGenerator:
        return seed
    return TracedGenerator(*seeded("np.random.default_rng", seed))


class TracedGenerator(TracedRng):
    """A proxy of an np.random.Generator in a trace."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw uniformly from [0, 1)."""
        return self._typed("random", size, dtype, out)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw from the standard normal distribution."""
        return self._typed("standard_normal", size, dtype, out)

    def standard_exponential(self, size: Any = None, dtype: Any = np.float64, method: str = "zig",
                             out: Any = None) -> Any:
        """Draw from the exponential distribution of scale 1."""
        if method != "zig":
            raise UnsupportedError(f"Generator.standard_exponential(method={method!r}) is not available, at "
                                   f"{user_line()}")
        return self._typed("standard_exponential", size, dtype, out)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64,
                 endpoint: bool = False) -> Any:
        """Draw integers from low to below high (to high with `endpoint`); from 0 to below low without high."""
        return self._whole("integers_to" if endpoint else "integers", low, high, size, dtype)

    def _typed(self, method: str, size: Any, dtype: Any, out: Any) -> Any:
        name = dtype_name(dtype, f"Generator.{method}")
        if name not in ("float32", "float64"):
            raise TypeError(f"Unsupported dtype dtype('{name}') for {method}")
        if out is None:
            return self._numbers(method, [], size, name)
        if not isinstance(out, TracedTensor) or out.dtype != name or (
                size is not None and self._shape(size, []) != out.shape):
            raise UnsupportedError(f"Generator.{method}(out=...) takes an array of the trace, of its own dtype and "
                                   f"shape, at {user_line()}")
        out[...] = self._numbers(method, [], out.shape, name)
        return out
