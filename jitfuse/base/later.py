"""Modules that are imported when they are first used."""
from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Proxy of a module that most programs do not need: ``products = Later("jitfuse.tracing.numpy_like.products")``.

    Write it beside the import itself under ``if TYPE_CHECKING``, and use it as the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        found = self.__dict__[attribute] = getattr(self._module, attribute)
        return found
