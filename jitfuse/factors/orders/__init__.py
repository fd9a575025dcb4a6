"""Orders of elimination: which variable goes first, what an order costs, which variables to condition on.

Reads the structure alone, never a value: an order is kept for all models of one structure.
"""
