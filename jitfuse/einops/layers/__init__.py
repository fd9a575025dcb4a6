"""Layers that carry patterns out; those of torch are in `jitfuse.einops.layers.torch`."""
