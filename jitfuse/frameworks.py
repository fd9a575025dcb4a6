"""Arguments that are not NumPy arrays: torch tensors, and specs for `.warm`.

Owns zero-copy passage of CPU torch tensors and of `jf.spec`. torch is never imported here: a tensor can only
come from a process that has imported it. Does not own any arithmetic.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from jitfuse.errors import ArgumentError


@dataclass(frozen=True)
class ArraySpec:
    """The shape and dtype of an array that does not exist yet: an argument of `.warm`."""

    shape: tuple[int, ...]
    dtype: str


def spec(shape: Sequence[int] | int, dtype: Any = "float64") -> ArraySpec:
    """Describe a C-contiguous array for `.warm`, without allocating it."""
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return ArraySpec(extents, np.dtype(dtype).name)


def materialise_specs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with arrays in the place of specs; their pages are never touched."""
    def real(leaf: Any) -> Any:
        return np.empty(leaf.shape, leaf.dtype) if isinstance(leaf, ArraySpec) else leaf

    import optree

    mapped: Any = optree.tree_map(real, cast(Any, (args, kwargs)), none_is_leaf=True)
    return mapped[0], mapped[1]


def holds_torch(arguments: Any) -> bool:
    """Return whether a torch tensor is among the arguments."""
    import optree

    torch = sys.modules["torch"]
    return any(isinstance(leaf, torch.Tensor) for leaf in optree.tree_leaves(arguments))


def call_with_torch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a fused function on NumPy views of CPU tensors, and return tensors over the results' memory."""
    import optree

    torch = sys.modules["torch"]
    tensors: dict[int, Any] = {}

    def to_numpy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        array = _viewed(torch, leaf)
        tensors[id(array)] = (leaf, array)
        return array

    viewed: Any = optree.tree_map(to_numpy, cast(Any, (args, kwargs)), none_is_leaf=True)
    _refuse_mixed([array for _, array in tensors.values()])
    result = function(*viewed[0], **viewed[1])

    def to_torch(leaf: Any) -> Any:
        if id(leaf) in tensors:
            return tensors[id(leaf)][0]
        return torch.from_numpy(np.asarray(leaf)) if isinstance(leaf, np.ndarray | np.generic) else leaf

    return optree.tree_map(to_torch, result, none_is_leaf=True)


def _viewed(torch: Any, tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise ArgumentError(f"a tensor on {tensor.device}: this version runs on the CPU; pass tensor.cpu()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            "a tensor with requires_grad=True: its gradients would be lost; pass tensor.detach(), or call under "
            "torch.no_grad()"
        )
    return tensor.detach().numpy()


def _refuse_mixed(arrays: list[Any]) -> None:
    """Refuse the dtypes for which torch and NumPy promote differently: results must not depend on luck."""
    dtypes = {a.dtype.name for a in arrays}
    if len(dtypes) > 1 or not dtypes <= {"float32", "float64"}:
        raise ArgumentError(
            f"torch tensors of dtypes {', '.join(sorted(dtypes))}: torch's promotion differs from NumPy's here; pass "
            "tensors of one floating dtype, or NumPy arrays (tensor.numpy())"
        )
