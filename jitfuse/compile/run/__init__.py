"""Runs call plans from Python, while the native runtime is compiled and where it is unsupported."""
