"""Backends: the interpreter, native code through LLVM, and GPU kernels in WGSL."""
