"""Which installed code tracing knows: what it reads and writes is seen, or is nothing beyond its arguments.

Seen code may hold and call what is known. Everything else that is installed is opaque: an object of a library, a
function that reads a file, a clock, or the state of an extension module. Only what is known is listed, so that what
nobody has thought of is opaque. Looked up by object: a name leads to a module, which must have this very object.

Owns the tables of Python's standard library. Does not own those of NumPy, SciPy and torch (`Hooks.knows`).
"""
from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from jitfuse.errors import VolatileError
from jitfuse.tracing.interception.user_code import is_user_class, is_user_function

_MODULES: Final = frozenset({
    "_abc", "_bisect", "_collections", "_collections_abc", "_contextvars", "_datetime", "_functools", "_heapq",
    "_json", "_operator", "_py_abc", "_pydatetime", "_pytest.assertion.rewrite", "_pytest.assertion.util", "_sre",
    "_statistics", "_string", "_struct", "_weakrefset", "abc", "array", "base64", "binascii", "bisect", "cmath",
    "collections", "collections.abc", "colorsys", "contextlib", "dataclasses", "datetime", "difflib", "enum",
    "fnmatch", "fractions", "functools", "heapq", "html", "ipaddress", "itertools", "json", "json.decoder",
    "json.encoder", "keyword", "math", "numbers", "operator", "re", "re._compiler", "re._constants", "re._parser",
    "reprlib", "statistics", "string", "struct", "textwrap", "types", "typing", "typing_extensions", "unicodedata",
    "zlib",
})
"""Modules whose functions and classes depend on their arguments alone, which they use by protocols that are seen.

pytest calls its functions in the `assert` statements of test modules.
"""
_PARTS: Final = {
    "posixpath": "basename commonpath commonprefix dirname isabs join normpath split splitext",
    "ntpath": "basename commonpath commonprefix dirname isabs join normpath split splitext",
    "genericpath": "commonprefix _splitext _check_arg_types",
    "posix": "fspath", "nt": "fspath", "os": "fspath",
    "sys": "getsizeof intern exc_info exception",
    "uuid": "UUID uuid3 uuid5", "copy": "copy", "copyreg": "__reduce_ex__ __newobj__",
    "inspect": "signature isclass isfunction ismethod ismodule isgeneratorfunction iscoroutinefunction isbuiltin",
    "zoneinfo": "ZoneInfo",
    "argparse": "Namespace",
}
"""Of other modules, the functions and classes that do."""
_UNKNOWN: Final = {
    "builtins": "open input breakpoint exit quit memoryview aiter anext __import__ compile help license",
    "datetime": "datetime.now datetime.today datetime.utcnow date.today datetime.timestamp datetime.astimezone"
                " datetime.fromtimestamp date.fromtimestamp datetime.strftime date.strftime time.strftime",
    "json": "load dump", "statistics": "NormalDist.samples",
    "functools": "_lru_cache_wrapper lru_cache cache",
    "collections": "UserDict UserList UserString ChainMap",
    "_contextvars": "ContextVar copy_context Context",
}
"""The exceptions among all."""
_INSTANCES: Final = {
    "datetime": "date datetime time timedelta timezone", "fractions": "Fraction",
    "uuid": "UUID", "zoneinfo": "ZoneInfo", "string": "Template", "re": "Pattern Match",
    "pathlib": "PurePath PurePosixPath PureWindowsPath Path PosixPath WindowsPath _PathParents",
    "types": "SimpleNamespace CodeType",
    "pathlib._local": "PurePath PurePosixPath PureWindowsPath Path PosixPath WindowsPath _PathParents",
    "argparse": "Namespace", "operator": "itemgetter attrgetter methodcaller", "inspect": "Signature Parameter",
    "ipaddress": "IPv4Address IPv6Address IPv4Network IPv6Network",
    "typing": "TypeVar ParamSpec _GenericAlias _UnionGenericAlias _SpecialForm _CallableType _LiteralGenericAlias",
}
"""The types whose instances do not change, or are nothing but attributes."""
_BUILTIN_INSTANCES: Final = frozenset({
    object, types.CodeType, types.GenericAlias, types.UnionType, types.SimpleNamespace, types.EllipsisType,
})
_BASES: Final = frozenset({
    "_collections_abc", "_py_abc", "abc", "collections.abc", "contextlib", "enum", "numbers", "typing",
    "typing_extensions",
})
"""Modules whose classes are interfaces: user classes derived from them have no state but their own."""
_BUILTIN_BASES: Final = frozenset({object, type, tuple, list, dict, set, frozenset, int, float, complex, str, bytes})
_IN_C: Final = (types.BuiltinFunctionType, types.MethodWrapperType)
_OF_A_TYPE: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)

_WAY_OUT: Final = "Call it outside, and pass its results as arguments."
_WAYS_OUT: Final = {
    **dict.fromkeys(("random", "secrets"), "Use jf.random.uniform(shape) and jf.nn.dropout, which draw anew in each"
                                           " call, or draw outside and pass the numbers as an argument."),
}

