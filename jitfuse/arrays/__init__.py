"""Eager arrays: AbstractTensors that compute at once, over a NumPy array or a torch tensor.

`base` has the user's side of them, `numpy_array` and `torch_array` the two classes, and `wrapping` the conversions.
"""
