"""Base modules without arrays or programs: records, late imports, digests, threads, forks."""
