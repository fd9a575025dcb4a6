"""The LLVM backend: kernels, the native call path, compiling and loading."""
