"""Which functions, classes and objects of NumPy, SciPy and torch tracing knows, when seen code calls or holds them.

NumPy's functions that dispatch on arrays, and its ufuncs, come to traced arrays by protocols: those without an entry
raise there. Of the others only what is named here is known. All else of these libraries is opaque: files, iterators
that write, SciPy's functions that are no ufuncs, torch's compilers and transforms.
"""
from __future__ import annotations

import sys
import types
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.ir.operators import ops
from jitfuse.tracing.numpy_like.protocol import implementation_of
from jitfuse.tracing.record.foreign import is_torch_module

torch_table = Later("jitfuse.tracing.torch_like.table")

_DISPATCHERS: Final = type(np.sum)
_PURE: Final = frozenset({
    "base_repr", "binary_repr", "bool", "broadcast", "broadcast_shapes", "dtype", "errstate", "finfo",
    "format_float_positional", "format_float_scientific", "iinfo", "index_exp", "isdtype", "isscalar",
    "issubdtype", "iterable", "mintypecode", "ndindex", "printoptions", "promote_types", "s_", "typename",
    "vectorize",
})
"""NumPy's functions that do not dispatch, and its classes, that depend on their arguments alone."""
_EFFECTS: Final = frozenset({
    "genfromtxt", "loadtxt", "save", "savetxt", "savez", "savez_compressed",
})
"""NumPy's functions that dispatch, and read or write files."""
_INDEXED: Final = frozenset(map(type, (np.s_, np.r_, np.c_, np.mgrid, np.ogrid)))
"""The classes of NumPy's objects that are indexed to make something."""
_ARRAY_UNKNOWN: Final = frozenset({"tofile", "dump", "dumps", "setfield", "setflags", "resize"})
"""Methods of real arrays, such as constants, whose effects are not seen."""
_DISPATCHING: Final = (
    "torch.backends", "torch.functional", "torch.nn.functional", "torch.nn.modules.", "torch.nn.parameter",
    "torch.overrides", "torch.masked._ops", "torch.signal.windows", "torch._functorch.functional_call",
)
"""torch's Python code that comes to traced tensors by its own dispatch: what has no entry raises there."""


def knows(value: Any) -> bool | None:
    """Tell whether a value of NumPy, SciPy or torch is known; None for values of other modules."""
    kind = type(value)
    if kind is np.ufunc:
        special = sys.modules.get("scipy.special._ufuncs")
        return any(getattr(module, value.__name__, None) is value for module in (np, special))
    if kind is _DISPATCHERS:
        return value.__name__ not in _EFFECTS
    if isinstance(value, np.dtype | np.generic | np.finfo | np.iinfo):
        return True
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, np.ndarray | np.generic | np.ufunc):
        return value.__name__ not in _ARRAY_UNKNOWN
    module = _module_of(value)
    if module == "numpy" or module.startswith("numpy."):
        return _knows_numpy(value)
    if module.startswith("scipy.special."):
        return _knows_scipy(value)
    if module == "torch" or module.startswith("torch."):
        return _knows_torch(value, module)
    return None


def _module_of(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", ""))
    cls = getattr(value, "__objclass__", None)
    if cls is not None and str(cls.__module__).startswith("torch"):
        return str(cls.__module__)
    owner = value.__self__ if isinstance(value, types.BuiltinFunctionType) else None
    if owner is not None and not isinstance(owner, types.ModuleType):
        value = owner if isinstance(owner, type) else type(owner)
    elif not isinstance(value, type) and not hasattr(value, "__name__"):
        value = type(value)
    return str(getattr(value, "__module__", None) or "")


def _knows_numpy(value: Any) -> bool:
    name = getattr(value, "__name__", "")
    if type(value).__qualname__ in ("Generator", "RandomState") and type(value).__module__.startswith("numpy.random."):
        return True  # their methods have replacements, which raise
    if isinstance(value, type) and issubclass(value, np.generic | np.dtype | np.ndarray):
        return value is not np.memmap
    if type(value) in _INDEXED:
        return True
    if name in _PURE:
        return getattr(np, name, None) is value
    return isinstance(value, types.FunctionType) and implementation_of(value) is not None


def _knows_scipy(function: Any) -> bool:
    """Tell whether a function of scipy.special is an operator: it calls the ufunc, which dispatches."""
    name = getattr(function, "__name__", "")
    op = ops.get(name)
    return op is not None and op.kind == ops.LIBRARY and getattr(sys.modules["scipy.special"], name, None) is function


def _knows_torch(value: Any, module: str) -> bool:
    if is_torch_module(value) or module.startswith(_DISPATCHING):
        return True
    torch = sys.modules["torch"]
    if isinstance(value, torch.dtype | torch.device | torch.Size | torch.layout | torch.memory_format):
        return True
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(value).startswith("aten.")
    name = getattr(value, "__name__", "")
    if module == "torch._jit_internal":  # functions that call one of two, as an argument says
        return getattr(value, "__qualname__", "") == "boolean_dispatch.<locals>.fn"
    if name in torch_table.PURE:
        return getattr(torch, name, None) is value
    if name.startswith("_has_torch_function"):
        return getattr(torch._C, name, None) is value
    return isinstance(value, Hashable) and (
        value in torch_table.by_object() or value in torch_table.without_entry())
