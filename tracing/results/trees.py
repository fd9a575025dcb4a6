"""Trees of values that go into loops and branches and come out of them, and the errors where two differ.

Shared by traces and plain Python, so that both accept and reject the same. Does not own results of fused functions.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.returned import flatten

_ORDER: Final = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


class Tree(NamedTuple):
    """A tree of values: the path of each leaf from the root, the leaves, the structure. None is not a leaf."""

    paths: tuple[str, ...]
    leaves: tuple[Any, ...]
    spec: Any
    holes: tuple[int, ...]

    def filled(self, leaves: Sequence[Any]) -> Any:
        """Return the tree with other leaves."""
        whole = list(leaves)
        for hole in self.holes:
            whole.insert(hole, None)
        if self.spec is None:
            return whole[0]
        import optree

        return optree.tree_unflatten(self.spec, whole)

    def same_structure(self, other: Tree) -> bool:
        """Return whether two trees have their leaves at the same positions of the same containers."""
        return self.holes == other.holes and _plain(self.spec) == _plain(other.spec)


def _plain(spec: Any) -> Any:
    return None if spec is None or spec.is_leaf(strict=True) else spec


def tree_of(value: Any, root: str) -> Tree:
    """Flatten a tree; its paths begin with `root`."""
    paths, leaves, spec = flatten(value, root)
    holes = tuple(k for k, leaf in enumerate(leaves) if leaf is None)
    kept = [k for k, leaf in enumerate(leaves) if leaf is not None]
    return Tree(tuple(paths[k] for k in kept), tuple(leaves[k] for k in kept), spec, holes)


def check_structure(what: str, before: Tree, after: Tree, sides: tuple[str, str]) -> None:
    """Raise ArgumentError, which shows both trees, if their structures differ."""
    if not before.same_structure(after):
        raise ArgumentError(
            f"{what} at {user_line()}: {sides[0]} is {_shown(before)}, {sides[1]} is {_shown(after)}. Both must be the "
            "same tree of arrays and numbers."
        )


def _shown(tree: Tree) -> str:
    return "one value" if _plain(tree.spec) is None else str(tree.filled(["*"] * len(tree.leaves)))


def check_type(what: str, path: str, metas: tuple[Meta, Meta], sides: tuple[str, str]) -> None:
    """Raise ShapeError or DTypeError, which shows both sides, if their shapes or dtypes differ."""
    (a, b), (first, second) = metas, sides
    if (a.shape, a.dtype) == (b.shape, b.dtype):
        return
    error, way_out = (ShapeError, "Make both of one shape") if a.shape != b.shape else (
        DTypeError, f"Cast one of them, as in x.astype({a.dtype!r})"
    )
    raise error(f"{what} at {user_line()}: {path} is {a} in {first}, and {b} in {second}. {way_out}.")


def takes_number(dtype: str, number: str) -> bool:
    """Return whether a Python number of dtype `number` can replace a value of `dtype`, and takes its dtype."""
    if dtype == "bool" or number == "bool":
        return dtype == number
    return _ORDER[kind(number)] <= _ORDER[kind(dtype)] or (is_integer(number) and is_integer(dtype))
