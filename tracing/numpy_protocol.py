"""NumPy's two protocols on traced arrays: `__array_ufunc__` and `__array_function__`.

Owns the way from a ufunc and its method to operators of the table, and the error for everything that has
none: it names the function, the line and close alternatives; nothing is converted silently.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.dtypes import kind
from jitfuse.errors import UnsupportedError
from jitfuse.ir import ops, rules
from jitfuse.ir.operators.special import SCIPY_UFUNCS
from jitfuse.ir.program import Meta
from jitfuse.later import Later
from jitfuse.tracing.dtype_name import dtype_name
from jitfuse.tracing.numpy_functions import deliver, lifted, refuse, require_cast, strong
from jitfuse.tracing.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing import gathering, numpy_products, numpy_reductions, numpy_scans
else:
    gathering = Later("jitfuse.tracing.gathering")
    numpy_products = Later("jitfuse.tracing.numpy_products")
    numpy_reductions = Later("jitfuse.tracing.numpy_reductions")
    numpy_scans = Later("jitfuse.tracing.numpy_scans")

_SCIPYS_LOOPS: Final[dict[str, str]] = {
    "expit": "sigmoid", "log_expit": "log_sigmoid", "xlogy": "xlogy", "logit": "logit",
}
"""Ufuncs of SciPy, in float32 or float64, whose operators have NumPy's loops, in float16 too."""
_UFUNCS: Final[dict[str, str]] = {
    **{op.numpy.__name__: op.name for op in ops.table() if isinstance(op.numpy, np.ufunc)},
    **{op.name: op.name for op in ops.table() if op.kind == ops.LIBRARY and op.loop is not None},
    **SCIPY_UFUNCS,
    **_SCIPYS_LOOPS,
    "erf": "erf", "erfc": "erfc", "matmul": "matmul",
    "degrees": "rad2deg", "radians": "deg2rad",
}
"""Ufunc name -> operator; by name, so that scipy.special's are known without importing SciPy."""
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "divmod": ("floor_divide", "remainder"), "modf": ("modf_fraction", "modf_whole"),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
}
"""The operators of ufuncs with several results."""
_REDUCTIONS: Final[dict[str, str]] = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all",
}
_EXTENSIONS: Final[dict[str, str]] = {
    "numpy.linalg": "jitfuse.tracing.numpy_linalg", "numpy.fft": "jitfuse.tracing.numpy_fft",
}
"""Modules of NumPy's that enter their functions when one of them is called."""
_INSTEAD: Final[dict[str, str]] = {
    "nonzero": "Its shape depends on data; use np.where(condition, a, b).",
    "argwhere": "Its shape depends on data; use np.where(condition, a, b).",
    "unique": "Its shape depends on data; call it outside the fused function.",
    "tile": "Write np.concatenate([x] * n), or np.broadcast_to.",
    "repeat": "Write np.broadcast_to(x[..., None], ...) and reshape.",
}


def alternatives(name: str) -> str:
    """Return a sentence on what to use in place of a NumPy function or method."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    import difflib  # for errors alone: half a millisecond that every start would pay

    from jitfuse.tracing.numpy_tables import FUNCTIONS

    known = sorted({f.__name__ for f in FUNCTIONS} | set(_UFUNCS) | set(_PARTS))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.75)
    if close:
        return f"Close to it and available: {', '.join(close)}."
    return "Compute it outside the fused function, or write it with the operators that jitfuse has."


def array_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out a NumPy function over traced arrays; raises UnsupportedError for those without an entry."""
    implementation = implementation_of(func)
    if implementation is None:
        module = getattr(func, "__module__", "numpy") or "numpy"
        name = f"{module}.{func.__name__}".removeprefix("numpy.")
        raise UnsupportedError(
            f"np.{name} is not available inside a fused function, at {user_line()}. {alternatives(name)}"
        )
    return implementation(*args, **kwargs)


def implementation_of(func: Any) -> Callable[..., Any] | None:
    """Return what carries out a NumPy function over tensors, or None; the extensions are imported on first use."""
    from jitfuse.tracing.numpy_tables import FUNCTIONS

    found = FUNCTIONS.get(func)
    extension = _EXTENSIONS.get(getattr(func, "__module__", ""))
    if found is None and extension is not None:
        importlib.import_module(extension)
        found = FUNCTIONS.get(func)
    return found


def array_ufunc(self: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out a ufunc, its `reduce`, its `accumulate` or its `outer` over traced arrays."""
    name = ufunc.__name__
    out = kwargs.pop("out", None)
    if method == "__call__" and name in _UFUNCS:
        return deliver(name, _call(name, _UFUNCS[name], inputs, **kwargs), out)
    if method == "reduce" and name in _REDUCTIONS:
        return _reduce(_REDUCTIONS[name], inputs[0], out, **kwargs)
    if method == "accumulate" and name in numpy_scans.ACCUMULATIONS:
        return numpy_scans.accumulate(name, inputs[0], out=out, **kwargs)
    if method == "__call__" and name in numpy_products.UFUNCS:
        refuse(name, {k: kwargs.pop(k, None) for k in ("axes", "keepdims", "dtype", "signature")})
        return deliver(name, numpy_products.UFUNCS[name](*inputs, **kwargs), out)
    if method == "at" and len(inputs) == 3:
        return gathering.at(_UFUNCS.get(name, name), *inputs)
    if method == "outer" and name in _UFUNCS and ufunc.nin == 2:
        a, b = lifted(*inputs)
        operands = strong(a).reshape(a.shape + (1,) * b.ndim), strong(b)
        return deliver(name, _call(name, _UFUNCS[name], operands, **kwargs), out)
    if method == "__call__" and name in _PARTS:
        outs = (None,) * len(_PARTS[name]) if out is None else out
        results = [_call(name, part, inputs, **kwargs) for part in _PARTS[name]]
        return tuple(deliver(name, result, one) for result, one in zip(results, outs, strict=True))
    shown = name if method == "__call__" else f"{name}.{method}"
    raise UnsupportedError(
        f"the ufunc {shown} is not available inside a fused function, at {user_line()}. {alternatives(name)}"
    )


def _call(name: str, op_name: str, inputs: tuple[Any, ...], dtype: Any = None, casting: str = "same_kind",
          where: Any = True, order: str = "K", subok: bool = True, signature: Any = None) -> Any:
    refuse(name, {"where": where, "signature": signature}, "Use np.where(mask, result, other).")
    operands = lifted(*inputs)
    if all(t.weak for t in operands):
        operands = [strong(t) for t in operands]
    if dtype is not None:
        target = dtype_name(dtype, name)
        for t in operands:
            require_cast(name, str(t.dtype), target, casting)
        if kind(target) == "bool":
            refuse(name, {"dtype": target})
        operands = [t if t.weak else t.astype(target, copy=False) for t in operands]
    if name in ("degrees", "radians"):  # ufuncs apart from rad2deg and deg2rad, without loops for bfloat16
        operands = [t.astype("float32") if t.dtype == "bfloat16" else t for t in operands]
    if name in _SCIPYS_LOOPS:
        loop = rules.loop_double_first(name, [Meta(t.shape, t.dtype, weak=t.weak) for t in operands])
        operands = [strong(t).astype(d, copy=False) for t, d in zip(operands, loop.inputs, strict=True)]
    return operands[0].call(op_name, *operands[1:])


def _reduce(name: str, a: Any, out: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False,
            **options: Any) -> Any:
    if name in ("any", "all"):
        a = strong(lifted(a)[0]).call("astype", dtype="bool")
    return numpy_reductions.reduce(name, a, axis, dtype, out, keepdims, **options)
