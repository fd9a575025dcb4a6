"""Arguments that native code does not read as they are: torch tensors, unaligned arrays, specs for `.warm`.

Owns zero-copy passage of CPU torch tensors, copies of unaligned arrays, and `jf.spec`. torch is never imported
here: a tensor can only come from a process that has imported it. Does not own any arithmetic.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.records import Record


class ArraySpec(Record, frozen=True):
    """The shape and dtype of an array that does not exist yet: an argument of `.warm`."""

    shape: tuple[int, ...]
    dtype: str


def spec(shape: Sequence[int] | int, dtype: Any = "float64") -> ArraySpec:
    """Describe a C-contiguous array for `.warm`; only its address range is reserved there, and for a moment."""
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return ArraySpec(extents, numpy_dtype(dtype).name if isinstance(dtype, str) else np.dtype(dtype).name)


def materialise_specs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with arrays in the place of specs; their pages are never touched."""
    def real(leaf: Any) -> Any:
        return np.empty(leaf.shape, numpy_dtype(leaf.dtype)) if isinstance(leaf, ArraySpec) else leaf

    import optree

    mapped: Any = optree.tree_map(real, cast(Any, (args, kwargs)), none_is_leaf=True)
    return mapped[0], mapped[1]


def needs_adapting(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call brings torch tensors, or arrays that native code cannot read: see `call_adapted`."""
    torch = sys.modules.get("torch")
    leaves = [*args, *kwargs.values()]
    while leaves:
        leaf = leaves.pop()
        if type(leaf) is np.ndarray:
            if not (leaf.flags.aligned and leaf.dtype.isnative):
                return True
        elif type(leaf) in (list, tuple):
            leaves.extend(leaf)
        elif type(leaf) is dict:
            leaves.extend(leaf.values())
        elif torch is not None and isinstance(leaf, torch.Tensor):
            return True
    return False


def call_adapted(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a fused function on arrays that it can read, and return what the caller's kind of arrays asks for.

    CPU tensors pass as NumPy views, results come back as tensors over their memory. Arrays that are not aligned or
    in another byte order pass as copies; what the function writes into them is copied back.
    """
    import optree

    torch = sys.modules.get("torch")
    given: dict[int, tuple[Any, Any]] = {}
    tensors: list[Any] = []

    def adapt(leaf: Any) -> Any:
        if torch is not None and isinstance(leaf, torch.Tensor):
            array = _viewed(torch, leaf)
            tensors.append(array)
        elif type(leaf) is np.ndarray and not (leaf.flags.aligned and leaf.dtype.isnative):
            array = np.array(leaf, leaf.dtype.newbyteorder("="), order="K")
            array.flags.writeable = leaf.flags.writeable
        else:
            return leaf
        given[id(array)] = (leaf, array)
        return array

    adapted: Any = optree.tree_map(adapt, cast(Any, (args, kwargs)), none_is_leaf=True)
    if tensors:
        _refuse_mixed(tensors)
    result = function(*adapted[0], **adapted[1])
    for leaf, array in given.values():
        if type(leaf) is np.ndarray and leaf.flags.writeable:
            np.copyto(leaf, array)

    def restore(leaf: Any) -> Any:
        if id(leaf) in given:
            return given[id(leaf)][0]
        is_number = isinstance(leaf, np.ndarray | np.generic)
        return torch.from_numpy(np.asarray(leaf)) if tensors and torch is not None and is_number else leaf

    return optree.tree_map(restore, result, none_is_leaf=True)


def _viewed(torch: Any, tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise ArgumentError(f"a tensor on {tensor.device}: this version runs on the CPU; pass tensor.cpu()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            "a tensor with requires_grad=True: its gradients would be lost; pass tensor.detach(), or call under "
            "torch.no_grad()"
        )
    if tensor.dtype == torch.bfloat16:
        raise ArgumentError(
            "a tensor of dtype bfloat16: NumPy computes x * 2.0 in float32, torch in bfloat16; pass a NumPy array "
            "(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)), or tensor.float()"
        )
    return tensor.detach().numpy()


def _refuse_mixed(arrays: list[Any]) -> None:
    """Refuse the dtypes for which torch and NumPy promote differently: results must not depend on luck."""
    dtypes = {a.dtype.name for a in arrays}
    if len(dtypes) > 1 or not dtypes <= {"float16", "float32", "float64"}:
        raise ArgumentError(
            f"torch tensors of dtypes {', '.join(sorted(dtypes))}: torch's promotion differs from NumPy's here; pass "
            "tensors of one floating dtype, or NumPy arrays (tensor.numpy())"
        )


def refuse_raising(name: str) -> None:
    """Raise ArgumentError where `np.errstate` asks for floating-point exceptions, which kernels do not watch."""
    asked = sorted(kind for kind, what in np.geterr().items() if what == "raise")
    if asked:
        options = ", ".join(f"{kind}='raise'" for kind in asked)
        raise ArgumentError(
            f"{name} is called under np.errstate({options}), but fused kernels do "
            "not look at floating-point flags. Call it outside of that, and look at the results (np.isfinite); "
            "JITFUSE_DISABLE=1 runs the function as plain Python."
        )
