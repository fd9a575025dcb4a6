"""Result trees of a traced function: the structure, and the source of each leaf's value.

Owns the kinds of leaves (an output of the program, an argument itself, a view of one, a Python constant, a view or
masked selection made when a call ends), the building of results from values, and the flattening of dataclasses. Does
not own the classification of leaves (`jitfuse.tracing.results.leaves`).
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.records import Record
from jitfuse.tracing.tensor.traced import TracedTensor

if TYPE_CHECKING:
    from jitfuse.tracing.interception.chain import Chain
    from jitfuse.tracing.results.effects import Effect

NAMESPACE: Final = "jitfuse"
NUMBERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool, "int64": int, "uint64": int, "float64": float, "complex128": complex,
}
"""Python's number types, by their dtypes in programs."""


class OutputLeaf(Record, frozen=True):
    """A result of the program, in memory of its own. kind: "array", "scalar" (NumPy) or "python"."""

    path: str
    kind: str
    dtype: str


class SameLeaf(Record, frozen=True):
    """The object that was bound to this feed."""

    feed: int


class ViewLeaf(Record, frozen=True):
    """A view of the array bound to this feed: shape, and offset and strides in bytes from its first element."""

    feed: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class AccessPathLeaf(Record, frozen=True):
    """The caller's list, dict or tuple at the end of a chain."""

    chain: Chain


class ConstantLeaf(Record, frozen=True):
    """A Python object that is the same in every call."""

    value: Any


class PickedView(Record, frozen=True):
    """A leaf that is a view of an array at indices that the program computes.

    `at` is the leaf's position, `whole` that of the array's leaf. Each step to the view is a method of arrays and its
    arguments; in indices, a `LeafIndex` is replaced by the value of a leaf.
    """

    at: int
    whole: int
    steps: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def count(self) -> int:
        """How many leaves it needs: the array and the computed indices."""
        return 1 + sum(type(i) is LeafIndex for name, given in self.steps if name == "index" for i in given)

    def of(self, values: Sequence[Any]) -> Any:
        """Return the view, from the values of all leaves."""
        found = values[self.whole]
        for name, given in self.steps:
            if name == "index":
                found = found[tuple([i.of(values) if type(i) is LeafIndex else i for i in given])]
            elif name == "transpose" and not isinstance(found, np.ndarray):
                found = found.permute(given)
            else:
                found = getattr(found, name)(given)
        return found


class PickedCopy(Record, frozen=True):
    """A leaf with a masked selection: the elements of an array where a mask is true.

    `at` is the leaf's position, `whole` and `mask` those of the array's and the mask's leaves. The mask's axes begin at
    `axis`. `dtype` is the array's, `extent` the number of the mask's elements; `is_whole`: the mask covers all axes.
    """

    at: int
    whole: int
    mask: int
    axis: int
    dtype: str
    extent: int
    is_whole: bool

    count = 2
    """How many leaves it needs."""

    def of(self, values: Sequence[Any]) -> Any:
        """Return the elements, from the values of all leaves."""
        mask = values[self.mask]
        return values[self.whole][(*(slice(None),) * self.axis, mask) if self.axis else mask]


class LeafIndex(Record, frozen=True):
    """The value of a leaf, as an item of an index, or as the first of so many indices."""

    leaf: int
    count: int | None = None

    def of(self, values: Sequence[Any]) -> int | slice:
        """Return the item, from the values of all leaves."""
        first = values[self.leaf]
        return first if self.count is None else slice(first, first + self.count)


