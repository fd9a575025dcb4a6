"""A function's source, read and rewritten so that its branches and loops call into the trace first."""
