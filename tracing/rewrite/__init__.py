"""A function's source, read and rewritten so that its branches and loops ask the trace first."""
