"""Python and NumPy numbers as run-time values: arithmetic, conversions, extremes, selections after both branches."""
