"""Launches of WGSL kernels: the adapter and its facts, buffers, pipelines. Does not own what kernels compute."""
