"""Modules that are imported when they are first used."""
from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Proxy of a module that most programs do not need: ``products = Later("jitfuse.tracing.numpy_like.products")``.

    Use it as the module. Mypy knows it as that (`tests/mypy_later.py`).
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        found = self.__dict__[attribute] = getattr(self._module, attribute)
        return found
