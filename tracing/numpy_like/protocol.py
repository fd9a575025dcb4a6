"""NumPy's two protocols on traced arrays: `__array_ufunc__` and `__array_function__`.

Owns the mapping from a ufunc and its method to operators of the table, and the error for all that have none: it names
the function, the line and close alternatives. Nothing is converted silently.
"""
from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import kind
from jitfuse.errors import UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.ir.rules import dtype_rules
from jitfuse.tracing.library_functions import NUMPY
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import deliver, lifted, reject_options, require_cast, strong

gathering = Later("jitfuse.tracing.tensor.gathering")
library_calls = Later("jitfuse.tracing.numpy_like.library_calls")
mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")
products = Later("jitfuse.tracing.numpy_like.products")
reduce = Later("jitfuse.tracing.numpy_like.reduce")
scans = Later("jitfuse.tracing.numpy_like.scans")
ufunc_methods = Later("jitfuse.tracing.numpy_like.ufunc_methods")

_RENAMED: Final[dict[str, str]] = {
    "absolute": "abs", "conjugate": "conj", "invert": "bitwise_invert", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "degrees": "rad2deg", "radians": "deg2rad",
    "psi": "digamma", "_zeta": "zeta", "_riemann_zeta": "riemann_zeta",
    "expit": "sigmoid", "log_expit": "log_sigmoid", "xlogy": "xlogy", "logit": "logit",
}
"""Ufunc name -> operator name, where they differ."""
_NAMED: Final = frozenset({"erf", "erfc", "matmul"})
"""Ufuncs that have an operator of the same name whose NumPy reference is another function."""
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "divmod": ("floor_divide", "remainder"), "modf": ("modf_fraction", "modf_whole"),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
}
"""The operators of ufuncs with several results."""
_REDUCTIONS: Final[dict[str, str]] = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all",
}
_EXTENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "numpy.linalg": ("jitfuse.tracing.numpy_like.linalg", "jitfuse.tracing.numpy_like.systems"),
    "numpy.fft": ("jitfuse.tracing.numpy_like.fft",),
}
"""NumPy modules whose implementations are imported when one of their functions is called."""
_INSTEAD: Final[dict[str, str]] = {
    "frompyfunc": "It makes Python objects; call the function on the arrays.",
    "array2string": "Return the array, and print it outside.",
    "array_str": "Return the array, and print it outside.",
    "array_repr": "Return the array, and print it outside.",
    "save": "Return the array, and write it outside.",
    "savetxt": "Return the array, and write it outside.",
    "savez": "Return the array, and write it outside.",
}


@functools.lru_cache(maxsize=1024)
def operator_of(ufunc: str) -> str | None:
    """Return the operator of a ufunc's name, or None; names cover scipy.special without importing SciPy."""
    if ufunc in _RENAMED or ufunc in _NAMED:
        return _RENAMED.get(ufunc, ufunc)
    op = ops.get(ufunc)
    if op is None:
        return None
    same = isinstance(op.numpy, np.ufunc) and op.numpy.__name__ == ufunc
    return ufunc if same or (op.kind == ops.LIBRARY and op.loop is not None) else None


def alternatives(name: str) -> str:
    """Return a sentence on what to use in place of a NumPy function or method."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    import difflib  # for errors only: its import takes half a millisecond

    from jitfuse.tracing.numpy_like.all_functions import FUNCTIONS

    ufuncs = {*filter(operator_of, ops.names()), *_RENAMED}
    known = sorted({f.__name__ for f in FUNCTIONS} | ufuncs | set(_PARTS))
    if name in known:
        return f"NumPy has a function of this name: np.{name}(x, ...)."
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.75) if len(name) > 3 else []
    if close:
        return f"Close to it and available: {', '.join(close)}."
    return "Compute it outside the fused function, or write it with the operators that jitfuse has."


def array_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out a NumPy function over traced arrays; raises UnsupportedError for those without an entry."""
    implementation = implementation_of(func)
    if implementation is None:
        module = getattr(func, "__module__", "numpy") or "numpy"
        name = f"{module}.{func.__name__}".removeprefix("numpy.")
        if name in NUMPY:
            return library_calls.call(func, f"np.{name}", args, kwargs)
        raise UnsupportedError(
            f"np.{name} is not available inside a fused function, at {user_line()}. {alternatives(name)}"
        )
    return implementation(*args, **kwargs)


def implementation_of(func: Any) -> Callable[..., Any] | None:
    """Return the implementation of a NumPy function over tensors, or None; extensions are imported on first use."""
    from jitfuse.tracing.numpy_like.all_functions import FUNCTIONS

    found = FUNCTIONS.get(func)
    extension = _EXTENSIONS.get(getattr(func, "__module__", ""))
    if found is None and extension is not None:
        for module in extension:
            importlib.import_module(module)
        found = FUNCTIONS.get(func)
    return found


