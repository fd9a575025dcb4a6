"""`parse_shape` and `asnumpy`."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.axes.arrays import is_torch, library_of
from jitfuse.axes.faults import Fault
from jitfuse.einops.errors import Writing
from jitfuse.einops.parsing import ELLIPSIS, parse


def parse_shape(x: Any, pattern: str) -> dict[str, int]:
    """Return the sizes of an array's axes by their names; `_` skips an axis, `...` any number of them.

    Example:
        >>> from jitfuse import einops
        >>> einops.parse_shape(np.zeros((2, 3, 5, 7)), "batch _ h w")
        {'batch': 2, 'h': 5, 'w': 7}

    Raises:
        EinopsError: the pattern is wrong, or does not fit.
    """
    writing = Writing("parse_shape", str(pattern))
    _check_array(x, writing)
    side = parse(writing, 0, len(pattern), underscore=True)
    for group in side.groups:
        if len(group.items) > 1:
            raise writing.error("bad_pattern", "A shape has no axes that hold several", group.range,
                                help="Split them with rearrange first.")
    shape, groups = tuple(x.shape), list(side.groups)
    place = next((k for k, group in enumerate(groups) if group.items and group.items[0].axis == ELLIPSIS), None)
    if len(shape) < len(groups) - 1 if place is not None else len(shape) != len(groups):
        raise writing.error("rank_mismatch", f"The array has {len(shape)} axes, of sizes {shape}", help=(
            "Write a name, `_` or a size for each axis; `...` stands for any number of them."))
    if place is not None:
        behind = len(groups) - place - 1
        shape = shape[:place] + shape[len(shape) - behind :]
        del groups[place]
    found = {}
    for group, size in zip(groups, shape):
        axis = group.items[0].axis if group.items else 1
        if isinstance(axis, str):
            found[axis] = size
        elif axis != size:
            raise writing.error("inconsistent_sizes", f"The axis has size {size}, not {axis}", group.range,
                                help="Check the array's shape.")
    found.pop("_", None)
    return found


def asnumpy(tensor: Any) -> Any:
    """Return an array as NumPy's: the array itself, or what a torch tensor or a jitfuse array holds.

    Example:
        >>> from jitfuse import einops
        >>> einops.asnumpy(np.arange(3)).tolist()
        [0, 1, 2]

    Raises:
        EinopsError: the value is no array.
    """
    if isinstance(tensor, np.ndarray):
        return tensor
    _check_array(tensor, Writing("asnumpy", ""))
    return tensor.detach().cpu().numpy() if is_torch(tensor) else np.asarray(tensor)


def _check_array(x: Any, writing: Writing) -> None:
    try:
        library_of([x])
    except Fault as fault:
        raise writing.error(fault.code, fault.reason, help=fault.help) from None
