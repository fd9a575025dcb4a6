"""Sums of products in a semiring as tables of records: what the words mean, which tables are valid, what they compute.

Native code runs them (`jitfuse.backends.llvm.semirings`).
"""
