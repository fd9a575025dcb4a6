"""NumPy's reductions that ignore NaN, over traced arrays.

Their options are in `jitfuse.tracing.numpy_like.reduce`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitfuse import dtypes
from jitfuse.tracing.numpy_like.reduce import FILLERS, given, masked, reduce
from jitfuse.tracing.tensor.function_table import implements, lifted, reject_options, strong

Tensor = Any

def _leaving_out_nan(name: str) -> Callable[..., Tensor]:
    takes_dtype = name not in ("nanmin", "nanmax")
    is_variance = name in ("nanvar", "nanstd")

    def function(a: Tensor, axis: Any = None, *positional: Any, keepdims: Any = False, **kw: Any) -> Tensor:
        names = ("dtype", "out", "ddof", "keepdims") if is_variance else ("dtype", "out", "keepdims")
        options = {**dict(zip(names if takes_dtype else ("out", "keepdims"), positional, strict=False)), **kw}
        keep = options.pop("keepdims", keepdims)
        dtype, out, where = options.pop("dtype", None), options.pop("out", None), options.pop("where", True)
        if is_variance:
            reject_options(name, {"mean": options.pop("mean", None)})
            chosen = options.pop("correction", None)
            options["correction"] = float(options.pop("ddof", 0) if not given(chosen) else chosen)
        x = strong(lifted(a)[0])
        if where is not True and given(where) and not given(options.get("initial")) and name not in FILLERS:
            if not takes_dtype or dtypes.kind(x.dtype) != "float":
                reject_options(name, {"where": where}, "Use np.where(mask, x, np.nan) on a float array.")
            x, where = masked(name, x, where, math.nan), True
        return reduce(name, x, axis, dtype, out, keep, where=where, **options)

    function.__name__ = name
    function.__doc__ = f"Return what np.{name} returns."
    return function


for _name in ("nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"):
    implements(_name)(_leaving_out_nan(_name))
