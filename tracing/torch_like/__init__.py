"""torch's functions, methods and semantics over traced tensors. Importing any module of it imports torch.

`tensor` has the tensor that user code sees, `promotion` torch's dtypes, `table` the way from torch's functions to those
here; the other modules have the functions, by kind. All of them record the same operators as NumPy's functions do.
"""
