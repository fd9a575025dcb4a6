"""Python's numbers as operands, by tensor ids: the ranges of ints, and the checks and errors of their operators."""
