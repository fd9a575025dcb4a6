"""Cached code made again from what it says it was made of, to check an entry that somebody else wrote.

The code generator is deterministic: on one kind of machine, with one jitfuse and one LLVM, a kernel form gives the
same bytes in every process. So an entry need not be trusted: where making it again gives its very code, it is what
this process would have stored. Owns that comparison. Does not own files.
"""
from __future__ import annotations

import json
from enum import Enum
from typing import Any

from jitfuse.backends.llvm.loader import link
from jitfuse.backends.llvm.runtime import native
from jitfuse.cache import Entry
from jitfuse.cache.parts import key_from_parts, recorded_parts
from jitfuse.compile.keys import kernel_parts, runtime_parts
from jitfuse.compile.objects import kernel_code
from jitfuse.errors import JitfuseError
from jitfuse.ir.form_codec import form_of


class Verdict(Enum):
    """What came of checking an entry; the value says it in words."""

    SAME = "made again here, it is the same to the byte"
    FOREIGN = "made for another machine or by another version, so it cannot be made again here"
    UNTOLD = "does not say what its key is made of"
    MISNAMED = "its key is not that of its content"
    DIFFERENT = "its code is not what its kernel form compiles to"
    BROKEN = "its kernel form cannot be compiled"


def check(entry: Entry) -> Verdict:
    """Make an entry's code again and compare; takes as long as compiling it. Never raises for what the entry holds."""
    key = key_from_parts(entry)
    if key is None:
        return Verdict.UNTOLD
    if key != entry.key:
        return Verdict.MISNAMED
    try:
        code = _made_again(entry)
    except Exception:  # the form may be anything, and so may be what emitting it runs into
        return Verdict.BROKEN
    if code is None:
        return Verdict.FOREIGN
    return Verdict.SAME if code == entry.code else Verdict.DIFFERENT


def _made_again(entry: Entry) -> bytes | None:
    parts = recorded_parts(entry.metadata)
    if parts == kernel_parts():
        return kernel_code([form_of(data) for data in entry.canonical.split(b"\0")])
    if parts == runtime_parts("runtime", native.key_parts()):
        from jitfuse.backends.llvm.jit import compile_text

        return link(compile_text(native.runtime_text(), level=native.LEVEL), allowed=native.IMPORTS)
    if (parts or {}).get("backend") == "wgsl":
        return _shader(entry, parts)
    return None


def _shader(entry: Entry, parts: Any) -> bytes | None:
    """Write a kernel's WGSL again, where this process has the adapter that it was written for."""
    from jitfuse.backends.wgsl.codegen.variant import Variant
    from jitfuse.backends.wgsl.runtime.device import default_device
    from jitfuse.compile import gpu_kernels

    try:
        device = default_device()
    except JitfuseError:
        return None
    if parts != gpu_kernels.device_parts(device):
        return None
    form, _, variant = entry.canonical.rpartition(b"\0")
    text = variant.decode("ascii").replace("'", '"').replace(",)", ")").translate({40: "[", 41: "]"})
    mode, group, *numbers = json.loads(text)
    return gpu_kernels.shader_bytes(form_of(form), Variant(mode, group, *map(tuple, numbers)), device)
