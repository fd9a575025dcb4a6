"""Random numbers: `jf.random`.

Without a key they come from the state of the process, other ones in every call. With a key they are a function of the
key. Both are numbers of Philox-4x32-10 (Salmon et al. 2011), the same in fused functions and outside of them, for any
number of threads and on any device, up to the last places of log, cos and their kin. A distribution is written once,
over arrays of NumPy and traced ones. The state is in `jitfuse.random_state`, because every call needs it.
"""
from __future__ import annotations

from jitfuse.random.continuous import exponential, gamma, normal, truncated_normal, uniform
from jitfuse.random.discrete import bernoulli, categorical, integers, permutation
from jitfuse.random.keys import fold_in, key, split
from jitfuse.random_state import seed, state

__all__ = [
    "bernoulli", "categorical", "exponential", "fold_in", "gamma", "integers", "key", "normal", "permutation", "seed",
    "split", "state", "truncated_normal", "uniform",
]


def __dir__() -> list[str]:
    return __all__
