"""Plans on the GPU: kernels as pipelines, launches as dispatches of one compute pass."""
