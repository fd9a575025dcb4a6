"""Which code is the user's, and is traced, and which is installed and runs as it is."""
from __future__ import annotations

import enum
import functools
import os
import sys
import types
import weakref
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, Final

import jitfuse
from jitfuse.tracing.interception.folders import PACKAGES, STANDARD
from jitfuse.tracing.interception.swap import original_code


def _library_folders() -> tuple[str, ...]:
    here = os.path.dirname(os.path.abspath(jitfuse.__file__))
    own = [here, *(os.path.realpath(os.path.join(here, part)) for part in ("tracing", "backends", "cache"))]
    folders = {*own, *STANDARD, *PACKAGES}
    folders |= {os.path.realpath(path) for path in folders}
    return tuple(folder.rstrip(os.sep) + os.sep for folder in sorted(folders))


MISSING: Final = object()
_FOLDERS: Final = _library_folders()
_EXTENSIONS: Final = tuple(EXTENSION_SUFFIXES)
_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that were made while Python ran (`Py_TPFLAGS_HEAPTYPE`); static ones are C's."""
_user_packages: set[str] = set()
_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


@functools.lru_cache(maxsize=4096)
def _in_library(filename: str) -> bool:
    return filename.startswith("<frozen") or os.path.abspath(filename).startswith(_FOLDERS)


def claim(fn: types.FunctionType) -> None:
    """Count the package of a decorated function as user code, wherever it is; of some libraries, only the module.

    A module's own `forward` may be decorated, but the layers that it calls run as they are; and `@np.errstate(...)`
    makes a function of NumPy's. What is a function of such a module by its name (`jf.fuse(F.relu6)`) is called as
    decorated functions call it.
    """
    name = str(fn.__globals__.get("__name__", ""))
    package = name.partition(".")[0]
    if package in {"jitfuse", "numpy", "torch", "__main__"}:
        if fn.__globals__.get(fn.__name__) is fn:
            return
        package = name
    if package and package not in _user_packages and _in_library(original_code(fn).co_filename):
        _user_packages.add(package)
        _classes.clear()


def _user_namespace(name: str, filename: str | None) -> bool:
    package = name.partition(".")[0]
    if package in _user_packages or name in _user_packages:
        return True
    return package != "jitfuse" and (filename is None or not _in_library(filename))


def is_user_function(value: Any) -> bool:
    """Tell whether the value is a Python function written by the user.

    Generated code (``<string>``, as of dataclasses) belongs to the module whose globals it has.
    """
    if type(value) is not types.FunctionType:
        return False
    namespace = value.__globals__
    filename: str | None = original_code(value).co_filename
    if filename is not None and filename.startswith("<") and not filename.startswith("<frozen"):
        filename = namespace.get("__file__")
    return _user_namespace(str(namespace.get("__name__", "")), filename)


def is_user_module(module: types.ModuleType) -> bool:
    """Tell whether a module's state is the user's; builtin and installed modules are not."""
    if getattr(module.__spec__, "origin", None) in ("built-in", "frozen"):  # the name of `_io` is "io"
        return False
    namespace = vars(module)
    filename = namespace.get("__file__")
    if filename is None and namespace.get("__path__"):
        filename = next(iter(namespace["__path__"]), None)  # a namespace package
    if filename is not None and filename.endswith(_EXTENSIONS):  # in C, wherever it lies
        return False
    return _user_namespace(module.__name__, filename)


def is_user_class(cls: type) -> bool:
    """Tell whether a class was defined in user code; enumerations are immutable and do not count."""
    found = _classes.get(cls)
    if found is None:
        found = _classes[cls] = _decide_class(cls)
    return found


def _decide_class(cls: type) -> bool:
    if issubclass(cls, enum.Enum) or not cls.__flags__ & _HEAP_TYPE:
        return False
    name = cls.__module__
    if not isinstance(name, str) or name.startswith("_cython_"):  # types of some extension modules
        return False
    module = sys.modules.get(name)
    if module is None:
        return _user_namespace(name, None)
    return name != "builtins" and is_user_module(module)


def class_member(kind: type, name: str) -> Any:
    """Return what the class and its bases hold under a name, unbound, or MISSING."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def has_own_setter(owner: Any) -> bool:
    """Tell whether setting an attribute runs a ``__setattr__`` of the user's."""
    return is_user_function(class_member(type(owner), "__setattr__"))


def set_itself(owner: Any, name: str, value: Any) -> None:
    """Set an attribute without the user's ``__setattr__``."""
    put: Any = object.__setattr__ if has_own_setter(owner) else setattr
    put(owner, name, value)


def delete_itself(owner: Any, name: str) -> None:
    """Delete an attribute without the user's ``__delattr__``."""
    drop: Any = object.__delattr__ if is_user_function(class_member(type(owner), "__delattr__")) else delattr
    drop(owner, name)


def own_attributes(value: Any) -> dict[str, Any] | None:
    """Return an object's ``__dict__`` without asking a ``__getattr__`` of its class; None where it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, dict) else None
