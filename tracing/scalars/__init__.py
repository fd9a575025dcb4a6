"""Numbers of Python's and NumPy's as run-time values: arithmetic, conversions, extremes, values after both branches."""
