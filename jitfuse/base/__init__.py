"""Base modules without arrays or programs: records, late imports, digests, exact floats, threads, forks."""
