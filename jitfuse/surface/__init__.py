"""Which functions of NumPy's and torch's people use in array code, and how each runs inside a fused function.

Owns the lists, with examples of each function, and the pages made of them: docs/numpy.md and docs/torch.md. The tests
compare every example with the library itself. Nothing that a fused function needs imports this package.
"""
