"""The result of an exported function: a tree of Python containers whose leaves are values of the program.

Owns the leaves, and the conversion of a tree, or of the paths of a program's outputs, to an expression.
"""
from __future__ import annotations

import ast
import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.errors import UnsupportedError
from jitfuse.exporting.literals import literal


@dataclasses.dataclass(frozen=True)
class Delivered:
    """An output of the program. kind: "array", "scalar" (NumPy's), "python" or "" (an array from rank 1 on)."""

    path: str
    kind: str = ""


@dataclasses.dataclass(frozen=True)
class Argument:
    """The object bound to a feed."""

    feed: int


@dataclasses.dataclass(frozen=True)
class FeedWindow:
    """A view of the array bound to a feed, whose layout is `base`; offset and strides in bytes."""

    feed: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    base: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Constant:
    """A Python value that is the same in every call."""

    value: Any


Leaf = Delivered | Argument | FeedWindow | Constant


class Structure(NamedTuple):
    """A class of results: its name, fields, and whether it is a named tuple or a dataclass."""

    name: str
    fields: tuple[str, ...]
    is_tuple: bool

    def definition(self) -> str:
        """Return the statement that defines the class."""
        fields = ", ".join(f'"{f}"' for f in self.fields)
        if self.is_tuple:
            return f'{self.name} = collections.namedtuple("{self.name}", [{fields}])'
        return f'{self.name} = dataclasses.make_dataclass("{self.name}", [{fields}])'


def expression(tree: Any, leaf: Callable[[Leaf], ast.expr], structures: dict[type, Structure]) -> ast.expr:
    """Return the expression of a tree, and add the classes that it needs to `structures`.

    Raises UnsupportedError for containers other than lists, tuples, dicts, named tuples and dataclasses.
    """

    def of(value: Any) -> ast.expr:
        return expression(value, leaf, structures)

    if isinstance(tree, Leaf):
        return leaf(tree)
    if type(tree) is tuple:
        return ast.Tuple([of(v) for v in tree], ast.Load())
    if type(tree) is list:
        return ast.List([of(v) for v in tree], ast.Load())
    if type(tree) is dict:
        return ast.Dict([literal(k) for k in tree], [of(v) for v in tree.values()])
    if type(tree) is collections.OrderedDict:
        pairs: list[ast.expr] = [ast.Tuple([literal(k), of(v)], ast.Load()) for k, v in tree.items()]
        return ast.Call(ast.parse("collections.OrderedDict", mode="eval").body, [ast.List(pairs, ast.Load())], [])
    found = _structure(type(tree), structures)
    return ast.Call(ast.Name(found.name), [], [ast.keyword(f, of(getattr(tree, f))) for f in found.fields])


def _structure(cls: type, structures: dict[type, Structure]) -> Structure:
    if cls not in structures:
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            fields, is_tuple = tuple(cls._fields), True
        elif dataclasses.is_dataclass(cls):
            fields, is_tuple = tuple(f.name for f in dataclasses.fields(cls) if f.init), False
        else:
            raise UnsupportedError(f"the export writes lists, tuples, dicts, named tuples and dataclasses, and no "
                                   f"{cls.__name__}: return one of those")
        if cls.__name__ in (s.name for s in structures.values()):
            raise UnsupportedError(f"the result has two classes of the name {cls.__name__}")
        structures[cls] = Structure(cls.__name__, fields, is_tuple)
    return structures[cls]


# ---------------------------------------------------------------- from paths
def of_paths(outputs: Mapping[str, int]) -> Any:
    """Return the tree that the paths of a program's outputs describe, such as ``result['a'][0]``.

    Indices from 0 on become a tuple, other keys and attribute names a dict. Paths that form no tree give a flat dict.
    """
    steps = {path: _steps(path) for path in outputs}
    roots = {s[0] for s in steps.values() if s is not None}
    if not outputs or len(roots) != 1 or None in steps.values():
        return {path: Delivered(path) for path in outputs}
    return _grown([(s[1], path) for path, s in steps.items() if s is not None], outputs)


def _grown(found: list[tuple[tuple[Any, ...], str]], outputs: Mapping[str, int]) -> Any:
    if any(not steps for steps, _ in found):
        if len(found) > 1:
            return {path: Delivered(path) for _, path in found}
        return Delivered(found[0][1])
    below: dict[Any, list[tuple[tuple[Any, ...], str]]] = {}
    for steps, path in found:
        below.setdefault(steps[0], []).append((steps[1:], path))
    grown = {key: _grown(inner, outputs) for key, inner in below.items()}
    if all(type(k) is int for k in grown) and sorted(grown) == list(range(len(grown))):
        return tuple(grown[k] for k in range(len(grown)))
    return grown


def _steps(path: str) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name at the start of a path and its keys, or None for a text that is no path."""
    try:
        node: ast.expr = ast.parse(path, mode="eval").body
        keys: list[Any] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                keys.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Subscript):
                keys.append(ast.literal_eval(node.slice))
                node = node.value
            else:
                return None
        literal(keys)
        hash(tuple(keys))
    except (SyntaxError, ValueError, TypeError, UnsupportedError, RecursionError, MemoryError):
        return None
    return node.id, tuple(reversed(keys))
