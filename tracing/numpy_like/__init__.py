"""NumPy's functions over traced arrays, by kind; `all_functions` loads those that enter themselves into the table."""