def array_ufunc(self: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out a ufunc, its `reduce`, its `accumulate` or its `outer` over traced arrays."""
    name = ufunc.__name__
    if not any(getattr(module, name, None) is ufunc for module in (np, sys.modules.get("scipy.special._ufuncs"))):
        raise UnsupportedError(f"{ufunc!r} is no ufunc of NumPy's or SciPy's, at {user_line()}")
    out = kwargs.pop("out", None)
    operator = operator_of(name)
    if method == "__call__" and operator is not None:
        where = kwargs.pop("where", True)
        result = _call(ufunc, operator, inputs, **kwargs)
        return deliver(name, result if where is True else _masked(name, result, where, out), out)
    if method == "reduce" and name in _REDUCTIONS:
        return _reduce(_REDUCTIONS[name], inputs[0], out, **kwargs)
    if method == "reduce" and name in ufunc_methods.IDENTITIES:
        assert operator is not None
        return ufunc_methods.reduce(name, operator, inputs[0], out, **kwargs)
    if method == "reduceat" and (name in _REDUCTIONS or name in ufunc_methods.IDENTITIES):
        whole = functools.partial(array_ufunc, self, ufunc, "reduce")
        part, indices = inputs
        return ufunc_methods.reduceat(
            name, lambda x, **options: whole((x,), options), part, indices, out=out, **kwargs
        )
    if method == "accumulate" and name in scans.ACCUMULATIONS:
        return scans.accumulate(name, inputs[0], out=out, **kwargs)
    if method == "__call__" and name in products.UFUNCS:
        reject_options(name, {k: kwargs.pop(k, None) for k in ("axes", "keepdims", "dtype", "signature")})
        return deliver(name, products.UFUNCS[name](*inputs, **kwargs), out)
    if method == "at" and len(inputs) == 3:
        return gathering.at(operator or name, *inputs)
    if method == "outer" and operator is not None and ufunc.nin == 2:
        a, b = lifted(*inputs)
        operands = strong(a).reshape(a.shape + (1,) * b.ndim), strong(b)
        return deliver(name, _call(ufunc, operator, operands, **kwargs), out)
    if method == "__call__" and name in _PARTS:
        outs = (None,) * len(_PARTS[name]) if out is None else out
        results = [_call(ufunc, part, inputs, **kwargs) for part in _PARTS[name]]
        return tuple(deliver(name, result, one) for result, one in zip(results, outs, strict=True))
    if method == "__call__" and out is None:
        return library_calls.call(ufunc, f"{'np' if hasattr(np, name) else 'scipy.special'}.{name}", inputs, kwargs)
    shown = name if method == "__call__" else f"{name}.{method}"
    raise UnsupportedError(
        f"the ufunc {shown} is not available inside a fused function, at {user_line()}. {alternatives(name)}"
    )


def _call(ufunc: np.ufunc, op_name: str, inputs: tuple[Any, ...], dtype: Any = None, casting: str = "same_kind",
          where: Any = True, order: str = "K", subok: bool = True, signature: Any = None) -> Any:
    name = ufunc.__name__
    if where is not True or signature is not None:
        reject_options(name, {"where": where, "signature": signature}, "Use np.where(mask, result, other).")
    operands = mixed_numbers.as_numpys(lifted(*inputs))
    if operands[0].weak and all(t.weak for t in operands):
        operands = [strong(t) for t in operands]
    if dtype is not None:
        target = dtype_name(dtype, name)
        for t in operands:
            require_cast(name, str(t.dtype), target, casting)
        if kind(target) == "bool":
            reject_options(name, {"dtype": target})
        operands = [t if t.weak else t.astype(target, copy=False) for t in operands]
    if name in ("degrees", "radians"):  # ufuncs apart from rad2deg and deg2rad, without loops for bfloat16
        operands = [t.astype("float32") if t.dtype == "bfloat16" else t for t in operands]
    if getattr(np, name, None) is not ufunc and all(kind(t.dtype) != "complex" for t in operands):
        operands = _in_scipys_loop(ufunc, operands)
    return operands[0].call(op_name, *operands[1:])


def _in_scipys_loop(ufunc: np.ufunc, operands: list[Any]) -> list[Any]:
    """Return real operands in the dtype in which a ufunc of SciPy's computes.

    SciPy's have float32 and float64 alone, and bools and small numbers take the one that is listed first: float64 up to
    SciPy 1.17, float32 from 1.18 on.
    """
    loops = [loop.partition("->")[0] for loop in ufunc.types]
    single_first = loops.index("f" * ufunc.nin) < loops.index("d" * ufunc.nin)
    rule = dtype_rules.loop_single_first if single_first else dtype_rules.loop_double_first
    loop = rule(ufunc.__name__, [Meta(t.shape, t.dtype, weak=t.weak) for t in operands])
    return [strong(t).astype(d, copy=False) for t, d in zip(operands, loop.inputs, strict=True)]


def _masked(name: str, result: Any, where: Any, out: Any) -> Any:
    """Return a ufunc's result where a mask holds, else the elements of `out`, or zeros (np.empty) without `out`."""
    target = out[0] if isinstance(out, tuple) else out
    mask = strong(lifted(where, result)[0])
    dtype = str(result.dtype if target is None else target.dtype)
    require_cast(name, str(result.dtype), dtype, "same_kind")
    other = result.create("zeros", shape=(), dtype=dtype) if target is None else target
    return mask.call("where", result.astype(dtype, copy=False) if target is not None else result, other)


def _reduce(name: str, a: Any, out: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False,
            **options: Any) -> Any:
    if name in ("any", "all"):
        a = strong(lifted(a)[0]).call("astype", dtype="bool")
    return reduce.reduce(name, a, axis, dtype, out, keepdims, **options)
