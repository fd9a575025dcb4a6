"""`np.random.RandomState` in a trace: NumPy's legacy random numbers, from an RNG state that is a traced value.

`np.random.seed` and its kin are methods of such a generator, the global RNG. Owns the methods that `RandomState`
and `Generator` do not share. Does not own states and RNG calls (`jitfuse.tracing.generators.rng`).
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.errors import UnsupportedError, UntraceableError
from jitfuse.ir.semantics.generators import GLOBAL_RNG
from jitfuse.tracing.generators import rng
from jitfuse.tracing.generators.rng import TracedRng, seeded
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.rng_states import RngStates
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift

_FLOATS: Final[dict[str, dict[str, Any]]] = {
    **rng.FLOATS, "random_sample": {}, "random": {}, "standard_normal": {}, "standard_exponential": {},
    "standard_gamma": {"shape": rng.REQUIRED},
}


def global_generator(name: str) -> Any:
    """Return the proxy of NumPy's global RNG, for a call of its function `name`.

    Raises UntraceableError where the call has not passed its state in, and records that (`RngStates.misses_global`).
    """
    run = active()
    environment = None if run is None else run.environment
    states = RngStates() if environment is None else environment.hooks.states
    if environment is None or id(GLOBAL_RNG.words) not in states:
        states.misses_global = True
        raise UntraceableError(f"np.random.{name} is called inside a fused function, at {user_line()}. "
                               f"{rng.WAY_OUT}")
    return environment.read(Chain.object(GLOBAL_RNG, "np.random").attr("words"), GLOBAL_RNG.words)


def random_state(seed: Any = None) -> Any:
    """Return a RandomState with this seed, which may be a traced int."""
    return TracedRandomState(*seeded("np.random.RandomState", seed, legacy=True))


class TracedRandomState(TracedRng):
    """A proxy of an np.random.RandomState in a trace."""

    _original = np.random.RandomState
    _legacy = True
    _floats = _FLOATS

    def seed(self, seed: Any = None) -> None:
        """Restart from a seed."""
        self._state = seeded("np.random.seed", seed, legacy=True)[1]

    def rand(self, *shape: Any) -> Any:
        """Draw uniformly from [0, 1)."""
        return self._numbers("random_sample", [], shape or None, "float64")

    def randn(self, *shape: Any) -> Any:
        """Draw from the standard normal distribution."""
        return self._numbers("standard_normal", [], shape or None, "float64")

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Draw integers from low to below high; from 0 to below low without high."""
        return self._whole("randint", low, high, size, dtype)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:  # type: ignore[override]
        """Draw elements of a vector, or ints below a number; p has their probabilities."""
        if lift(self._run, a).ndim > 1:
            raise UnsupportedError(f"RandomState.choice takes a vector, at {user_line()}")
        return super().choice(a, size, replace, p)

    def permutation(self, x: Any) -> Any:  # type: ignore[override]
        """Return the elements along the first axis, or the ints below a number, in random order."""
        return super().permutation(x)

    def shuffle(self, x: Any) -> None:  # type: ignore[override]
        """Shuffle an array in place along its first axis."""
        super().shuffle(x)

    def multivariate_normal(  # type: ignore[override]
        self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8
    ) -> Any:
        """Draw vectors from a normal distribution."""
        return super().multivariate_normal(mean, cov, size, check_valid, tol)
