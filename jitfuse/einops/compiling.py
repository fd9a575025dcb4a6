"""torch.compile takes einops' functions as they are: its frontend does not look into them, its backend traces them.

torch's compiler is large, so it is told once somebody else has imported it.
"""
from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, Final

_COMPILER: Final = "torch._dynamo"


def allow(functions: Sequence[Callable[..., Any]]) -> None:
    """Tell torch's compiler about functions, now or as soon as it is there."""
    found = sys.modules.get(_COMPILER)
    if found is None or getattr(found.__spec__, "_initializing", False):
        sys.meta_path.insert(0, _Watch(functions))
    else:
        _tell(functions)


def _tell(functions: Sequence[Callable[..., Any]]) -> None:
    for function in functions:
        sys.modules[_COMPILER].allow_in_graph(function)


class _Watch:
    """A finder of modules that waits for the compiler, and finds it by the others."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self._functions = functions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the compiler's spec, with a loader that tells it about the functions."""
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load, functions = spec.loader.exec_module, self._functions

        def exec_module(module: types.ModuleType) -> None:
            load(module)
            _tell(functions)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
