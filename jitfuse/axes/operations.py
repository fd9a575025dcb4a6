"""The six operations: what a person calls to make a `TensorOp`."""
from __future__ import annotations

from typing import Any

from jitfuse.axes.operation import TensorOp
from jitfuse.axes.plans.abstract import AbstractPlan, AxisSide
from jitfuse.axes.terms import AxisList
from jitfuse.errors import AxesError

Side = AxisList | tuple[AxisList, ...]


def view(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that looks at an array's memory otherwise, or refuses: it never copies.

    Example:
        >>> b, h, w = axes("b", "h", "w")
        >>> view(ax[b, h, w], ax[b, h * w])(np.zeros((2, 3, 4))).shape
        (2, 12)

    Raises:
        AxesError: axes are lost or added; called, that there is no such view ("not_a_view"), and why.
    """
    return _made("view", lhs, rhs)


def rearrange(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that moves axes, merges and splits them, and joins and cuts arrays.

    Example:
        >>> b, h, w = axes("b", "h", "w")
        >>> rearrange(ax[b, h, w], ax[b * w, h])(np.zeros((2, 3, 4))).shape
        (8, 3)

    Raises:
        AxesError: axes are lost or added.
    """
    return _made("rearrange", lhs, rhs)


def repeat(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that repeats an array along new axes, whose sizes are given.

    Example:
        >>> b, n = axes("b", "n")
        >>> repeat(ax[b], ax[b, n]).with_sizes(n=3)(np.arange(2)).tolist()
        [[0, 0, 0], [1, 1, 1]]

    Raises:
        AxesError: axes are lost.
    """
    return _made("repeat", lhs, rhs)


def reduce(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that reduces the axes that the right side lacks; `reduce_by` says how.

    Example:
        >>> b, n = axes("b", "n")
        >>> reduce(ax[b, n], ax[b]).reduce_by("max")(np.arange(6).reshape(2, 3)).tolist()
        [2, 5]

    Raises:
        AxesError: axes are added.
    """
    return _made("reduce", lhs, rhs)


def contract(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that multiplies arrays and sums over the axes that the right side lacks.

    Example:
        >>> i, j, k = axes("i", "j", "k")
        >>> contract((ax[i, k], ax[k, j]), ax[i, j])(np.ones((2, 3)), np.ones((3, 4))).shape
        (2, 4)

    Raises:
        AxesError: axes are added.
    """
    return _made("contract", lhs, rhs)


def einop(lhs: Side, rhs: Side) -> TensorOp:
    """Return the operation that does what the axes of both sides say: all of the others in one.

    Example:
        >>> b, n, d = axes("b", "n", "d")
        >>> op = einop((ax[b, n, d], ax[d]), ax[b, 1 + n, d])  # one more row for all of the batch
        >>> op(np.zeros((2, 3, 4)), np.ones(4)).shape
        (2, 4, 4)

    Raises:
        AxesError: a side has no array.
    """
    return _made("einop", lhs, rhs)


def _made(operation: str, lhs: Side, rhs: Side) -> TensorOp:
    left, right = _side(operation, "left", lhs), _side(operation, "right", rhs)
    return TensorOp(AbstractPlan(operation, left, right), single=isinstance(rhs, AxisList)).check()


def _side(operation: str, which: str, side: Any) -> AxisSide:
    if isinstance(side, AxisList):
        return (side,)
    if isinstance(side, tuple | list) and all(isinstance(axes, AxisList) for axes in side):
        return tuple(side)
    raise AxesError("bad_term", f"{operation}: the {which} side is {side!r}", help=(
        "Write ax[...] for one array, or a tuple of them for several."))
