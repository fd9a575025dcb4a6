"""Keys of kernels and of the runtime: the parts that depend on this process, machine and code generator.

Does not own how parts become a key (`jitfuse.cache.keys`), or the entries of keys.
"""
from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jitfuse.backends.llvm.target import machine_identity
from jitfuse.cache import cache_key, environment_parts

LEVEL: Final = 1
"""LLVM code generation level of kernels: with explicit vectors, higher levels gain nothing."""


@cache
def environment(*, touches_python: bool) -> dict[str, Any]:
    """Return the key parts shared by all objects of this process."""
    return dict(environment_parts("llvm", touches_python=touches_python, extra={"machine": machine_identity()}))


def object_key(canonical: bytes) -> str:
    """Return the key of the object of these forms for this machine, jitfuse and LLVM."""
    return cache_key({**kernel_parts(), "forms": canonical})


def kernel_parts() -> dict[str, Any]:
    """Return the parts of the keys of this process's kernels, except their forms."""
    return {**environment(touches_python=False), "level": LEVEL}


def runtime_parts(name: str, key_parts: Mapping[str, str | int]) -> dict[str, Any]:
    """Return the parts of the key of a part of the runtime."""
    return {**environment(touches_python=True), "runtime": name, **key_parts}


def runtime_key(name: str, key_parts: Mapping[str, str | int]) -> str:
    """Return the key of the object of a part of the runtime."""
    return cache_key(runtime_parts(name, key_parts))
