"""np.linalg.norm over traced arrays: norms of vectors, the Frobenius norm, and the dispatch to other matrix norms."""
from __future__ import annotations

import math
from typing import Any

from jitfuse import dtypes
from jitfuse.errors import ArgumentError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like.reduce import float_of, reduce
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import implements, lifted, strong

Tensor = Any

@implements("linalg.norm")
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a norm of vectors along one axis, or the Frobenius norm of all elements or of matrices."""
    a = float_of(strong(lifted(x)[0]), None, "linalg.norm")
    keepdims = bool(shape_rules.whole(keepdims))
    axes = axis if axis is None or isinstance(axis, tuple) else int(axis)  # anything that int takes, as in NumPy
    vectors = isinstance(axes, int) or (axes is None and (ord is None or a.ndim == 1)) or (
        isinstance(axes, tuple) and len(axes) == 1
    )
    frobenius = ord in (None, "fro", "f") and not isinstance(axes, int)
    if frobenius or (vectors and ord in (None, 2)):
        squares = a * a
        if dtypes.kind(a.dtype) == "complex":
            real, imag = a.call("real"), a.call("imag")
            squares = real * real + imag * imag
        return squares.call("sum", axis=axes, keepdims=keepdims).call("sqrt")
    if not vectors or isinstance(ord, str):
        return _norm_of_matrices(a, ord, axes, keepdims)
    size = a.call("abs")
    if ord in (math.inf, -math.inf):
        if ord > 0:  # the norm of nothing is 0
            return reduce("max", size, axes, keepdims=keepdims, initial=0.0)
        return size.call("max" if ord > 0 else "min", axis=axes, keepdims=keepdims)
    if ord == 0:
        return a.call("count_nonzero", axis=axes, keepdims=keepdims).call("astype", dtype=size.dtype)
    total = (size if ord == 1 else size ** ord).call("sum", axis=axes, keepdims=keepdims)
    return total if ord == 1 else total ** (1 / ord)


def _norm_of_matrices(a: Tensor, ord: Any, axes: Any, keepdims: bool) -> Tensor:
    from jitfuse.tracing.numpy_like import linalg

    if (axes is None and a.ndim != 2) or (axes is not None and (not isinstance(axes, tuple) or len(axes) != 2)):
        raise ArgumentError(f"np.linalg.norm: ord={ord!r} is not a norm of {a.shape} along {axes}, at {user_line()}")
    pair = tuple(shape_rules.normalize_axis("linalg.norm", k, a.ndim) for k in axes or (0, 1))
    others = [k for k in range(a.ndim) if k not in pair]
    result = linalg.matrix_norm(a.call("transpose", axes=(*others, *pair)), ord=ord)
    return result.reshape(tuple(1 if k in pair else n for k, n in enumerate(a.shape))) if keepdims else result
