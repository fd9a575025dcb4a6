"""The meaning of each operator in NumPy: the reference that every backend is compared with."""
