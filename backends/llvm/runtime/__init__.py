"""The native runtime: thread pool, allocator, and the call path from a Python call to kernels and back."""
