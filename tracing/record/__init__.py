"""One run of the traced function and all that it records: its graph of steps, memory, literals, the user's lines."""
