"""Backends: the interpreter, and native code through LLVM."""
