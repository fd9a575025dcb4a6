"""Patterns: one side of einops' notation as groups of axes, each with its range in the text.

Owns the grammar. Does not own what an operation does with it.
"""
from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterator
from typing import Final

from jitfuse.axes.faults import Place
from jitfuse.axes.terms import AxisList, NamedAxis, Number, Pack, Product, Term
from jitfuse.base.records import NamedTuple
from jitfuse.einops.errors import Writing

ELLIPSIS: Final = "…"
"""The name of the axes that `...` stands for."""
Range = tuple[int, int]
_DISCOURAGED: Final = frozenset({*keyword.kwlist, "axis"})
_WORDS: Final = re.compile(r"[()]|[^() ]+")


class Item(NamedTuple):
    """An axis: its name or its size, and where it stands."""

    axis: str | int
    range: Range


class Group(NamedTuple):
    """One axis of an array: the axes that it holds; `brackets` tells whether they stand in parentheses."""

    items: tuple[Item, ...]
    range: Range
    brackets: bool = False

    @property
    def is_ellipsis(self) -> bool:
        """Whether this is `...` on its own, which stands for any number of axes of an array."""
        return not self.brackets and bool(self.items) and self.items[0].axis == ELLIPSIS


class Side(NamedTuple):
    """All axes of one array, and the names among them, that of `...` too."""

    groups: tuple[Group, ...]
    names: frozenset[str]

    def items(self) -> Iterator[Item]:
        """Yield all axes in order."""
        for group in self.groups:
            yield from group.items

    def number(self) -> Item | None:
        """Return the first size without a name."""
        return next((item for item in self.items() if isinstance(item.axis, int)), None)

    def terms(self) -> AxisList:
        """Return the axes as terms."""
        return AxisList(tuple(map(_term, self.groups)))

    def ranges(self, side: str, array: int = 0) -> dict[Place, Range]:
        """Return where its axes stand."""
        found = {Place(side, array, k): group.range for k, group in enumerate(self.groups)}
        if self.groups:
            found[Place(side, array)] = self.groups[0].range[0], self.groups[-1].range[1]
        return found


def _term(group: Group) -> Term:
    terms: list[Term] = []
    for axis, _ in group.items:
        terms.append(Number(axis) if isinstance(axis, int) else Pack(axis) if axis == ELLIPSIS else NamedAxis(axis))
    if not terms:
        return Number(1)
    return terms[0] if len(terms) == 1 and (group.is_ellipsis or terms[0] != Pack(ELLIPSIS)) else Product(tuple(terms))


def parse(writing: Writing, start: int, stop: int, *, underscore: bool = False, repeats: bool = False) -> Side:
    """Return the side that a range of a pattern is; `underscore`: `_` is a name; `repeats`: names may repeat.

    Raises:
        EinopsError: it is no side.
    """
    groups: list[Group] = []
    inside: list[Item] | None = None
    opened = 0
    seen: set[str] = set()
    for word in _WORDS.finditer(writing.pattern, start, stop):
        text, at = word[0], word.span()
        if text == "(":
            if inside is not None:
                raise writing.error("bad_pattern", "Brackets inside brackets", at, help=(
                    "Axes are grouped once: write (a b c) for (a (b c)), the result is the same."))
            inside, opened = [], at[0]
        elif text == ")":
            if inside is None:
                raise writing.error("bad_pattern", "Nothing is open that this bracket could close", at,
                                    help="Write a ( before it.")
            groups.append(Group(tuple(inside), (opened, at[1]), brackets=True))
            inside = None
        else:
            axis = _axis(writing, text, at, underscore)
            if axis in seen and axis != "_" and (axis == ELLIPSIS or not repeats):
                raise writing.error("repeated_axis", f"{text} stands twice", at, help=(
                    "A name stands once on a side; only einsum takes diagonals."))
            if isinstance(axis, str):
                seen.add(axis)
            items = () if axis == 1 else (Item(axis, at),)
            if inside is None:
                groups.append(Group(items, at))
            else:
                inside += items
    if inside is not None:
        raise writing.error("bad_pattern", "This bracket is not closed", (opened, opened + 1), help=(
            "Write a ) behind it."))
    return Side(tuple(groups), frozenset(seen))


def _axis(writing: Writing, word: str, at: Range, underscore: bool) -> str | int:
    """Return the name or the size that a word is; raise EinopsError."""
    if word.isidentifier() and word.isascii() and word[0] != "_" != word[-1] and word not in _DISCOURAGED:
        return word
    if word == "...":
        return ELLIPSIS
    if word.isdecimal():
        if int(word) == 0:
            raise writing.error("bad_size", "An axis without a name has a positive size", at,
                                help="Give the axis a name, and its size as name=0.")
        return int(word)
    for k, letter in enumerate(word):
        if letter != "_" and not letter.isalnum():
            help = "`...` stands on its own, once in each array." if letter == "." else (
                "Patterns are names, numbers, brackets, `...` and spaces.")
            raise writing.error("bad_pattern", f"Unknown character {letter!r}", (at[0] + k, at[0] + k + 1), help=help)
    if why := refused_name(word, underscore=underscore):
        raise writing.error("bad_pattern", f"Invalid axis identifier: {word} {why}", at, help=(
            "Names are Python identifiers that neither begin nor end with an underscore."))
    return word


def refused_name(name: str, *, underscore: bool = False) -> str | None:
    """Return why a name is none, or None. Names that einops discourages are warned of."""
    if not name.isidentifier():
        return "is no Python identifier"
    if name[0] == "_" or name[-1] == "_":
        return None if name == "_" and underscore else "begins or ends with an underscore"
    if name in keyword.kwlist:
        warnings.warn(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning, stacklevel=2)
    if name == "axis":
        warnings.warn("It is discouraged to use 'axis' as an axis name", FutureWarning, stacklevel=2)
    return None


def arrow(writing: Writing, code: str = "bad_pattern") -> int:
    """Return where the arrow of a pattern begins; raise EinopsError unless it has one."""
    found = [m.start() for m in re.finditer("->", writing.pattern)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise writing.error(code, f"{writing.function.capitalize()} pattern must contain '->'", help=(
            "Write the axes before, an arrow, and the axes after: 'h w -> w h'."))
    raise writing.error(code, "A second arrow", (found[1], found[1] + 2), help="A pattern has two sides.")
