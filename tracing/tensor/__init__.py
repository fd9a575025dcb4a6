"""The traced array: operators, indexing, views, other values lifted to one, Python's and NumPy's protocols."""
