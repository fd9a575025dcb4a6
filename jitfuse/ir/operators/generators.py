"""RNG calls of NumPy's generators: library steps over the RNG state, which is an array like any other."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, VARIADIC, Op, add
from jitfuse.ir.rules import meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import generators

_PARAMETERS: Final = {
    method: count for count, methods in enumerate((
        "nothing random random_sample standard_normal standard_exponential standard_cauchy",
        "exponential rayleigh weibull pareto power standard_t chisquare poisson geometric standard_gamma dirichlet "
        "permutation choice sample",
        "normal uniform gamma beta lognormal laplace logistic gumbel f vonmises wald binomial negative_binomial "
        "integers integers_to randint multivariate_normal multinomial",
        "triangular",
    )) for method in methods.split()
}
"""The methods, and how many parameters each takes; `choice` and `sample` may have probabilities besides."""
_INDEX_METHODS: Final = frozenset({"permutation", "choice", "sample"})
_OF_ONE: Final = {"random_sample": True, "randint": True, "integers": False, "integers_to": False}
"""Methods that only one kind of generator has, and whether that is the legacy one."""
_WHOLE: Final = frozenset({"integers", "integers_to", "randint"})
_TYPED: Final = frozenset({"random", "standard_normal", "standard_exponential", *_WHOLE})
"""Methods that take the dtype as an argument."""


def _check_method(method: str, parameters: Sequence[Meta], dtype: str, legacy: bool) -> None:
    count, given = _PARAMETERS.get(method), len(parameters)
    if count is None or _OF_ONE.get(method, legacy) != legacy:
        raise ArgumentError(f"generator_draw: there is no method {method!r} of this generator")
    if given != count and not (method in ("choice", "sample") and given == 2):
        raise ArgumentError(f"generator_draw: {method} takes {count} parameter(s), not {given}")
    odd = next((m for m in parameters if kind(m.dtype) == "complex"), None)
    if odd is not None:
        raise DTypeError(f"generator_draw: parameters are real numbers, not {odd}")
    if method in _INDEX_METHODS and (parameters[0].shape or not is_integer(parameters[0].dtype)):
        raise DTypeError(f"generator_draw: {method} takes one integer first, not {parameters[0]}")
    if method in _TYPED and is_integer(dtype) != (method in _WHOLE):
        raise DTypeError(f"generator_draw: {method} does not make {dtype}")


def _require_numbers(name: str, dtype: str) -> None:
    if dtype not in ("float32", "float64") and not is_integer(dtype):
        raise DTypeError(f"{name} makes floats and integers, not {dtype}")


def _infer_seed(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (seed,) = metas
    if seed.shape or not is_integer(seed.dtype):
        raise DTypeError(f"generator_seed takes one integer, not {seed}")
    return Meta((generators.state_length("uint64", attrs["legacy"]),), "uint64", seed.device)


def _infer_draw(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("generator_draw needs a state")
    dtype = attrs["dtype"]
    _require_numbers("generator_draw", dtype)
    _require_numbers("generator_draw", metas[0].dtype)
    legacy = metas[0].shape == (generators.state_length(metas[0].dtype, legacy=True),)
    if not legacy and metas[0].shape != (generators.state_length(metas[0].dtype),):
        raise ShapeError(f"generator_draw takes the bytes of a state first, not {metas[0]}")
    _check_method(attrs["method"], metas[1:], dtype, legacy)
    count = generators.state_length(dtype, legacy) + math.prod(attrs["shape"])
    return Meta((count,), dtype, meta_rules.common_device("generator_draw", metas))


add(Op("generator_seed", 1, LIBRARY, {"legacy": False}, _infer_seed, generators.generator_seed,
       doc="The state of np.random.default_rng(seed), or of np.random.RandomState(seed)."))
add(Op("generator_draw", VARIADIC, LIBRARY, {"method": REQUIRED, "shape": REQUIRED, "dtype": "float64"}, _infer_draw,
       generators.generator_draw, into=generators.draw_into,
       doc="(state, parameters...): the state after a draw, and the numbers drawn."))
