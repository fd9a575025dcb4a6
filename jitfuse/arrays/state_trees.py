"""Trees of state by name: made of plain arrays, taken out as dicts, and saved in files.

A leaf's name is its path, with dots: ``layers.0.weight``. Owns `jf.nn.parameters`, `state_dict`, `load_state_dict`,
`save` and `load`. Does not own the arrays (`jitfuse.arrays.state`).
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from jitfuse.arrays.state import Buffer, Parameter, State, values_of
from jitfuse.base.files import write_whole
from jitfuse.dtypes import SUPPORTED, kind, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UntraceableError
from jitfuse.tracing.record.foreign import array_as_tensor
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import tree_of

__all__ = ["load", "load_state_dict", "parameters", "save", "state_dict"]
_PATH: Final = re.compile(r"\['([^']*)'\]|\[([^\]]*)\]|\.(\w+)")
_Method = TypeVar("_Method", bound=Callable[..., Any])
_FORMAT: Final = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "C64": "complex64",
}
"""The dtypes of safetensors files."""


def dotted(path: str) -> str:
    """Return a leaf's path as a name: ``['layers'][0].weight`` is ``layers.0.weight``."""
    return ".".join("".join(found) for found in _PATH.findall(path))


def parameters(tree: Any) -> Any:
    """Return a tree with `jf.Parameter` leaves, named by their paths, in place of arrays and numbers.

    Args:
        tree: dicts, lists, tuples and dataclasses of arrays of floats or complex numbers. Arrays are copied; leaves
            that are `jf.Parameter` or `jf.Buffer` stay the same objects.

    Returns:
        A tree of the same structure.

    Raises:
        DTypeError: a leaf of integers or bools. Make it a jf.Buffer, or leave it out.

    Example:
        >>> params = jf.nn.parameters({"w": np.ones((2, 2)), "b": np.zeros(2)})
        >>> params["b"]
        Parameter(b: float64[2], 16 B, [0., 0.])
    """
    made = tree_of(tree, "")
    leaves = []
    for path, leaf in zip(made.paths, made.leaves, strict=True):
        state = leaf if isinstance(leaf, State) else Parameter(leaf, dotted(path))
        state.name = state.name or dotted(path)
        leaves.append(state)
    return made.filled(leaves)


def state_dict(tree: Any, *, torch: bool = False) -> dict[str, Any]:
    """Return copies of the parameters and buffers of a tree by name.

    Args:
        tree: a tree with `jf.Parameter` and `jf.Buffer` leaves, and optimisers, whose state is taken too.
        torch: return torch tensors, for `module.load_state_dict`.

    Returns:
        A dict of NumPy arrays, or of torch tensors.

    Raises:
        ArgumentError: a leaf that is something else.

    Example:
        >>> params = jf.nn.parameters({"w": np.ones(2)})
        >>> jf.nn.state_dict(params)
        {'w': array([1., 1.])}
    """
    copies = {name: x.array.copy() for name, x in named(tree).items()}
    if not torch:
        return copies
    import torch as library  # noqa: F401  # what makes tensors finds it among the imported modules

    return {name: array_as_tensor(x) for name, x in copies.items()}


def load_state_dict(tree: Any, state: Mapping[str, Any]) -> None:
    """Write arrays into the parameters and buffers of a tree, all of them or none.

    Args:
        tree: as for `state_dict`.
        state: arrays or torch tensors by name, of the same shapes; they are cast to the dtypes in the tree.

    Returns:
        None.

    Raises:
        ArgumentError: names that only one side has.
        ShapeError: another shape.

    Example:
        >>> params = jf.nn.parameters({"w": np.ones(2)})
        >>> jf.nn.load_state_dict(params, {"w": np.zeros(2)})
        >>> params["w"].tolist()
        [0.0, 0.0]
    """
    load_into(named(tree), state)


def load_into(arrays: Mapping[str, State], state: Mapping[str, Any]) -> None:
    """Write a state into arrays of the same names, all of it or nothing."""
    missing, more = sorted(arrays.keys() - state.keys()), sorted(state.keys() - arrays.keys())
    if missing or more:
        raise ArgumentError("the state " + " and ".join(
            f"{verb} {', '.join(names[:5])}{', ..' if len(names) > 5 else ''}"
            for verb, names in (("lacks", missing), ("has also", more)) if names))
    given = {name: np.asarray(values_of(state[name])) for name in arrays}
    for name, x in arrays.items():
        if given[name].shape != x.shape:
            raise ShapeError(f"the state's {name} has the shape {given[name].shape}, and {x.shape} is needed")
        sort = given[name].dtype.kind
        if sort not in "biufcV" or (sort == "c" and kind(str(x.dtype)) != "complex"):
            raise DTypeError(f"the state's {name} is {given[name].dtype}, and {x.dtype} is needed")
    cast = {name: np.array(given[name]).astype(x.array.dtype) for name, x in arrays.items()}  # before any is written
    for name, x in arrays.items():
        x.array[...] = cast[name]


