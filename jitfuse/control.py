"""Loops and branches on values: `jf.cond`, `jf.while_loop`, `jf.fori_loop`, `jf.scan`, `jf.map`.

Inside a fused function they are steps that hold the programs of their functions
(`jitfuse.tracing.control.combinators`). Outside they run in Python, here, with the same results and errors. Values are
trees of arrays and numbers. Each carried value keeps its shape and dtype; Python numbers that a loop starts with get
their default dtype (float64, int64, bool, complex128). Writes of a function into its arguments have no effect outside.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVarTuple

import numpy as np

from jitfuse.dtypes import WEAK_DTYPE, numpy_dtype
from jitfuse.errors import DTypeError, ShapeError
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics.control import iteration_order
from jitfuse.tracing.control import combinators as traced
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import Tree, check_structure, check_type, takes_number, tree_of

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

__all__ = ["cond", "fori_loop", "map", "scan", "while_loop"]
Ts = TypeVarTuple("Ts")


def cond(pred: ArrayLike, true_fn: Callable[[*Ts], Any], false_fn: Callable[[*Ts], Any], *operands: *Ts) -> Any:
    """Return ``true_fn(*operands)`` if `pred` (one value) is true, else ``false_fn(*operands)``.

    Args:
        pred: one value, an array of rank 0 or a number; what is not 0 is true.
        true_fn, false_fn: functions of the operands. Both return the same tree with the same shapes and dtypes.
        operands: trees of arrays and numbers.

    Returns:
        The result of the chosen function; only that one runs.

    Raises:
        ShapeError, DTypeError, ArgumentError: the results differ; the message shows both. In a fused function alone:
            outside only one of them is known.

    Example:
        >>> f = jf.fuse(lambda x: jf.cond(x.sum() > 3, lambda v: v * 2, lambda v: v + 1, x))
        >>> f(np.array([1.0, 2.0])), f(np.array([2.0, 2.0]))
        (array([2., 3.]), array([4., 4.]))
    """
    run = active()
    if run is not None:
        return traced.cond(run, pred, true_fn, false_fn, operands)
    chosen = true_fn if _truth(pred, "cond") else false_fn
    result = tree_of(chosen(*[_copied(tree_of(value, "operand")) for value in operands]), "result")
    return result.filled([_value(leaf) for leaf in result.leaves])


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Return the first of init, body_fn(init), body_fn(body_fn(init)), ... for which `cond_fn` is false.

    Args:
        cond_fn: a function of the value, which returns one truth.
        body_fn: a function of the value, which returns the next one: the same tree, shapes and dtypes.
        init: a tree of arrays and numbers.

    Returns:
        The last value, of the shapes and dtypes of `init`.

    Raises:
        ShapeError, DTypeError, ArgumentError: the body changes the type of the value; the message shows both.

    Example:
        >>> f = jf.fuse(lambda x: jf.while_loop(lambda v: v.max() < 10, lambda v: v * 2, x))
        >>> f(np.array([1.0, 3.0]))
        array([ 4., 12.])
    """
    run = active()
    if run is not None:
        return traced.while_loop(run, cond_fn, body_fn, init)
    carried = _PythonCarried("while_loop", init)
    while _truth(cond_fn(carried.copy()), "cond_fn of while_loop"):
        carried.take("body_fn", body_fn(carried.copy()))
    return carried.value


