"""What a traced function returns and binds: trees of values, their leaves, and effects on Python's state."""
