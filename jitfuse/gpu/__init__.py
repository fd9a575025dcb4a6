"""Arrays on a GPU, and functions that run there: `jf.asarray(x, device="gpu")`, `@jf.fuse(device="gpu")`.

A result stays on the GPU until its elements are read; `transfers` counts the copies between host and GPU. Owns the
public names. Does not own kernels or plans.
"""
from __future__ import annotations

from jitfuse.backends.wgsl.runtime.device import AdapterInfo, adapters
from jitfuse.backends.wgsl.runtime.transfers import Transfers, transfers
from jitfuse.gpu.tensor import GpuTensor, asarray

__all__ = ["AdapterInfo", "GpuTensor", "Transfers", "adapters", "asarray", "transfers"]


def __dir__() -> list[str]:
    return __all__
