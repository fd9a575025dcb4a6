"""The namespace of the Python array API standard: its functions, its dtypes, and which arrays they are called with."""
