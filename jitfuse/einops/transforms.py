"""`rearrange`, `reduce` and `repeat`: patterns of two sides become operations over named axes.

A call finds what runs it by its pattern, reduction and sizes; that finds its function by the array's class and shape.
Owns the three functions. Does not own what runs them (`jitfuse.einops.preparation`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.axes.arrays import is_torch
from jitfuse.axes.reducers import Reducer
from jitfuse.einops.errors import EinopsError
from jitfuse.einops.preparation import PREPARED, prepared


def rearrange(tensor: Any, pattern: str, **axes_lengths: Any) -> Any:
    """Return an array with its axes in another order, merged and split; a view where there is one.

    Parameters:
        tensor: an array, or a list of arrays of one shape, which are stacked along a new first axis.
        pattern: the axes before and after, such as "b h (w c) -> (b h) c w".
        axes_lengths: sizes of axes, where the shape does not tell them.

    Example:
        >>> from jitfuse import einops
        >>> einops.rearrange(np.zeros((2, 12)), "b (h w) -> b h w", h=3).shape
        (2, 3, 4)

    Raises:
        EinopsError: the pattern is wrong, or does not fit.
    """
    try:
        run = PREPARED[pattern, "rearrange", (
            *axes_lengths.items(), *map(type, axes_lengths.values())) if axes_lengths else ()]
    except (KeyError, TypeError):
        run = prepared(pattern, "rearrange", axes_lengths)
    return run(tensor if tensor.__class__ is not list else stacked(tensor))


def reduce(tensor: Any, pattern: str, reduction: Reducer, **axes_lengths: Any) -> Any:
    """Return an array with the axes reduced that the right side of the pattern lacks, and the others as it says.

    Parameters:
        tensor: an array, or a list of arrays of one shape, which are stacked along a new first axis.
        pattern: the axes before and after, such as "b (h 2) (w 2) c -> b h w c".
        reduction: "min", "max", "sum", "mean", "prod", "any", "all", or a function of an array and a tuple of axes.
        axes_lengths: sizes of axes, where the shape does not tell them.

    Example:
        >>> from jitfuse import einops
        >>> einops.reduce(np.arange(8.0), "(n 2) -> n", "max").tolist()
        [1.0, 3.0, 5.0, 7.0]

    Raises:
        EinopsError: the pattern is wrong, or does not fit; the mean is asked of numbers that are not floating.
    """
    try:
        run = PREPARED[pattern, reduction, (
            *axes_lengths.items(), *map(type, axes_lengths.values())) if axes_lengths else ()]
    except (KeyError, TypeError):
        run = prepared(pattern, reduction, axes_lengths)
    return run(tensor if tensor.__class__ is not list else stacked(tensor))


def repeat(tensor: Any, pattern: str, **axes_lengths: Any) -> Any:
    """Return an array repeated along the axes that only the right side of the pattern has.

    Parameters:
        tensor: an array, or a list of arrays of one shape, which are stacked along a new first axis.
        pattern: the axes before and after, such as "h w -> (h 2) (w 2) c".
        axes_lengths: sizes of the new axes, and of others where the shape does not tell them.

    Example:
        >>> from jitfuse import einops
        >>> einops.repeat(np.arange(2), "n -> (n copy)", copy=3).tolist()
        [0, 0, 0, 1, 1, 1]

    Raises:
        EinopsError: the pattern is wrong, or does not fit.
    """
    try:
        run = PREPARED[pattern, "repeat", (
            *axes_lengths.items(), *map(type, axes_lengths.values())) if axes_lengths else ()]
    except (KeyError, TypeError):
        run = prepared(pattern, "repeat", axes_lengths)
    return run(tensor if tensor.__class__ is not list else stacked(tensor))


def stacked(tensors: list[Any]) -> Any:
    """Return a list of arrays as one with a new first axis."""
    if not tensors:
        raise EinopsError("wrong_arity", "the list of arrays is empty", help="Give one array at least.")
    if not is_torch(tensors[0]):
        return np.stack(tensors)
    import torch

    return torch.stack(tensors)
