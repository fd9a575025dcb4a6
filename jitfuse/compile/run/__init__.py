"""Call plans run from Python, while the native runtime is compiled and where it cannot be."""
