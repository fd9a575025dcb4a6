"""Passes over arrays of any dtype: modes, decomposition, promotion, simplification, scatters and joins."""
