"""The Python array API standard's functions that are neither one operator nor NumPy's function of the same name.

`jitfuse.namespace` puts the namespace together; its extensions are `jitfuse.linalg` and `jitfuse.fft`.
"""
