"""Content keys: hash everything that must be equal for an object to be reused, without ambiguity.

Owns the encoding of key parts, and the parts that describe this installation of jitfuse and Python. The caller passes
in the parts that describe the machine and the code generator (target, CPU features, LLVM or adapter version, options),
because the cache imports no backend.
"""
from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, Final, TypeAlias

from jitfuse.base.digests import hex_digest
from jitfuse.cache.entry import FORMAT_VERSION
from jitfuse.cache.sources import sources_digest
from jitfuse.version import __version__

Part: TypeAlias = "bytes | str | int | tuple[Part, ...] | None"
_PARTS: Final = frozenset({bytes, str, int, bool, tuple, type(None)})


def cache_key(parts: Mapping[str, Part]) -> str:
    """Return the digest (64 hex digits) of `parts`: equal in every process exactly if the parts are equal.

    Parts are encoded in the order of their names as Python writes them, so that no two different mappings encode
    alike: ``"1"``, ``b"1"``, ``1``, ``True`` and ``(1,)`` all differ.
    Raises TypeError for other types (float, list, dict, set, subclasses such as NumPy scalars or enums): their text or
    order is not fixed, so the caller must encode them.
    """
    _check(tuple(parts.values()))
    return hex_digest(ascii(tuple([(name, parts[name]) for name in sorted(parts)])).encode())


def _check(values: tuple[Any, ...]) -> None:
    """Raise TypeError for values that are no `Part`."""
    kinds = {*map(type, values)}
    for kind in kinds - _PARTS:
        raise TypeError(f"a key part cannot be {kind.__module__}.{kind.__qualname__}: encode it first")
    if tuple in kinds:
        for item in values:
            if type(item) is tuple:
                _check(item)


def environment_parts(
    backend: str, *, touches_python: bool, extra: Mapping[str, Part],
) -> dict[str, Part]:
    """Return the key parts that all objects of `backend` share in this process.

    They are the versions of jitfuse and of the entry format, and the digest of jitfuse's code-generating sources. If
    the object touches PyObjects (`touches_python`), they include the ABIs of Python and of NumPy. `extra` holds the
    backend's own parts: target triple, CPU name and features or the adapter, LLVM or wgpu version, code generation
    options. Raises ValueError if `extra` uses a reserved name.
    """
    parts: dict[str, Part] = {
        "backend": backend,
        "jitfuse": __version__,
        "entry_format": FORMAT_VERSION,
        "sources": sources_digest(),
    }
    if touches_python:
        parts["python_abi"] = python_abi()
        parts["numpy_abi"] = numpy_abi()
    if clash := sorted(parts.keys() & extra.keys()):
        raise ValueError(f"the cache itself supplies these key parts: {', '.join(clash)}")
    return {**parts, **extra}


def python_abi() -> tuple[str, ...]:
    """Return what fixes the layout of PyObjects; the suffix distinguishes free-threaded and debug builds."""
    return (sys.implementation.name, str(sys.implementation.cache_tag), EXTENSION_SUFFIXES[0], sys.platform)


def numpy_abi() -> int:
    """Return the version of NumPy's binary interface, which its C headers check at import too."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    return int(_multiarray_umath._get_ndarray_c_version())
