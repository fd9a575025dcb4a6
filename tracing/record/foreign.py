"""Wrappers of traced tensors with another library's methods: proxies of that library's arrays in a trace.

Owns their base class, by which the tracer knows them, and conversions of torch tensors. Does not own torch's wrappers
(`jitfuse.tracing.torch_like`, which is imported only where torch is).
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, NeedsGradientsError


class Foreign:
    """A wrapper of a traced tensor, `tensor`, with another library's methods."""

    __slots__ = ()
    tensor: Any

    def __bool__(self) -> bool:
        return bool(self.tensor)


def bare(value: Any) -> Any:
    """Return a wrapper's traced tensor, and any other value as it is."""
    return value.tensor if isinstance(value, Foreign) else value


def is_torch_tensor(value: Any) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ())) and not isinstance(value, Foreign)


def is_torch_module(value: Any) -> bool:
    """Return whether a value is an `nn.Module`, without importing torch."""
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return module is not None and isinstance(value, module)


def is_torch_constant(value: Any) -> bool:
    """Return whether a value is a torch dtype, shape or device."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.dtype | torch.Size | torch.device)


def tensor_as_array(tensor: Any, *, keeps_gradients: bool = False) -> np.ndarray[Any, Any]:
    """Return a torch tensor on the CPU as an array, as `host_array` does.

    Raises ArgumentError for tensors on other devices, and for those whose gradients would be lost.
    """
    torch: Any = sys.modules["torch"]
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise ArgumentError("a tensor of torch.func, which has no memory: torch's own code runs")
    if tensor.device.type != "cpu":
        raise ArgumentError(f"a tensor on {tensor.device}: this version runs on the CPU; pass tensor.cpu()")
    if tensor.requires_grad and not keeps_gradients and torch.is_grad_enabled():
        raise NeedsGradientsError(
            "a tensor with requires_grad=True: its gradients would be lost; pass tensor.detach(), or call under "
            "torch.no_grad()"
        )
    return host_array(tensor)


def requires_grad(tensor: Any) -> bool:
    """Return whether a real tensor requires gradients, whatever mode of torch's functions a trace has entered."""
    with sys.modules["torch"]._C.DisableTorchFunction():
        return bool(tensor.requires_grad)


def host_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a torch tensor as an array over its memory, detached.

    A tensor on another device, or with a lazy conjugation or negation, becomes a read-only copy.
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
    """Return an array or a NumPy scalar as a torch tensor over its memory, or a copy where torch cannot share it."""
    torch: Any = sys.modules["torch"]
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array_as_tensor(array.view(np.int16)).view(torch.bfloat16)
    shareable = array.flags.writeable and all(s >= 0 for s in array.strides)
    return torch.from_numpy(array if shareable else np.array(array, order="C"))
