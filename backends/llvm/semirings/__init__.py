"""Sums of products in a semiring, of tensors of any rank: one object of native code runs tables of them."""
