"""How fused functions are pickled: by name if the other process can import them, else by value; never compiled code.

Owns that choice. A function pickled by value is traced again and finds its kernels in the cache; keys hold no names.
"""
from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def importable_name(function: Any, frame: FrameType | None) -> str | None:
    """Return the name by which a pickler can refer to a fused function; None if it must pickle its contents.

    `frame` is the caller's. cloudpickle pickles functions of ``__main__`` and of registered modules by value, because
    its workers have another ``__main__``. pickle refers to them by name, because multiprocessing imports ``__main__``
    in its workers. Fused functions follow both.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or _found(module, name) is not function:
        return None
    return None if _takes_content(frame, module) else name


def _found(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _takes_content(frame: FrameType | None, module: str) -> bool:
    while frame is not None and frame.f_globals.get("__name__") == "pickle":  # the pickler written in Python
        frame = frame.f_back
    if frame is None or "cloudpickle" not in str(frame.f_globals.get("__name__")):  # joblib and Ray have copies
        return False
    registered = frame.f_globals.get("_PICKLE_BY_VALUE_MODULES", ())
    return module == "__main__" or any(module == m or module.startswith(f"{m}.") for m in registered)
