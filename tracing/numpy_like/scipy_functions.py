"""SciPy's functions that consist of several operators, over traced arrays: their replacements in user code.

SciPy's ufuncs dispatch to traced arrays themselves; these are Python functions, which do not. Owns their parameters;
the operators are those of `jitfuse.ir.operators`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import lifted, strong, traced_among


def _logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    if b is not None or return_sign:
        raise UnsupportedError(
            f"scipy.special.logsumexp with b or return_sign is not available, at {user_line()}. "
            "Add np.log(b) to positive weights' operand, or compute it outside."
        )
    axes = tuple(axis) if isinstance(axis, list) else axis
    return strong(lifted(a)[0]).call("logsumexp", axis=axes, keepdims=keepdims)


def _normalised(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Any = None) -> Any:
        operand = strong(lifted(x)[0])
        axes = tuple(range(operand.ndim)) if axis is None else tuple(axis) if isinstance(axis, list) else axis
        return operand.call(name, axis=axes)

    return function


_IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {
    "logsumexp": _logsumexp, "softmax": _normalised("softmax"), "log_softmax": _normalised("log_softmax"),
}


def _for_traced(real: Callable[..., Any], implementation: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        chosen = real if traced_among(*args, *kwargs.values()) is None else implementation
        return chosen(*args, **kwargs)

    return function


def replacements(special: dict[str, Any]) -> list[tuple[Any, Callable[..., Any]]]:
    """Return (function, its replacement in a trace) for the names of scipy.special."""
    return [(special[name], _for_traced(special[name], make)) for name, make in _IMPLEMENTATIONS.items()]
