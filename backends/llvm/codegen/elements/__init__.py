"""Code for single elements of a kernel: types, masks, integers, bits of floats, casts, random words."""
