"""NumPy's means, variances and weighted averages over traced arrays.

The options of reductions are in `jitfuse.tracing.numpy_like.reduce`; covariances and counts are in
`jitfuse.tracing.numpy_like.statistics`.
"""
from __future__ import annotations

from typing import Any

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.statuses import NO_WEIGHT
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like.reduce import cast, float_of, given, reduce
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import NO_VALUE, deliver, implements, lifted, strong

Tensor = Any

def _count(x: Tensor, where: Any, axis: Any, keepdims: bool) -> Tensor:
    """Count the elements of x where a mask holds, over axes."""
    mask = lifted(where, x)[0].call("astype", dtype="bool").call("broadcast_to", shape=x.shape)
    return reduce("sum", mask, axis, None, None, keepdims)


@implements("mean")
def mean(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
         where: Any = True, **kw: Any) -> Tensor:
    """Return the arithmetic mean over axes."""
    target = out[0] if isinstance(out, tuple) else out
    if isinstance(target, AbstractTensor) and not given(dtype):  # takes part in the promotion of the sum
        x = float_of(strong(lifted(a)[0]), None, "mean")
        dtype = dtypes.result_type(((str(x.dtype), False), (str(target.dtype), False)))[0]
    if where is True or not given(where):
        return reduce("mean", a, axis, dtype, out, keepdims, **kw)
    x = float_of(strong(lifted(a)[0]), dtype, "mean")
    total = reduce("sum", x, axis, None, None, keepdims, where=where, **kw)
    return deliver("mean", cast(total / _count(x, where, axis, keepdims), x.dtype, "mean"), out)


@implements("var")
def var(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, **kw: Any) -> Tensor:
    """Return the variance over axes with divisor n - ddof."""
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, **kw)


@implements("std")
def std(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, **kw: Any) -> Tensor:
    """Return the square root of the variance."""
    return _variance("std", a, axis, dtype, out, ddof, keepdims, where, **kw)


def _variance(name: str, a: Tensor, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any,
            **kw: Any) -> Tensor:
    centre, correction = kw.pop("mean", None), kw.pop("correction", None)
    divisor = correction if given(correction) else ddof
    if not given(centre) and (where is True or not given(where)):
        return reduce(name, a, axis, dtype, out, keepdims, correction=float(divisor), **kw)
    x = float_of(strong(lifted(a)[0]), dtype, name)
    count = _count(x, where, axis, keepdims)
    if not given(centre):
        total = reduce("sum", x, axis, None, None, True, where=where)
        centre = cast(total / _count(x, where, axis, True), x.dtype, name)
    deviation = x - centre
    square = (deviation * deviation.conj()).real if dtypes.kind(str(x.dtype)) == "complex" else deviation * deviation
    squares = reduce("sum", square, axis, None, None, keepdims, where=where)
    result = cast(squares / (count - divisor).call("maximum", 0), square.dtype, name)
    return deliver(name, result.call("sqrt") if name == "std" else result, out)


@implements("average")
def average(a: Tensor, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """Return the weighted mean over axes; with `returned`, also the sum of the weights."""
    keep = keepdims is not NO_VALUE and bool(shape_rules.whole(keepdims))
    x = strong(lifted(a, *([] if weights is None else [weights]))[0])
    if weights is None:
        result = mean(x, axis, keepdims=keep)
        count = x.size / max(result.size, 1)
        if not returned:
            return result
        counts = result.create("full", shape=result.shape, value=count, dtype=result.dtype)
        return result, counts if counts.ndim else counts[()]
    w = _weights_along(x, strong(lifted(weights, x)[0]), axis)
    whole = dtypes.kind(str(x.dtype)) not in ("float", "complex")
    common = dtypes.promote((str(x.dtype), str(w.dtype), *(["float64"] if whole else [])))
    scale = reduce("sum", w, axis, common, None, keep)
    product = x.astype(common, copy=False) * w.astype(common, copy=False)
    scale = scale.call("require", scale.call("not_equal", 0), status=NO_WEIGHT)
    result = reduce("sum", product, axis, None, None, keep) / scale
    if not returned:
        return result
    return result, strong(scale.call("broadcast_to", shape=result.shape)).call("astype", dtype=result.dtype)


def _weights_along(x: Tensor, w: Tensor, axis: Any) -> Tensor:
    """Return weights in the shape of x; they are given per element, or per index along the axes."""
    if w.shape == x.shape:
        return w
    if axis is None:
        raise ArgumentError(f"np.average: axis must be given where weights and array differ in shape, at {user_line()}")
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = [shape_rules.normalize_axis("average", k, x.ndim) for k in given]
    if w.shape != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"np.average: weights of shape {w.shape} do not fit axis {axis} of {x.shape}, at {user_line()}"
        )
    order = sorted(range(len(axes)), key=axes.__getitem__)
    aligned = w.call("transpose", axes=tuple(order)) if w.ndim > 1 else w
    return aligned.reshape(tuple(n if k in axes else 1 for k, n in enumerate(x.shape))).call(
        "broadcast_to", shape=x.shape
    )
