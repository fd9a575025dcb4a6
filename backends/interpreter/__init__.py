"""The interpreter: programs step by step over NumPy and torch."""
