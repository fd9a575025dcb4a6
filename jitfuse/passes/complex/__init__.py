"""Complex numbers as steps over real numbers, with NumPy's results."""
