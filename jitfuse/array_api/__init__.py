"""The namespace of the Python array API standard: its functions, its dtypes, and the dispatch on kinds of arrays."""
