"""Arguments that native code does not read as they are: eager arrays, torch tensors, unaligned arrays, `.warm`'s specs.

Owns zero-copy passage of eager arrays and CPU torch tensors, copies of unaligned arrays, and `jf.spec`. torch is never
imported here: a tensor can only come from a process that has imported it. Does not own any arithmetic.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.records import Record
from jitfuse.tracing.device_array import HostArray, unwrapped


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
    """Return whether a call brings eager arrays, torch tensors, or what native code cannot read: see `call_adapted`."""
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
        elif isinstance(leaf, HostArray) or (torch is not None and isinstance(leaf, torch.Tensor)):
            return True
    return False


def call_adapted(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a fused function on arrays that it can read, and return what the caller's kind of arrays asks for.

    Eager arrays and CPU tensors pass as NumPy views, results come back as their kind over their memory: torch tensors
    where there is one among the arguments, else eager arrays. Arrays that are not aligned or in another byte order pass
    as copies; what the function writes into them is copied back.
    """
    torch = sys.modules.get("torch")
    given: dict[int, tuple[Any, Any]] = {}
    tensors: list[Any] = []
    kinds: list[Any] = []

    def adapt(leaf: Any) -> Any:
        if torch is not None and isinstance(leaf, torch.Tensor):
            array = _viewed(torch, leaf)
            tensors.append(array)
        elif isinstance(leaf, HostArray):
            over_tensor = torch is not None and isinstance(leaf.value, torch.Tensor)  # type: ignore[attr-defined]
            array = _viewed(torch, leaf.value) if over_tensor else leaf.array  # type: ignore[attr-defined]
            kinds.insert(0 if over_tensor else len(kinds), type(leaf))
        elif type(leaf) is np.ndarray and not (leaf.flags.aligned and leaf.dtype.isnative):
            array = np.array(leaf, leaf.dtype.newbyteorder("="), order="K")
            array.flags.writeable = leaf.flags.writeable
        else:
            return leaf
        given[id(array)] = (leaf, array)
        return array

    adapted = _mapped(adapt, args), {name: _mapped(adapt, value) for name, value in kwargs.items()}
    if tensors:
        _refuse_mixed(tensors)
    result = function(*adapted[0], **adapted[1])
    for leaf, array in given.values():
        if type(leaf) is np.ndarray and leaf.flags.writeable:
            np.copyto(leaf, array)

    def restore(leaf: Any) -> Any:
        same = id(unwrapped(leaf))
        if same in given:
            return given[same][0]
        if not isinstance(leaf, np.ndarray | np.generic):
            return leaf
        if tensors and torch is not None:
            return torch.from_numpy(np.asarray(leaf))
        return kinds[0](leaf) if kinds else leaf

    return _mapped(restore, result)


def holds_eager(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call brings eager arrays, in plain lists and tuples at most."""
    leaves = [*args, *kwargs.values()]
    return any(isinstance(x, HostArray) for leaf in leaves for x in (leaf if type(leaf) in (list, tuple) else (leaf,)))


def reads_eager(feeds: Iterable[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a feed of a trace, such as a global, is an eager array, which native code does not read."""
    if "jitfuse.arrays.base" not in sys.modules:
        return False
    return any(f.kind == "array" and isinstance(f.source.resolve(args, kwargs), HostArray) for f in feeds)


def as_eager(result: Any) -> Any:
    """Return a result with eager arrays in the place of NumPy's."""
    from jitfuse.arrays.making import wrap

    return _mapped(wrap, result)


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree with its leaves mapped; optree is imported for trees of more than plain lists and tuples."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([_mapped(function, part) for part in tree])
    if kind in _LEAVES or isinstance(tree, HostArray):
        return function(tree)
    import optree

    return optree.tree_map(function, tree, none_is_leaf=True)


_LEAVES: Final = frozenset({np.ndarray, float, int, bool, str, type(None), np.float64, np.float32, np.int64, np.bool_})


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
