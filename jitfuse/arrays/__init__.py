"""Eager arrays: AbstractTensors that compute at once, over a NumPy array or a torch tensor.

`base` has what users see of one, `numpy_array` and `torch_array` the two kinds, `wrapping` the way in and out.
"""
