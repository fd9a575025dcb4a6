"""The ground that everything stands on: records, late imports, digests, threads, forks; no arrays and no programs."""
