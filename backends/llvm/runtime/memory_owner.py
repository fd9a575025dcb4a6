"""Emits the transfer of a buffer of the allocator to an array: NumPy gives it back when the array dies."""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Config
from jitfuse.backends.llvm.runtime.pyobject import config, incref
from jitfuse.backends.llvm.text.builder import Function, Value


def own(f: Function, array: Value) -> None:
    """Make a new array, which owns no memory, the owner of the buffer that it shows."""
    handler = config(f, Config.MEMORY_HANDLER)
    incref(f, handler)
    f.set_field(handler, array, layout.ARRAY_MEM_HANDLER)
    owning = f.or_(f.field("i32", array, layout.ARRAY_FLAGS), f.const("i32", layout.FLAG_OWNDATA))
    f.set_field(owning, array, layout.ARRAY_FLAGS)
