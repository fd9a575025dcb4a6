"""NumPy's covariances and counts over traced arrays: cov, corrcoef, histograms, bincount.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`. Counts are scatters. Means and variances are
in `jitfuse.tracing.numpy_like.moments`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import products, scans, shapes, sorting
from jitfuse.tracing.numpy_like.reduce import cast, given
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.data_extents import extent, values_of
from jitfuse.tracing.tensor.function_table import Tensor, implements, lifted, reject_options, require_cast, strong


# ---------------------------------------------------------------- covariances
@implements("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Tensor:
    """Return the covariance matrix; variables are the rows of m and y, or the columns without `rowvar`."""
    samples = [strong(t) for t in lifted(*[v for v in (m, y) if v is not None])]
    if any(t.ndim > 2 for t in samples):
        raise ShapeError(f"np.cov: m and y have at most two dimensions, at {user_line()}")
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"np.cov: ddof must be integer, not {ddof!r}, at {user_line()}")
    common = dtypes.promote((*(str(t.dtype) for t in samples), "float64"))
    parts: list[Tensor] = []
    for t in samples:
        rows = cast(t if t.ndim == 2 else t.reshape((1, t.size)), dtype if given(dtype) else common, "cov")
        turned = not rowvar and (t.ndim != 1 if not parts else rows.shape[0] != 1)
        parts.append(rows.T if turned else rows)
    x = shapes.concatenate(parts, 0) if len(parts) > 1 else parts[0]
    if not x.shape[0]:
        return x.create("zeros", shape=(0, 0), dtype=str(x.dtype))
    freedom = (0 if bias else 1) if ddof is None else int(ddof)
    weights, scale = _weights(x, fweights, aweights, freedom)
    if weights is None:
        centred = x - x.call("mean", axis=1, keepdims=True)
        weighted = centred
    else:
        centred = x - (x * weights).call("sum", axis=1, keepdims=True) / weights.call("sum")
        weighted = centred * weights
    product = products.dot(centred, weighted.T.conj())
    product = product * (float(np.true_divide(1, scale)) if weights is None else 1.0 / scale)
    return cast(product, str(x.dtype), "cov").squeeze()


def _weights(x: Tensor, fweights: Any, aweights: Any, freedom: int) -> tuple[Tensor, Any]:
    """Return the weights of observations (None where all are 1), and the divisor of the products."""
    if fweights is None and aweights is None:
        return None, np.float64(max(x.shape[1] - freedom, 0.0))
    found = [None if w is None else strong(lifted(w, x)[0]) for w in (fweights, aweights)]
    for w, name in zip(found, ("fweights", "aweights"), strict=True):
        if w is not None and w.shape != (x.shape[1],):
            raise ShapeError(f"np.cov: {name} of shape {w.shape} do not fit {x.shape[1]} observations, at "
                             f"{user_line()}")
    frequencies, importance = found
    if frequencies is not None and dtypes.kind(str(frequencies.dtype)) == "float":
        frequencies = frequencies.call("require", frequencies.call("equal", frequencies.call("rint")))
    given_ = [w.call("require", w.call("greater_equal", 0)) for w in (frequencies, importance) if w is not None]
    weights = (given_[0] if len(given_) == 1 else given_[0] * given_[1]).astype("float64", copy=False)
    total = weights.call("sum")
    if not freedom:
        scale = total
    elif importance is None:
        scale = total - freedom
    else:
        scale = total - freedom * (weights * importance).call("sum") / total
    return weights, scale.call("maximum", 0.0)


@implements("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """Return the correlation coefficients of variables, within [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviation = c[_diagonal(c)].real.call("sqrt")
    c = c / deviation.reshape((-1, 1)) / deviation
    if dtypes.kind(str(c.dtype)) == "complex":
        return c.real.call("clip", -1, 1).call("make_complex", c.imag.call("clip", -1, 1))
    return c.call("clip", -1, 1)


def _diagonal(c: Tensor) -> tuple[Any, Any]:
    indices = np.arange(c.shape[0])
    return indices, indices


# ---------------------------------------------------------------- counting
def counted(x: Tensor, indices: Tensor, weights: Any, count: int, dtype: str) -> Tensor:
    """Return how often each index in 0 ... count - 1 occurs, or the sum of its weights."""
    slots = x.create("zeros", shape=(count,), dtype=dtype)
    value = x.create("full", shape=(), value=1, dtype=dtype) if weights is None else weights.astype(dtype, copy=False)
    gathering.set_item(slots, indices, value, "add")
    return slots


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Tensor:
    """Return how often each integer occurs; the number of counts depends on data, so Python reads it."""
    values = strong(lifted(x, *([] if weights is None else [weights]))[0])
    if values.ndim != 1:
        raise ShapeError(f"np.bincount: object of shape {values.shape} is not of one axis, at {user_line()}")
    if not dtypes.can_cast(str(values.dtype), "int64", "safe"):
        raise DTypeError(f"np.bincount: cannot cast from {values.dtype} to int64 safely, at {user_line()}")
    length = int(minlength.__index__())
    if length < 0:
        raise ArgumentError(f"np.bincount: 'minlength' must not be negative, at {user_line()}")
    heavy = None if weights is None else strong(lifted(weights, values)[0])
    if heavy is not None:
        require_cast("np.bincount", str(heavy.dtype), "float64", "safe")
        heavy = heavy.astype("float64", copy=False)
    if heavy is not None and heavy.shape != values.shape:
        raise ShapeError(f"np.bincount: the weights and list don't have the same length, at {user_line()}")
    values = values.astype("int64", copy=False)
    if not values.size:  # integers even with weights, as in NumPy
        return values.create("zeros", shape=(length,), dtype="int64")
    values = values.call("require", values.call("greater_equal", 0))
    length = _length(values, length)
    return counted(values, values, heavy, length, "int64" if heavy is None else "float64")


def _length(values: Tensor, least: int) -> int:
    """Read the number of counts, at least `least`."""
    most = (values.call("max") + 1).call("maximum", least)
    found = values_of((most,))
    return int(found[0]) if found is not None else extent("bincount", most, "Pass minlength.")


# ---------------------------------------------------------------- histograms
@implements("histogram_bin_edges")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """Return the edges of the bins of a histogram."""
    x = _flat(a, bins, range, weights)
    return _edges("histogram_bin_edges", x, bins, range)[0]


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return the number of elements (or the sum of weights) in each bin, and the edges of the bins."""
    x = _flat(a, bins, range, weights)
    edges, even = _edges("histogram", x, bins, range)
    heavy = None
    if weights is not None:
        heavy = strong(lifted(weights, x)[0])
        if heavy.shape != lifted(a, x)[0].shape:
            raise ShapeError(f"np.histogram: weights should have the same shape as a, at {user_line()}")
        heavy = heavy.ravel()
    count = edges.size - 1
    at_bin = _even_bins(x, edges, count) if even else _uneven_bins(x, edges, count)
    dtype = "int64" if heavy is None else str(heavy.dtype)
    counts = counted(x, at_bin, heavy, count + 1, dtype)[:count]
    if density:
        widths = scans.diff(edges).astype("float64", copy=False)
        return counts / widths / counts.call("sum"), edges
    return counts.as_copy(), edges


def _flat(a: Any, *others: Any) -> Tensor:
    near = [v for v in others if isinstance(v, AbstractTensor) or (
        isinstance(v, Sequence) and any(isinstance(i, AbstractTensor) for i in v))]
    x = strong(lifted(a, *near)[0])
    if dtypes.kind(str(x.dtype)) == "complex":
        raise UnsupportedError(f"bins of complex numbers are not available, at {user_line()}. Take x.real or abs(x).")
    return (x.astype("uint8") if str(x.dtype) == "bool" else x).ravel()


def _edges(name: str, x: Tensor, bins: Any, limits: Any) -> tuple[Tensor, bool]:
    """Return the edges, and whether the bins are equally wide by construction."""
    if isinstance(bins, str):
        reject_options(name, {"bins": bins}, "How many bins there are would depend on data: pass their number.")
    if isinstance(bins, AbstractTensor) and not bins.ndim:
        bins = int(bins)  # type: ignore[call-overload]
    if not isinstance(bins, AbstractTensor) and np.ndim(bins) == 0:
        count = int(bins.__index__())
        if count < 1:
            raise ArgumentError(f"np.{name}: `bins` must be positive, when an integer, at {user_line()}")
        return _even_edges(name, x, count, limits), True
    edges = strong(lifted(bins, x)[0])
    if edges.ndim != 1:
        raise ArgumentError(f"np.{name}: `bins` must be 1d, when an array, at {user_line()}")
    return edges.call("require", _ascending(edges)), False


def _ascending(edges: Tensor) -> Tensor:
    return edges[1:].call("greater_equal", edges[:-1]).call("all")


def _even_edges(name: str, x: Tensor, count: int, limits: Any) -> Tensor:
    dtype = str(x.dtype) if dtypes.kind(str(x.dtype)) == "float" else "float64"
    common = [dtype]
    if given(limits):
        ends = lifted(*limits, x)[:2]
        common += [str(t.dtype) for t in ends if not t.weak]
        first, last = (strong(t).astype("float64", copy=False) if t.weak else t for t in ends)
        if all(isinstance(v, int | float) for v in limits) and limits[0] > limits[1]:
            raise ArgumentError(f"np.{name}: max must be larger than min in range parameter, at {user_line()}")
    elif not x.size:
        first, last = (x.create("full", shape=(), value=v, dtype=dtype) for v in (0, 1))
    else:
        first, last = x.call("min").astype(dtype, copy=False), x.call("max").astype(dtype, copy=False)
    ok = (last - first).call("isfinite").call("logical_and", last.call("greater_equal", first))
    first = first.call("require", ok)
    same = first.call("equal", last)
    first, last = same.call("where", first - 0.5, first), same.call("where", last + 0.5, last)
    first, last = (t * 1.0 for t in (first, last))  # Python numbers become float64, as in np.linspace
    inner = x.create("arange", count=count, dtype="int64").astype(str((last - first).dtype))
    inner = inner * ((last - first) / float(count)) + first
    return shapes.concatenate([inner, last.reshape((1,))]).astype(dtypes.promote(tuple(common)), copy=False)


def _even_bins(x: Tensor, edges: Tensor, count: int) -> Tensor:
    """Return each element's bin, `count` for those outside: a division, corrected by comparing with the edges."""
    first, last = edges[0], edges[-1]
    values = x.astype(str(edges.dtype), copy=False)
    inside = values.call("greater_equal", first).call("logical_and", values.call("less_equal", last))
    values = inside.call("where", values, first)
    at_bin = ((values - first) / (last - first) * count).astype("int64")
    at_bin = at_bin.call("equal", count).call("where", at_bin - 1, at_bin)
    at_bin = values.call("less", gathering.take(edges, at_bin, mode="clip")).call("where", at_bin - 1, at_bin)
    above = values.call("greater_equal", gathering.take(edges, at_bin + 1, mode="clip"))
    above = above.call("logical_and", at_bin.call("not_equal", count - 1))
    at_bin = above.call("where", at_bin + 1, at_bin)
    return inside.call("where", at_bin, count)


def _uneven_bins(x: Tensor, edges: Tensor, count: int) -> Tensor:
    at_bin = sorting.searchsorted(edges, x, "right") - 1
    at_bin = x.call("equal", edges[-1]).call("where", count - 1, at_bin)
    return at_bin.call("less", 0).call("logical_or", x.call("isnan")).call("where", count, at_bin)


@implements("histogram2d")
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return the number of points in each cell of a grid, and the edges along both axes."""
    samples = [strong(t) for t in lifted(x, y)]
    if samples[0].shape != samples[1].shape or samples[0].ndim != 1:
        raise ShapeError(f"np.histogram2d: x and y must have the same length, not {samples[0].shape} and "
                         f"{samples[1].shape}, at {user_line()}")
    if any(dtypes.kind(str(t.dtype)) == "complex" for t in samples):
        raise UnsupportedError(f"np.histogram2d of complex numbers is not available, at {user_line()}. Take x.real.")
    pair = list(bins) if isinstance(bins, list | tuple | np.ndarray) and len(bins) == 2 else [bins, bins]
    limits = [None, None] if range is None else list(range)
    edges = [_edges("histogram2d", t if r is None else t.astype("float64", copy=False), b, r)[0]
             for t, b, r in zip(samples, pair, limits, strict=True)]
    counts = [e.size - 1 for e in edges]
    rows, columns = (_uneven_bins(t, e, n) for t, e, n in zip(samples, edges, counts, strict=True))
    outside = rows.call("equal", counts[0]).call("logical_or", columns.call("equal", counts[1]))
    total = counts[0] * counts[1]
    at_bin = outside.call("where", total, rows * counts[1] + columns)
    heavy = None if weights is None else strong(lifted(weights, samples[0])[0])
    cells = counted(samples[0], at_bin, heavy, total + 1, "float64")[:total].reshape(tuple(counts))
    if density:
        width, height = (scans.diff(e) for e in edges)
        cells = cells / width.reshape((-1, 1)) / height / cells.call("sum")
    return cells, *edges