def by_path(method: _Method) -> _Method:
    """Mark a method that reads an object's parts by path alone (`jitfuse.tracing.control.state.Held`)."""
    method.read_by_path = True  # type: ignore[attr-defined]
    return method


class Keeper:
    """An object with state of its own: an optimiser, an average.

    Traces read what it holds by the path that leads to it, in methods that are marked `@by_path`. Other methods are
    those of one object, which is guarded.
    """

    read_by_path = True

    def buffers(self) -> list[Buffer]:
        """Return its arrays, each with a name."""
        raise NotImplementedError


def named(tree: Any) -> dict[str, State]:
    """Return the parameters and buffers of a tree and of the optimisers in it, by name."""
    if active() is not None:
        raise UntraceableError(f"state is copied, saved or loaded at {user_line()} in a fused function, whose compiled "
                               "calls would not do it again. Do it outside.")
    made = tree_of(tree, "")
    found: list[tuple[str, State]] = []
    for path, leaf in zip(made.paths, made.leaves, strict=True):
        name = dotted(path)
        if isinstance(leaf, State):
            found.append((name or leaf.name or "array", leaf))
        elif isinstance(leaf, Keeper):
            found += [(".".join(filter(None, (name, b.name))), b) for b in leaf.buffers()]
        else:
            raise ArgumentError(f"{name or 'the tree'} is a {type(leaf).__name__}, and no jf.Parameter, jf.Buffer or "
                                "optimiser; make a tree's arrays parameters with jf.nn.parameters(tree)")
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"two arrays of the tree are named {twice}: give their keys other names")
    return dict(found)


# ---------------------------------------------------------------- files
def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Save the parameters and buffers of a tree, and the state of optimisers in it, in a safetensors file.

    The file is written whole or not at all: a full disk or a killed process leaves the one that was there.

    Args:
        path: the file's name.
        tree: as for `state_dict`, such as ``{"model": params, "optimizer": opt}``.

    Returns:
        None.

    Raises:
        OSError: the file cannot be written.
        DTypeError: complex128, which the format has not.

    Example:
        >>> import os, tempfile
        >>> params = jf.nn.parameters({"w": np.ones(2)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jf.nn.save(os.path.join(folder, "state.safetensors"), params)
        ...     params["w"][...] = 0.0
        ...     jf.nn.load(os.path.join(folder, "state.safetensors"), params)
        >>> params["w"].tolist()
        [1.0, 1.0]
    """
    from safetensors import numpy as format_of_numpy

    arrays = named(tree)
    for name, x in arrays.items():
        if str(x.dtype) not in _FORMAT.values():
            raise DTypeError(f"{name} is {x.dtype}, which safetensors files do not have: save its real and imaginary "
                             "part")
    write_whole(path, format_of_numpy.save({name: x.array for name, x in arrays.items()}))


def load(path: str | os.PathLike[str], tree: Any) -> None:
    """Write what `save` has saved into the parameters and buffers of a tree, all of it or nothing.

    Args:
        path: the file's name.
        tree: a tree of the same names and shapes.

    Returns:
        None.

    Raises:
        OSError: the file cannot be read.
        ArgumentError, ShapeError: no safetensors file; names or shapes that differ.

    Example:
        >>> import os, tempfile
        >>> counter = jf.Buffer(np.int64(3), "n")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jf.nn.save(os.path.join(folder, "state.safetensors"), counter)
        ...     counter += 1
        ...     jf.nn.load(os.path.join(folder, "state.safetensors"), counter)
        >>> counter.item()
        3
    """
    from safetensors import SafetensorError, deserialize

    with open(path, "rb") as file:
        content = file.read()
    try:
        parts = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ArgumentError(f"{os.fspath(path)} is no safetensors file: {error}") from None
    load_into(named(tree), {name: _array(part) for name, part in parts})


def _array(part: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    dtype = _FORMAT.get(part["dtype"])
    if dtype not in SUPPORTED:
        raise ArgumentError(f"the file has an array of {part['dtype']}, which jitfuse has not")
    return np.frombuffer(part["data"], numpy_dtype(dtype)).reshape(part["shape"])
