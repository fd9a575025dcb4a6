"""WGSL: kernels for any GPU that WebGPU reaches, through wgpu. Importing this package does not import wgpu."""
