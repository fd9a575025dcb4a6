"""The register IR of factor graphs: what a program is, which are valid, how they print and how they are rewritten.

A program names tensors by their axes alone. It is the same for every semiring, and knows no values of factors.
"""
