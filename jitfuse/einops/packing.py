"""`pack` and `unpack`: arrays joined along one axis whose axes there are merged, and the way back.

A pattern such as "i j *" becomes an operation with a sum of as many terms as there are arrays.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.axes.arrays import is_torch
from jitfuse.axes.faults import Place
from jitfuse.axes.notation import Notation
from jitfuse.axes.plans.abstract import AbstractPlan
from jitfuse.axes.terms import AxisList, NamedAxis, Pack, Product, Sum, Term
from jitfuse.base.records import NamedTuple
from jitfuse.einops.errors import Writing
from jitfuse.einops.operation import PatternOp
from jitfuse.einops.parsing import Range, refused_name
from jitfuse.einops.preparation import kept

Shape = Sequence[int]
STAR: Final = "*"
_packers: Final[dict[tuple[str, int], Packer]] = {}
_unpackers: Final[dict[tuple[str, tuple[tuple[int, ...], ...], type], Callable[[Any], Any]]] = {}
"""What unpacks by a pattern and shapes. The last of a key is the type of all sizes together: 2.0 equals 2."""


class Packer(NamedTuple):
    """What packs a number of arrays by a pattern: the operation, and the numbers of axes before and behind the star."""

    run: Callable[..., Any]
    before: int
    behind: int


class StarPattern(NamedTuple):
    """A pattern with one star: the names before and behind it, and where everything stands."""

    writing: Writing
    before: tuple[str, ...]
    behind: tuple[str, ...]
    ranges: tuple[Range, ...]

    def terms(self, star: Sequence[Term]) -> AxisList:
        """Return the axes of an array, with these in place of the star."""
        return AxisList((*map(NamedAxis, self.before), *star, *map(NamedAxis, self.behind)))

    def operation(self, lefts: Sequence[AxisList], rights: Sequence[AxisList], **options: Any) -> PatternOp:
        """Return an operation; all its arrays are written by the one pattern."""
        return PatternOp(AbstractPlan("rearrange", tuple(lefts), tuple(rights)),
                         notation=functools.partial(self.notation, lefts, rights), **options)

    def notation(self, lefts: Sequence[AxisList], rights: Sequence[AxisList]) -> Notation:
        """Return the call's text, and where the axes of an operation stand in it."""
        ranges = {
            Place(side, k, n): found
            for side, lists in (("left", lefts), ("right", rights)) for k, axes in enumerate(lists)
            if len(axes) == len(self.ranges) for n, found in enumerate(self.ranges)
        }
        ranges |= {Place("left", k): (0, len(self.writing.pattern)) for k in range(len(lefts))}
        return self.writing.notation(ranges)


def pack(tensors: Sequence[Any], pattern: str) -> tuple[Any, list[Any]]:
    """Return arrays joined along the star of a pattern, and the shapes that the star stood for in each.

    Parameters:
        tensors: the arrays; those axes that the star stands for may differ in number and size.
        pattern: the axes of all arrays, such as "batch * channel".

    Example:
        >>> from jitfuse import einops
        >>> packed, shapes = einops.pack([np.zeros((2, 5)), np.zeros((2, 3, 4, 5))], "i * k")
        >>> packed.shape, shapes
        ((2, 13, 5), [(), (3, 4)])

    Raises:
        EinopsError: the pattern is wrong, or an array does not fit.
    """
    try:
        run, before, behind = _packers[pattern, len(tensors)]
    except (KeyError, TypeError):
        run, before, behind = _packer(tensors, pattern)
    if behind:
        return run(*tensors), [x.shape[before:-behind] for x in tensors]
    return run(*tensors), [x.shape[before:] for x in tensors]


def unpack(tensor: Any, packed_shapes: Sequence[Shape], pattern: str) -> list[Any]:
    """Return the arrays that were packed, as views where they are.

    Parameters:
        tensor: the packed array.
        packed_shapes: what the star stands for in each result; one size may be -1.
        pattern: the axes, such as "batch * channel".

    Example:
        >>> from jitfuse import einops
        >>> [x.shape for x in einops.unpack(np.zeros((2, 13, 5)), [(), (3, 4)], "i * k")]
        [(2, 5), (2, 3, 4, 5)]

    Raises:
        EinopsError: the pattern or the shapes are wrong, or do not fit.
    """
    shapes = tuple(map(tuple, packed_shapes))
    try:
        run = _unpackers[pattern, shapes, sum(map(sum, shapes)).__class__]
    except (KeyError, TypeError):
        run = _unpacker(pattern, shapes)
    return list(run(tensor))


