"""Rules of dtypes and shapes: what results of operators look like."""
