"""From the kernel form to LLVM text.

Owns: `emit_kernel`, which writes a form as a function, and what a caller of that function must know: how many
units a launch has, how much scratch memory a thread needs, and roughly how long it takes. Does not own the
compilation of the text (`jitfuse.backends.llvm.jit`) or launches (`jitfuse.backends.llvm.runtime`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.kernel import emit_kernel
from jitfuse.backends.llvm.codegen.layout import cost_ns, scratch_bytes, units

__all__ = ["cost_ns", "emit_kernel", "scratch_bytes", "units"]
