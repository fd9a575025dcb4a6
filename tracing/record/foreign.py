"""Traced tensors in the clothes of another library: what a function sees of that library's arrays while it is traced.

Owns the mark by which the tracer knows them. torch's are in `jitfuse.tracing.torch_like`, which is imported only where
torch is.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError


class Foreign:
    """A traced tensor, `tensor`, under another library's methods."""

    __slots__ = ("tensor",)
    tensor: Any

    def __bool__(self) -> bool:
        return bool(self.tensor)


def bare(value: Any) -> Any:
    """Return the traced tensor of one in other clothes, and any other value as it is."""
    return value.tensor if isinstance(value, Foreign) else value


def is_torch_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of torch's, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ())) and not isinstance(value, Foreign)


def is_torch_module(value: Any) -> bool:
    """Return whether a value is an `nn.Module`, without importing torch."""
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return module is not None and isinstance(value, module)


def is_torch_constant(value: Any) -> bool:
    """Return whether a value is a dtype, shape or device of torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.dtype | torch.Size | torch.device)


def tensor_as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a CPU tensor of torch's as `host_array` does.

    Raises ArgumentError for tensors on other devices, and for those whose gradients would be lost.
    """
    torch: Any = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise ArgumentError(f"a tensor on {tensor.device}: this version runs on the CPU; pass tensor.cpu()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            "a tensor with requires_grad=True: its gradients would be lost; pass tensor.detach(), or call under "
            "torch.no_grad()"
        )
    return host_array(tensor)


def host_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of torch's as an array over its memory, detached.

    Of one elsewhere than on the host, or one that is conjugated or negated when it is read, it is a copy, which refuses
    writes.
    """
    torch: Any = sys.modules["torch"]
    made: np.ndarray[Any, Any]
    if tensor.dtype == torch.bfloat16:
        from jitfuse.dtypes import numpy_dtype

        made = tensor.view(torch.int16).numpy(force=True).view(numpy_dtype("bfloat16"))
    else:
        made = tensor.numpy(force=True)
    if tensor.is_conj() or tensor.is_neg() or tensor.device.type != "cpu":
        made.setflags(write=False)
    return made


def array_as_tensor(value: Any) -> Any:
    """Return an array or a NumPy scalar as a tensor of torch's over its memory, which it copies where torch must."""
    torch: Any = sys.modules["torch"]
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array_as_tensor(array.view(np.int16)).view(torch.bfloat16)
    shareable = array.flags.writeable and all(s >= 0 for s in array.strides)
    return torch.from_numpy(array if shareable else np.array(array, order="C"))