def window(whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> np.ndarray[Any, Any]:
    """Return the view of an argument that a function returns."""
    return np.asarray(_ArrayWindow(whole, leaf)).view(whole.dtype)


class _ArrayWindow:
    """Memory of an array with another shape and strides; keeps the array alive."""

    def __init__(self, whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> None:
        self.whole = whole
        self.__array_interface__ = {
            **whole.__array_interface__, "shape": leaf.shape, "strides": leaf.strides,
            "data": (whole.ctypes.data + leaf.offset, not whole.flags.writeable),
        }


ResultLeaf = OutputLeaf | SameLeaf | ViewLeaf | AccessPathLeaf | ConstantLeaf


class ResultTree(Record, frozen=True):
    """The result's structure, and the effects on Python's state. Leaves with the same path are one object.

    `leaves` are the result's, then those of each effect, then those of `chosen` and `picked`. `spec` is optree's, or
    None for a result that is itself a leaf: the usual case, where an import of optree would dominate a warm start.
    """

    spec: Any
    leaves: tuple[ResultLeaf, ...]
    effects: tuple[Effect, ...] = ()
    chosen: tuple[tuple[int, str], ...] = ()
    """The leaves that are mixed numbers, and their Python dtypes. The leaves before those of `picked` say which of them
    are Python's."""
    picked: tuple[PickedView | PickedCopy, ...] = ()
    """The leaves that are selected when a call ends: their arrays, indices and masks are the last leaves."""

    @property
    def _others(self) -> int:
        """How many leaves there are besides those of the result and of effects."""
        return len(self.chosen) + sum(view.count for view in self.picked)

    @property
    def owners(self) -> tuple[Chain, ...]:
        """The chains of the objects that effects write into, in the order of effects."""
        return tuple(effect.owner for effect in self.effects if effect.owner is not None)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains of all objects of the caller's that a delivery reads besides feeds."""
        return (*self.owners, *(leaf.chain for leaf in self.leaves if isinstance(leaf, AccessPathLeaf)))

    @property
    def result_leaves(self) -> tuple[ResultLeaf, ...]:
        """The leaves of the result alone."""
        return self.leaves[: len(self.leaves) - self._others - sum(effect.count for effect in self.effects)]

    def settled(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the leaves, with mixed numbers converted and selections made."""
        if not self.needs_settling:
            return values
        found = list(values)
        for (at, python), truth in zip(self.chosen, values[len(self.leaves) - self._others :]):
            if truth:
                found[at] = NUMBERS[python](found[at])
        for view in self.picked:
            found[view.at] = view.of(values)
        return found

    @property
    def needs_settling(self) -> bool:
        """Whether values of leaves must be converted before they are delivered."""
        return bool(self.chosen or self.picked)

    def rebuild(self, values: Sequence[Any]) -> Any:
        """Return the result with these values as leaves, in order; the values after them belong to effects."""
        found = self.settled(values)
        more = self.effects or self.needs_settling
        return tree_of(self.spec, found[: len(self.result_leaves)] if more else found)


def rebuilding(tree: ResultTree) -> Callable[[Sequence[Any]], Any]:
    """Return `tree.rebuild`, or a faster function for a single selection or mixed number."""
    if tree.spec is not None or not tree.needs_settling:
        return tree.rebuild
    if tree.picked:
        return tree.picked[0].of
    number = NUMBERS[tree.chosen[0][1]]

    def one(values: Sequence[Any]) -> Any:
        value, truth = values
        return number(value) if truth else value

    return one


def tree_of(spec: Any, leaves: Sequence[Any]) -> Any:
    """Return the tree with these leaves; the spec None is that of a single leaf."""
    if spec is None:
        return leaves[0]
    import optree

    return optree.tree_unflatten(spec, leaves)


class RawLeaf(Record, frozen=True):
    """A leaf of one run: its kind, its tensor (None: it has none), and the identity of its object."""

    leaf: SameLeaf | ViewLeaf | AccessPathLeaf | ConstantLeaf | None
    tensor: int | None
    kind: str
    identity: int
    axes: tuple[int, ...] | None = None
    """The axes of an array from the slowest in memory to the fastest; None for C order."""


# ---------------------------------------------------------------- trees
class _Fields:
    """A dataclass instance as a node for optree, of one type for all dataclasses.

    optree never releases registered types; with a user's class, it would keep its whole module alive.
    """

    __slots__ = ("kind", "names", "values")

    def __init__(self, value: Any, is_leaf: Callable[[Any], bool] | None = None) -> None:
        self.kind = type(value)
        self.names = tuple(f.name for f in sys.modules["dataclasses"].fields(value))
        self.values = [_with_fields(getattr(value, name), is_leaf) for name in self.names]

    def flattened(self) -> tuple[list[Any], tuple[type, tuple[str, ...]], tuple[str, ...]]:
        """Return the children, the node's metadata, and the children's names."""
        return self.values, (self.kind, self.names), self.names


def _instance(node: tuple[type, tuple[str, ...]], children: Iterable[Any]) -> Any:
    """Return the dataclass instance of a node, without running its ``__init__`` again."""
    kind, names = node
    made: Any = object.__new__(kind)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


@cache
def _know_fields() -> None:
    import optree

    register: Any = optree.register_pytree_node  # its stubs require nodes to be collections
    with contextlib.suppress(ValueError):  # another thread was first
        register(
            _Fields, _Fields.flattened, _instance, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE
        )


def has_fields(value: Any) -> bool:
    """Return whether a value is an instance of a dataclass."""
    return type(value) is not TracedTensor and hasattr(type(value), "__dataclass_fields__")


def _with_fields(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return a tree whose dataclass instances are nodes."""
    import optree

    return optree.tree_map(
        lambda leaf: leaf if not has_fields(leaf) or (is_leaf and is_leaf(leaf)) else _Fields(leaf, is_leaf), tree,
        is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE,
    )


def flatten(
    tree: Any, root: str = "result", is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[str], list[Any], Any]:
    """Return the paths from `root`, leaves and spec of a tree; dataclasses are nodes, None is a leaf."""
    if type(tree) is TracedTensor:
        return [root], [tree], None
    import optree

    accessors, leaves, spec = optree.tree_flatten_with_accessor(
        tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE
    )
    if any(map(has_fields, leaves)):
        _know_fields()
        accessors, leaves, spec = optree.tree_flatten_with_accessor(
            _with_fields(tree, is_leaf), is_leaf, none_is_leaf=True,
            namespace=NAMESPACE,
        )
    return [a.codify(root) for a in accessors], leaves, spec