Knows = Callable[[Any], bool | None]


def opaque(value: Any, access_path: str | None = None) -> VolatileError:
    """Return the error for an opaque callable, or for an opaque object at an access path."""
    if access_path is None:
        named = value if hasattr(value, "__qualname__") else type(value)
        module = getattr(named, "__module__", None) or type(getattr(value, "__self__", None)).__module__
        return VolatileError(
            f"{module}.{named.__qualname__} is called: jitfuse does not see what it reads and writes, so that no call"
            f" can do without Python. {_WAYS_OUT.get(module, _WAY_OUT)}"
        )
    return VolatileError(
        f"{access_path} is a {type(value).__module__}.{type(value).__qualname__}: jitfuse does not see its state, so"
        " that no call can do without Python. Pass the arrays and numbers that the function needs of it."
    )


def is_known(value: Any, knows: Knows) -> bool:
    """Tell whether seen code may call a function, a class or a callable object: it is known, or is seen itself.

    `knows` answers for libraries of arrays; it returns None for what is not theirs.
    """
    kind = type(value)
    if kind is types.FunctionType:
        return is_user_function(value) or _is_known_function(value, knows)
    if kind is types.MethodType:  # of an interface's method the owner has the state
        owner = value.__self__
        return is_known(value.__func__, knows) and (isinstance(owner, type) or is_known_class(type(owner), knows))
    if isinstance(value, type):
        return is_known_class(value, knows)
    if isinstance(value, functools._lru_cache_wrapper | types.ModuleType):
        return isinstance(value, types.ModuleType) or _is_own(value.__module__)
    found = knows(value)
    if found is not None:
        return found
    if isinstance(value, _IN_C):
        return _is_known_in_c(value, knows)
    if isinstance(value, _OF_A_TYPE):
        return is_known_class(value.__objclass__, knows)
    return is_user_class(kind) or is_known_class(kind, knows)


def is_known_class(cls: type, knows: Knows) -> bool:
    """Tell whether seen code may call a class, and the methods of its instances."""
    if issubclass(cls, BaseException) or issubclass(cls, enum.Enum) or is_user_class(cls):
        return True
    found = knows(cls)
    return _is_listed(cls.__module__, cls.__qualname__, cls) if found is None else found


def is_known_instance(real: Any, knows: Knows) -> bool:
    """Tell whether seen code may hold an object that exists before the call: all that it reads of it is guarded."""
    cls = type(real)
    if is_user_class(cls):
        return all(_is_plain_base(base, knows) for base in cls.__mro__)
    if cls in _BUILTIN_INSTANCES or issubclass(cls, enum.Enum | BaseException) or _is_own(cls.__module__):
        return True
    if isinstance(real, functools._lru_cache_wrapper):
        return _is_own(real.__module__)
    if real is sys.stdout or real is sys.stderr:  # print() may have them; their methods are opaque
        return True
    found = knows(real)
    if found is not None:
        return found
    module = "datetime" if cls.__module__ == "_pydatetime" else cls.__module__
    return cls.__qualname__ in _INSTANCES.get(module, "").split() and _has(module, cls.__qualname__, cls)


def _is_plain_base(cls: type, knows: Knows) -> bool:
    if cls in _BUILTIN_BASES or is_user_class(cls) or issubclass(cls, BaseException) or issubclass(cls, enum.Enum):
        return True
    return cls.__module__ in _BASES or getattr(cls, "read_by_path", False) or bool(knows(cls))


def _is_known_function(function: types.FunctionType, knows: Knows) -> bool:
    module = str(function.__globals__.get("__name__", ""))
    if _is_own(module):
        return True
    found = knows(function)
    if found is not None:
        return found
    if module not in sys.modules or vars(sys.modules[module]) is not function.__globals__:
        return False
    return _is_listed(module, function.__code__.co_qualname, None)


def _is_known_in_c(function: Any, knows: Knows) -> bool:
    owner = function.__self__
    if isinstance(owner, types.ModuleType):
        return _is_listed(owner.__name__, function.__name__, function)
    cls = owner if isinstance(owner, type) else type(owner)
    name = f"{cls.__qualname__}.{function.__name__}"
    return name not in _UNKNOWN.get(cls.__module__, "").split() and is_known_class(cls, knows)


def _is_listed(module: str, name: str, value: Any) -> bool:
    """Tell whether a name of a module is known; `value` is what the module must have there, if not None."""
    if module == "builtins" or module in _MODULES:
        listed = name not in _UNKNOWN.get(module, "").split()
    else:
        listed = name.partition(".")[0] in _PARTS.get(module, "").split() or _is_own(module)
    return listed and (value is None or module == "builtins" or _has(module, name, value))


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "jitfuse"


def _has(module: str, name: str, value: Any) -> bool:
    """Tell whether a module has an object under a dotted name; local classes of a module count as its own."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return "<locals>" in name
    return found is value