def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Run `value = body_fn(i, value)` for each i from `lower` to below `upper`, as np.int64; return the last value.

    Args:
        lower, upper: integers, or arrays of one integer.
        body_fn: a function of i and the value, which returns the next value: the same tree, shapes and dtypes.
        init: a tree of arrays and numbers.

    Returns:
        The last value, of the shapes and dtypes of `init`.

    Raises:
        ShapeError, DTypeError, ArgumentError: the body changes the type of the value; the message shows both.

    Example:
        >>> f = jf.fuse(lambda x, n: jf.fori_loop(0, n, lambda i, v: v * 2 + i, x))
        >>> f(np.array([1.0, 2.0]), 3)
        array([12., 20.])
    """
    run = active()
    if run is not None:
        return traced.fori_loop(run, lower, upper, body_fn, init)
    carried = _PythonCarried("fori_loop", init)
    for i in range(_bound(lower, "lower"), _bound(upper, "upper")):
        carried.take("body_fn", body_fn(np.int64(i), carried.copy()))
    return carried.value


def scan(
    f: Callable[[Any, Any], Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Return (carry, ys) of `carry, y = f(carry, x)` over the items x of the arrays in `xs` along their first axis.

    Args:
        f: a function of the carry and an item, which returns the next carry (same tree, shapes and dtypes) and y.
        init: the first carry, a tree of arrays and numbers.
        xs: a tree of arrays of one length; None: no items.
        length: the number of iterations, needed without arrays.
        reverse: begin with the last item.

    Returns:
        The last carry, and the y of all iterations, stacked along a first axis, in the order of `xs`.

    Raises:
        ShapeError, DTypeError, ArgumentError: f changes the type of the carry, or arrays differ in length.

    Example:
        >>> f = jf.fuse(lambda x: jf.scan(lambda total, item: (total + item, total), 0.0, x))
        >>> f(np.array([1.0, 2.0, 3.0]))
        (np.float64(6.0), array([0., 1., 3.]))
    """
    run = active()
    if run is not None:
        return traced.scan(run, f, init, xs, length, reverse)
    carried, scanned = _PythonCarried("scan", init), tree_of(xs, "xs")
    arrays = [_value(leaf) for leaf in scanned.leaves]
    count = traced.extent_of([np.shape(x) for x in arrays], length, scanned.paths)
    made: dict[int, Tree] = {}
    for k in iteration_order(count, reverse):
        carry, y = traced.pair_of(f(carried.copy(), scanned.filled([_copy(x[k]) for x in arrays])))
        carried.take("f", carry)
        made[k] = tree_of(y, "y")
    if not made:
        return carried.value, _empty(f, carried, scanned, arrays)
    return carried.value, _stacked([made[k] for k in range(count)])


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Return f of the items of the arrays in `xs` along their first axis, stacked; see `scan`.

    Args:
        f: a function of an item, which returns a tree of arrays and numbers.
        xs: a tree of arrays of one length.

    Returns:
        The results, stacked along a first axis.

    Raises:
        ShapeError, DTypeError, ArgumentError: results differ in type, or arrays in length.

    Example:
        >>> jf.fuse(lambda x: jf.map(lambda row: row.sum() / row[0], x))(np.array([[1.0, 2.0], [2.0, 6.0]]))
        array([3., 4.])
    """
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]


# ---------------------------------------------------------------- plain values
class _PythonCarried:
    """The carried values of a loop that runs in Python."""

    def __init__(self, name: str, init: Any) -> None:
        self.name = name
        self.tree = tree_of(init, "carry")
        self.leaves = [_copy(_value(leaf)) for leaf in self.tree.leaves]  # a result is never the argument itself

    @property
    def value(self) -> Any:
        """The values as a tree."""
        return self.tree.filled(self.leaves)

    def copy(self) -> Any:
        """Return the values as a tree that a function may write into."""
        return self.tree.filled([_copy(leaf) for leaf in self.leaves])

    def take(self, function: str, returned: Any) -> None:
        """Continue with the value that a function returned; raises if its type differs."""
        new = tree_of(returned, "carry")
        sides = "what the loop starts with", f"what {function} returns"
        check_structure(self.name, self.tree, new, sides)
        pairs = zip(self.leaves, new.leaves, self.tree.paths, strict=True)
        self.leaves = [_as_type(self.name, old, leaf, path, sides) for old, leaf, path in pairs]


def _value(leaf: Any) -> Any:
    """Return an array, or a NumPy scalar for numbers and arrays of rank 0."""
    if type(leaf) in WEAK_DTYPE or (isinstance(leaf, np.ndarray) and not leaf.shape):
        return np.asarray(leaf)[()]
    if not hasattr(leaf, "dtype"):
        raise DTypeError(f"{type(leaf).__name__} is no array or number, at {user_line()}")
    return leaf


def _copy(leaf: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        return leaf.clone()
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _copied(tree: Tree) -> Any:
    return tree.filled([_copy(leaf) for leaf in tree.leaves])


def _meta(value: Any) -> Meta:
    return Meta(tuple(value.shape), str(value.dtype).removeprefix("torch."))


def _as_type(name: str, old: Any, leaf: Any, path: str, sides: tuple[str, str]) -> Any:
    meta = _meta(old)
    if type(leaf) in WEAK_DTYPE and not meta.shape and takes_number(meta.dtype, WEAK_DTYPE[type(leaf)]):
        return numpy_dtype(meta.dtype).type(leaf)
    new = _value(leaf)
    check_type(name, path, (meta, _meta(new)), sides)
    return new


def _truth(value: Any, what: str) -> bool:
    if not hasattr(value, "dtype") and not isinstance(value, int | float | complex):
        raise DTypeError(f"{what} decides by a truth, not by {value!r}, at {user_line()}")
    if np.shape(value):
        raise ShapeError(f"{what} decides by one value, not by shape {np.shape(value)}, at {user_line()}: use np.any "
                         "or np.all")
    return bool(value)


def _bound(value: Any, which: str) -> int:
    if np.shape(value) or not (isinstance(value, int) or np.issubdtype(np.asarray(value).dtype, np.integer)):
        raise DTypeError(f"fori_loop: {which} is one integer, not {value!r}, at {user_line()}")
    return int(value)


def _stacked(trees: Sequence[Tree]) -> Any:
    torch = sys.modules.get("torch")
    for tree in trees[1:]:
        check_structure("scan", trees[0], tree, ("what f returns at first", "what it returns later"))
    columns = [[_value(tree.leaves[k]) for tree in trees] for k in range(len(trees[0].leaves))]
    is_torch = [torch is not None and isinstance(column[0], torch.Tensor) for column in columns]
    return trees[0].filled([
        torch.stack(column) if here and torch is not None else np.stack(column)
        for column, here in zip(columns, is_torch, strict=True)
    ])


def _empty(f: Callable[[Any, Any], Any], carried: _PythonCarried, scanned: Tree, arrays: Sequence[Any]) -> Any:
    """Return the stacked results of no iteration; their type is found by running f on an item of zeros."""
    parts = [np.zeros(np.shape(x)[1:], numpy_dtype(_meta(x).dtype))[()] for x in arrays]
    _, y = traced.pair_of(f(carried.copy(), scanned.filled(parts)))
    tree = tree_of(y, "y")
    metas = [_meta(_value(leaf)) for leaf in tree.leaves]
    return tree.filled([np.empty((0, *m.shape), numpy_dtype(m.dtype)) for m in metas])
