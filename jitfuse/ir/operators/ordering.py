"""Sorting and order statistics: library steps along an axis."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import library

_SORTINGS: Final = ("quicksort", "heapsort", "stable")
_METHODS: Final = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)


def _one_of(name: str, attribute: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ArgumentError(f"{name}: {attribute} is one of {', '.join(known)}, not {value!r}")


def _along(name: str, indices: bool, attribute: str) -> Callable[..., Meta]:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        axis = shape_rules.normalize_axis(name, attrs["axis"], m.ndim)
        if attribute == "sorting":
            _one_of(name, attribute, attrs[attribute], _SORTINGS)
        elif not attrs[attribute]:
            raise ArgumentError(f"{name} needs at least one position")
        elif not all(-m.shape[axis] <= k < m.shape[axis] for k in attrs[attribute]):
            raise ShapeError(f"{name}: positions {attrs[attribute]} leave an axis of extent {m.shape[axis]}")
        return Meta(m.shape, "int64" if indices else m.dtype, m.device)

    return infer


def _infer_topk(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    axis = shape_rules.normalize_axis("topk", attrs["axis"], m.ndim)
    if not 0 <= attrs["count"] <= m.shape[axis]:
        raise ShapeError(f"topk: {attrs['count']} elements of an axis of extent {m.shape[axis]}")
    return Meta((*m.shape[:axis], attrs["count"], *m.shape[axis + 1 :]), "int64", m.device)


def _infer_searchsorted(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    within, values = metas
    if within.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted array has one axis, not the shape {within.shape}")
    _one_of("searchsorted", "side", attrs["side"], ("left", "right"))
    return Meta(values.shape, "int64", meta_rules.common_device("searchsorted", metas))


def _statistic(name: str, attrs: dict[str, Any], doc: str, function: Callable[..., Any] | None = None) -> None:

    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        m, *q = metas
        if "method" in attrs:
            _one_of(name, "method", attrs["method"], _METHODS)
        axes = shape_rules.normalize_axes(name, attrs["axis"], m.ndim)
        options = {"method": attrs["method"]} if "method" in attrs else {}
        dtype = library.statistic_dtype(name, tuple(i.dtype for i in metas), attrs.get("weak", False), **options)
        lead = q[0].shape if q else ()
        if len(lead) > 1:
            raise ShapeError(f"{name}: q has at most one axis, not the shape {lead}")
        if lead and attrs.get("weak"):
            raise ShapeError(f"{name}: a q that stands for a Python number has no axes, not the shape {lead}")
        return Meta(lead + shape_rules.reduced_shape(m.shape, axes, attrs["keepdims"]), dtype,
                    meta_rules.common_device(name, metas))

    arity = 2 if "method" in attrs else 1
    add(Op(name, arity, LIBRARY, {"axis": None, "keepdims": False, **attrs}, infer, function or library.statistic(name),
           doc=doc))


_QUANTILE: Final = {"method": "linear", "weak": False}
add(Op("sort", 1, LIBRARY, {"axis": -1, "sorting": "quicksort"}, _along("sort", False, "sorting"), library.sort,
       into=library.sort_into, doc="The elements in ascending order along an axis, NaN last."))
add(Op("argsort", 1, LIBRARY, {"axis": -1, "sorting": "quicksort"}, _along("argsort", True, "sorting"),
       library.argsort, doc="The indices that would sort along an axis."))
add(Op("partition", 1, LIBRARY, {"axis": -1, "positions": REQUIRED}, _along("partition", False, "positions"),
       library.partition, into=library.partition_into,
       doc="The elements with those at some positions where sorting would put them."))
add(Op("argpartition", 1, LIBRARY, {"axis": -1, "positions": REQUIRED}, _along("argpartition", True, "positions"),
       library.argpartition, doc="The indices of a partition."))
add(Op("topk", 1, LIBRARY, {"axis": -1, "count": REQUIRED, "largest": True}, _infer_topk, library.topk,
       doc="The indices of so many largest or smallest elements along an axis, NaN being largest."))
add(Op("searchsorted", 2, LIBRARY, {"side": "left"}, _infer_searchsorted, library.searchsorted,
       doc="Where values would be inserted into a sorted array of one axis."))
_statistic("median", {}, "The middle value over axes; the mean of the two middle ones of an even number.",
           library.median)
_statistic("nanmedian", {}, "The median of what is not NaN.")
_statistic("quantile", _QUANTILE, "(x, q): quantiles over axes; the axis of q comes first.")
_statistic("percentile", _QUANTILE, "(x, q): quantiles at q percent over axes.")
_statistic("nanquantile", _QUANTILE, "(x, q): quantiles of what is not NaN.")
_statistic("nanpercentile", _QUANTILE, "(x, q): percentiles of what is not NaN.")
