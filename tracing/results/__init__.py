"""Results of a traced function: trees of values, their leaves, and effects on Python's state."""
