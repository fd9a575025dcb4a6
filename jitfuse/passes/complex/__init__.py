"""Complex numbers written in real steps, with NumPy's results."""
