"""Reductions, scans along an axis, normalisations, sorts and quantiles."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jitfuse.ir.operators import ops
from rule_cases import Case, both, case, takes_complex, uniform


@case("sum", "prod", "min", "max", "mean", "var", "std", "ptp", "logsumexp", "nansum", "nanprod", "nanmin", "nanmax",
      "nanmean", "nanvar", "nanstd", "median", "complex_prod")
def _(name: str) -> Iterator[Case]:
    x = uniform(-2, 2, (2, 3, 4))
    if name.startswith("nan"):
        x[0, 1, 1:3] = x[1, 0, 2] = np.nan
    if name.startswith("complex"):
        x = x + 1j * uniform(-1, 1, (2, 3, 4), 1)
    row = ops.get(name)
    assert row is not None
    for axis in (None, 1, -1, (0, 2), ()):
        if axis == () and (name.startswith("complex") or name in ("median", "var", "std", "nanvar", "nanstd")):
            continue
        yield Case((x,), {"axis": axis, "keepdims": axis != 1}, second=name not in ("std", "nanstd") or axis is None)
    if "correction" in row.attrs:
        yield Case((x,), {"axis": (0, 2), "keepdims": False, "correction": 1.0})
    if name in ("prod", "nanprod", "complex_prod"):
        x[0, 0, 0] = x[1, 1, 0] = x[1, 1, 1] = 0
        yield Case((x,), {"axis": -1, "keepdims": False})
    attrs = {"axis": 1, "keepdims": False}
    if not name.startswith("complex") and takes_complex(name, 1, attrs):
        yield Case((both(-2, 2, (2, 3, 4)),), attrs)
        yield Case((both(-2, 2, (2, 3, 4)),), {"axis": None, "keepdims": True})


@case("cumsum", "cumprod", "cummax", "cummin", "complex_cumprod")
def _(name: str) -> Iterator[Case]:
    for axis in (0, -1):
        x = both(-2, 2, (3, 5)) if name.startswith("complex") else uniform(-2, 2, (3, 5))
        yield Case((x,), {"axis": axis})
    if name.endswith("cumprod"):
        x[0, 1] = x[1, 0] = x[1, 3] = 0
        yield Case((x,), {"axis": -1})
    if not name.startswith("complex") and takes_complex(name, 1, {"axis": 0}):
        yield Case((both(-2, 2),), {"axis": 0})


@case("softmax", "log_softmax", "layer_norm", "rms_norm")
def _() -> Iterator[Case]:
    for axis in (-1, 0, (0, 1)):
        yield Case((uniform(-2, 2, (3, 4, 2)),), {"axis": axis})


@case("sort", "partition")
def _(name: str) -> Iterator[Case]:
    for axis in (0, -1):
        yield Case((uniform(-2, 2, (4, 5)),), {"axis": axis, **({"positions": (1, 3)} if name == "partition" else {})})


@case("quantile", "percentile", "nanquantile", "nanpercentile", "nanmedian")
def _(name: str) -> Iterator[Case]:
    x = uniform(-2, 2, (3, 4, 5))
    if name.startswith("nan"):
        x[0, 1, 1:3] = x[1, 0, 2] = x[2, 2] = np.nan
    if name == "nanmedian":
        for axis, keepdims in ((None, True), (1, False), ((0, -1), True)):
            yield Case((x,), {"axis": axis, "keepdims": keepdims})
        return
    scale = 100.0 if "percentile" in name else 1.0
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        for q in (np.array(0.37), np.array([0.1, 0.83])):
            yield Case((x, q * scale), {"axis": (0, 2), "keepdims": q.ndim == 0, "method": method}, tolerance=1e-6)
    yield Case((x[0, 0], np.array(0.37 * scale)), {"axis": None, "keepdims": False})
