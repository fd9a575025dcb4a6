"""NumPy's generators in a trace: those that the function makes from a seed, and those passed in by the caller.

The RNG state is a traced array. Each RNG call is a library step from the state to the numbers and the next state
(`jitfuse.ir.semantics.generators`), so the numbers are NumPy's own. Seeds, parameters and shuffled arrays may be
traced; the number of samples is part of the program. Owns states, RNG calls, and the methods that `Generator`
(`...generator`) and `RandomState` (`...random_state`) share. Does not own which of them stands for a state
(`jitfuse.tracing.hooks`), or how RNG states enter and leave a call (`jitfuse.function.rng_state`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse import dtypes, reasons
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError, UntraceableError
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.semantics import generators
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.try_blocks import reject_in_try
from jitfuse.tracing.scalars.branch_values import as_python
from jitfuse.tracing.tensor.function_table import strong
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor

REQUIRED: Final = object()
_MANY_RNG_CALLS: Final = 64
"""Number of RNG calls in one trace at which `_reject_rng_calls` weighs them against the other work."""
_WORTH: Final = 32
"""Operators per RNG call that make up for its cost; elements count too, `_PER_OPERATOR` as one operator."""
_PER_OPERATOR: Final = 256
FLOATS: Final[dict[str, dict[str, Any]]] = {
    "normal": {"loc": 0.0, "scale": 1.0}, "uniform": {"low": 0.0, "high": 1.0}, "exponential": {"scale": 1.0},
    "gamma": {"shape": REQUIRED, "scale": 1.0}, "beta": {"a": REQUIRED, "b": REQUIRED},
    "lognormal": {"mean": 0.0, "sigma": 1.0}, "laplace": {"loc": 0.0, "scale": 1.0},
    "logistic": {"loc": 0.0, "scale": 1.0}, "gumbel": {"loc": 0.0, "scale": 1.0}, "rayleigh": {"scale": 1.0},
    "weibull": {"a": REQUIRED}, "pareto": {"a": REQUIRED}, "power": {"a": REQUIRED}, "standard_cauchy": {},
    "standard_t": {"df": REQUIRED}, "chisquare": {"df": REQUIRED}, "f": {"dfnum": REQUIRED, "dfden": REQUIRED},
    "vonmises": {"mu": REQUIRED, "kappa": REQUIRED}, "wald": {"mean": REQUIRED, "scale": REQUIRED},
    "triangular": {"left": REQUIRED, "mode": REQUIRED, "right": REQUIRED},
}
INTEGERS: Final[dict[str, dict[str, Any]]] = {
    "poisson": {"lam": 1.0}, "binomial": {"n": REQUIRED, "p": REQUIRED}, "geometric": {"p": REQUIRED},
    "negative_binomial": {"n": REQUIRED, "p": REQUIRED},
}
WAY_OUT: Final = (
    "Its numbers would be the same in every call. Use jf.random.uniform(shape), which draws anew, give default_rng a "
    "seed, or draw outside and pass the numbers as an argument."
)


def seeded(name: str, seed: Any, **attrs: Any) -> tuple[Recorder, TracedTensor]:
    """Return the trace, and the state of a generator with this seed."""
    run = active()
    whole = type(seed) is int or isinstance(seed, np.integer) or (
        isinstance(seed, TracedTensor) and not seed.shape and dtypes.is_integer(str(seed.dtype)))
    if not whole or run is None:
        raise UntraceableError(f"{name} without an int for a seed is called inside a fused function, at "
                               f"{user_line()}. {WAY_OUT}")
    reject_in_try(name)
    return run, strong(lift(run, seed)).call("generator_seed", **attrs)


def is_legacy(state: TracedTensor) -> bool:
    """Return whether an RNG state is that of a RandomState."""
    return bool(state.shape == (generators.state_length("uint64", legacy=True),))


def reject_other(value: Any) -> None:
    """Raise UntraceableError for a generator found elsewhere by a function that moves generators on.

    It may be one whose state was passed in: the object's own state is then out of date.
    """
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        raise UntraceableError(f"a function that moves a generator on finds a {type(value).__name__} in an object or "
                               f"global, at {user_line()}, which may be the same. Pass it as an argument.")


class TracedRng:
    """A proxy of one of NumPy's generators in a trace; `_original` is the class that it has for isinstance."""

    _original: type = np.random.Generator
    _legacy = False
    _floats, _integers = FLOATS, INTEGERS

    def __init__(self, run: Recorder, state: TracedTensor, external_state: TracedTensor | None = None) -> None:
        self._run, self._state, self._region = run, state, run.session.region
        self._external_state = external_state
        """The array that `give_back` writes the state into; None for a generator made in the trace."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Return the class that isinstance sees."""
        return self._original

    def __getattr__(self, name: str) -> Any:
        """Return the method of a distribution; raises UnsupportedError for one without a step."""
        if name in self._floats or name in self._integers:
            return _distribution(self, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(f"{self._original.__name__}.{name} is not available inside a fused function, at "
                               f"{user_line()}. Draw outside and pass the numbers as an argument.")

    def __setattr__(self, name: str, value: Any) -> None:
        """Reject attributes of the user's, as NumPy does."""
        if name not in ("_run", "_state", "_region", "_external_state"):
            raise AttributeError(f"'{self._original.__name__}' object has no attribute {name!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Reject the text of a generator: it holds the address of an object that does not exist."""
        raise UnsupportedError(f"the text of a generator is not available inside a fused function, at {user_line()}")

    def __copy__(self) -> Any:
        """Reject a second generator with the same state: in NumPy each copy moves on independently."""
        raise UnsupportedError(f"copy.copy of a generator is not available inside a fused function, at {user_line()}. "
                               "Make another with np.random.default_rng(seed).")

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0,
               shuffle: bool = True) -> Any:
        """Draw elements of an array along its first axis, or ints below a number; p has their probabilities."""
        if axis or not shuffle:
            raise UnsupportedError(f"Generator.choice(axis=, shuffle=) is not available inside a fused function, at "
                                   f"{user_line()}")
        given = lift(self._run, a)
        count = given.shape[0] if given.shape else given.__index__()
        shape = self._shape(size, [])
        parameters = [lift(self._run, np.int64(count))]
        if p is not None:
            parameters.append(strong(lift(self._run, p)))
        numbers = self._draw("choice" if replace else "sample", parameters, shape, "int64", weak=size is None
                             and not given.shape)
        if numbers.weak:
            return numbers
        indices = numbers[0] if size is None else numbers.reshape(shape)
        if not given.shape:
            return indices
        chosen = given[indices]
        return chosen.as_copy() if chosen.shape else chosen

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return the elements along the first axis, or the ints below a number, in random order."""
        if axis:
            raise UnsupportedError(f"Generator.permutation(axis=) is not available inside a fused function, at "
                                   f"{user_line()}")
        given = lift(self._run, x)
        count = given.shape[0] if given.shape else given.__index__()
        order = self._draw("permutation", [lift(self._run, np.int64(count))], (count,), "int64")
        return given[order] if given.shape else order

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffle an array in place along its first axis."""
        if axis or not isinstance(x, TracedTensor) or not x.shape:
            raise UnsupportedError(f"Generator.shuffle takes an array inside a fused function, and its first axis, not "
                                   f"a {type(x).__name__}, at {user_line()}. Use permutation.")
        x[...] = self.permutation(x)

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8,
                            *, method: str = "svd") -> Any:
        """Draw vectors from a normal distribution."""
        if (check_valid, tol, method) != ("warn", 1e-8, "svd"):
            raise UnsupportedError(f"Generator.multivariate_normal takes mean, cov and size inside a fused function, "
                                   f"at {user_line()}")
        return self._vectors("multivariate_normal", [mean, cov], mean, size, "float64")

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw vectors from a Dirichlet distribution."""
        return self._vectors("dirichlet", [alpha], alpha, size, "float64")

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Draw the number of times that each outcome occurs in n trials."""
        if lift(self._run, n).shape or lift(self._run, pvals).ndim != 1:
            raise UnsupportedError(f"Generator.multinomial takes one number of trials and one vector inside a fused "
                                   f"function, at {user_line()}")
        return self._vectors("multinomial", [n, pvals], pvals, size, "int64")

    def give_back(self) -> None:
        """Write the state back into the array that it came from, if it has moved on."""
        state = self._external_state
        if state is not None and self._state._id() != state._id():
            state[...] = self._state.call("generator_draw", method="nothing", shape=(0,), dtype="uint64")

    # ------------------------------------------------------------------ RNG calls
    def _whole(self, method: str, low: Any, high: Any, size: Any, dtype: Any) -> Any:
        low, high = (0, low) if high is None else (low, high)
        bounds = [strong(lift(self._run, b)) for b in (low, high)]
        name = dtype_name(dtype, f"{self._original.__name__}.integers")
        if name == "bool" or not all(b.dtype == "int64" for b in bounds):
            raise UnsupportedError(f"{self._original.__name__}.{method} of {name} between {low!r} and {high!r} is "
                                   f"not available inside a fused function, at {user_line()}")
        shape = self._shape(size, bounds)
        one = size is None and not shape
        numbers = self._draw(method, bounds, shape, name, weak=one and dtype is int)
        return numbers if numbers.weak else numbers[0] if one else numbers.reshape(shape)

    def _vectors(self, method: str, parameters: list[Any], like: Any, size: Any, dtype: str) -> Any:
        operands = [strong(lift(self._run, v)) for v in parameters]
        shape = (*self._shape(size, []), lift(self._run, like).shape[-1])
        return self._draw(method, operands, shape, dtype).reshape(shape)

    def _numbers(self, method: str, parameters: list[Any], size: Any, dtype: str) -> Any:
        """Draw numbers of the parameters' broadcast shape or of `size`; a Python number where neither has axes."""
        operands = [strong(lift(self._run, v)) for v in parameters]
        shape = self._shape(size, operands)
        numbers = self._draw(method, operands, shape, dtype, weak=size is None and not shape)
        return numbers if numbers.weak else numbers.reshape(shape)

    def _shape(self, size: Any, operands: list[Any]) -> tuple[int, ...]:
        lead = shape_rules.broadcast("size", [t.shape for t in operands]) if operands else ()
        if size is None:
            return lead
        shape = tuple(int(n.__index__()) for n in (size if isinstance(size, list | tuple) else (size,)))
        if any(n < 0 for n in shape):
            raise ArgumentError(f"negative dimensions are not allowed, at {user_line()}")
        if shape_rules.broadcast("size", [lead, shape]) != shape:
            raise ShapeError(f"parameters of {lead} do not fit the size {shape}, at {user_line()}")
        return shape

    def _draw(self, method: str, operands: list[Any], shape: tuple[int, ...], dtype: str, weak: bool = False) -> Any:
        """Draw numbers and move the state on; return them as one axis, or with `weak` one Python number."""
        if operands:
            reject_in_try(f"{self._original.__name__}.{method}")
        if not self._run.alive:
            self._state._id()  # raises
        if self._run.session.region is not self._region:
            raise UntraceableError(
                f"{self._original.__name__}.{method} is called at {user_line()} in the body of a loop or branch that "
                "the generator is not of: each call of the body would move its state on. Make it there, draw before "
                "the loop, or use jf.random."
            )
        self._run.rng_calls += 1
        if self._run.rng_calls == _MANY_RNG_CALLS and self._run.breaker is not None:
            _reject_rng_calls(self._run)
        attrs = {"method": method, "shape": shape, "dtype": dtype}
        whole = self._state.call("generator_draw", *operands, **attrs)
        first = generators.state_length(dtype, self._legacy)
        self._state = whole[:first].as_copy()
        if weak:
            return as_python(whole[first].call("astype", dtype="int64" if dtypes.is_integer(dtype) else "float64"))
        assert whole.shape == (first + math.prod(shape),)
        return whole[first:].as_copy()


