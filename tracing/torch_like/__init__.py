"""torch's functions, methods and semantics over traced tensors. Importing any module of it imports torch.

`tensor` has the tensor that user code sees, `promotion` torch's dtypes, `table` the look-up from torch's functions to
the ones here; the other modules have the functions, by kind. They record the same operators as NumPy's functions do.
"""