# ---------------------------------------------------------------- preparation
def _packer(tensors: Any, pattern: Any) -> Packer:
    count = len(tensors)
    read = _read("pack", pattern)
    if not count:
        raise read.writing.error("wrong_arity", "There is nothing to pack", help="Give one array at least.")
    return kept(_packers, (pattern, count), lambda: _made_packer(read, count))


def _made_packer(read: StarPattern, count: int) -> Packer:
    packs = [Pack(f"{STAR}{k}") for k in range(count)]
    lefts = [read.terms([p]) for p in packs]
    op = read.operation(lefts, [read.terms([_sum([Product((p,)) for p in packs])])], single=True)
    before, behind = len(read.before), len(read.behind)
    return Packer(op if count > 1 else _copied(op), before, behind)


def _copied(op: PatternOp) -> Callable[[Any], Any]:
    """Return the packing of one array: a copy, as that of several is."""
    def copied(tensor: Any) -> Any:
        made = op(tensor)
        return made.clone() if is_torch(made) else made.copy()

    return copied


def _sum(terms: list[Term]) -> Term:
    return Sum(tuple(terms)) if len(terms) > 1 else terms[0]


def _unpacker(pattern: Any, shapes: tuple[tuple[Any, ...], ...]) -> Callable[[Any], Any]:
    read = _read("unpack", pattern, f"..., {list(shapes)}")
    try:
        shapes = tuple(tuple(map(operator.index, shape)) for shape in shapes)
    except TypeError:
        raise read.writing.error("bad_size", f"{list(shapes)} are no shapes", help=(
            "Shapes are tuples of integers.")) from None
    return kept(_unpackers, (pattern, shapes, int), lambda: _made_unpacker(read, shapes))


def _made_unpacker(read: StarPattern, shapes: tuple[tuple[int, ...], ...]) -> Callable[[Any], Any]:
    open_, error = [n for shape in shapes for n in shape if n == -1], read.writing.error
    if not shapes:
        raise error("wrong_arity", "There are no shapes to unpack", help="Give one shape for each result.")
    if any(n < -1 for shape in shapes for n in shape):
        raise error("bad_size", "The shapes have a negative size", help="One size may be -1: that is left over.")
    if len(open_) > 1:
        raise error("ambiguous_sizes", "The shapes have more than one -1", help="Only one size may be left open.")
    terms: list[list[NamedAxis]] = []
    sizes: dict[str, int] = {}
    for k, shape in enumerate(shapes):
        terms.append([NamedAxis(f"{STAR}{k}_{n}") for n in range(len(shape))])
        sizes |= {axis.name: n for axis, n in zip(terms[-1], shape) if n != -1}
    if open_ and any(-1 in shape and 0 in shape for shape in shapes):
        raise error("ambiguous_sizes", "The shapes have a -1 beside a 0", help="Any size would fit: give it.")
    left = read.terms([_sum([Product(tuple(own)) for own in terms])])
    return read.operation([left], [read.terms(own) for own in terms], single=False, sizes=sizes)


def _read(function: str, pattern: Any, before: str = "...") -> StarPattern:
    """Return a pattern with a star; raise EinopsError."""
    writing = Writing(function, str(pattern), before=before)
    if not isinstance(pattern, str):
        raise writing.error("bad_pattern", f"The pattern is a {type(pattern).__name__}", help=(
            "The arrays come first, then the pattern, a string."))
    names, ranges, start = pattern.split(), [], 0
    for k, name in enumerate(names):
        start = pattern.index(name, start)
        at = start, start + len(name)
        start = at[1]
        ranges.append(at)
        if name in names[:k]:
            raise writing.error("repeated_axis", f"{name} stands twice", at, help="Give each axis a name of its own.")
        if name != STAR and (why := refused_name(name)):
            raise writing.error("bad_pattern", f"Invalid axis identifier: {name} {why}", at, help=(
                "Names are Python identifiers that neither begin nor end with an underscore."))
    if STAR not in names:
        raise writing.error("bad_pattern", "No * stands for the axes that are packed", help=(
            "Write one, such as 'batch *'."))
    place = names.index(STAR)
    return StarPattern(writing, tuple(names[:place]), tuple(names[place + 1 :]), tuple(ranges))