def _reject_rng_calls(run: Recorder) -> None:
    """Make a function fall back where it draws number by number with little work in between.

    Each RNG call ends a kernel to call NumPy's generator, at the cost of about ten operators of NumPy.
    """
    work = len(run.graph.ops) + sum(m.size for m in run.graph.metas) // _PER_OPERATOR
    if work < _MANY_RNG_CALLS * _WORTH:
        assert run.breaker is not None
        run.breaker.give_up(reasons.SINGLE_DRAWS,
                            f"random numbers are drawn one after the other, last at {user_line()}, with little "
                            "between them. Draw them all at once, before the loop.")


def _distribution(generator: TracedRng, name: str) -> Callable[..., Any]:
    """Return the method of a distribution, with NumPy's parameter names."""
    floats = name in generator._floats
    dtype = "float64" if floats else "int64"
    known = (generator._floats if floats else generator._integers)[name]

    def draw(*args: Any, **kwargs: Any) -> Any:
        names = (*known, "size")
        given = {**dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or not given.keys() <= set(names) or set(names[:len(args)]) & kwargs.keys():
            raise TypeError(f"Generator.{name} takes {', '.join(names)}")
        size = given.pop("size", None)
        values = [given.get(k, default) for k, default in known.items()]
        if any(v is REQUIRED for v in values):
            raise TypeError(f"Generator.{name} takes {', '.join(names)}")
        return generator._numbers(name, values, size, dtype)

    draw.__name__ = name
    return draw

