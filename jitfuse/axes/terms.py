"""Terms: axes, packs of axes, numbers, products and sums, and the lists of them that stand for an array.

Owns what a person writes (`ax[b, h * w]`) and how it prints. Does not own what it means.
"""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from jitfuse.base.records import Record
from jitfuse.errors import AxesError


class Term:
    """What stands for one axis of an array, or for a pack of axes. `*` merges terms into one axis, `+` joins them."""

    @property
    def inner(self) -> tuple[Term, ...]:
        """The factors of a product, the summands of a sum; nothing of other terms."""
        return ()

    def leaves(self) -> list[Term]:
        """Return the axes, packs and numbers in it, as often as they stand there."""
        inner = self.inner
        return [leaf for term in inner for leaf in term.leaves()] if inner else [self]

    def __mul__(self, other: Term | int) -> Product:
        return Product((*_factors(self), *_factors(_term(other))))

    def __rmul__(self, other: int) -> Product:
        return _term(other) * self

    def __add__(self, other: Term | int) -> Sum:
        return Sum((*_summands(self), *_summands(_term(other))))

    def __radd__(self, other: int) -> Sum:
        return _term(other) + self


class NamedAxis(Term, Record, frozen=True):
    """An axis with a name.

    Example:
        >>> NamedAxis("b") * 2
        b * 2
    """

    name: str

    def __repr__(self) -> str:
        return self.name


class Pack(Term, Record, frozen=True):
    """Any number of axes under one name, also none.

    Example:
        >>> ax[Pack("batch"), NamedAxis("n")]
        ax[batch, n]
    """

    name: str

    def __repr__(self) -> str:
        return self.name


class Number(Term, Record, frozen=True):
    """An axis of a size that is written down, without a name."""

    value: int

    def __repr__(self) -> str:
        return str(self.value)


class Product(Term, Record, frozen=True):
    """One axis that holds several: the last one moves fastest."""

    factors: tuple[Term, ...]

    @property
    def inner(self) -> tuple[Term, ...]:
        """The factors."""
        return self.factors

    def __repr__(self) -> str:
        return " * ".join(f"({f})" if isinstance(f, Sum) else str(f) for f in self.factors)


class Sum(Term, Record, frozen=True):
    """One axis that holds several, one after the other."""

    terms: tuple[Term, ...]

    @property
    def inner(self) -> tuple[Term, ...]:
        """The summands."""
        return self.terms

    def __repr__(self) -> str:
        return " + ".join(map(str, self.terms))


def _factors(term: Term) -> tuple[Term, ...]:
    return term.factors if isinstance(term, Product) else (term,)


def _summands(term: Term) -> tuple[Term, ...]:
    return term.terms if isinstance(term, Sum) else (term,)


def _term(value: Any) -> Term:
    """Return a term, or an int as one; else raise AxesError."""
    if isinstance(value, Term):
        if isinstance(value, NamedAxis | Pack) and not value.name.isidentifier():
            raise AxesError("bad_term", f"{value.name!r} is no name", help="Names are Python identifiers.")
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if value < 0:
            raise AxesError("bad_term", f"{value} is no size: sizes are not negative", help="Write 0 or more.")
        return Number(int(value))
    if value is Ellipsis:
        raise AxesError("bad_term", "`...` has no name", help='Write a pack: (tail,) = packs("tail"); ax[b, tail].')
    way_out = "Write axes, packs, sizes, and their products and sums."
    if isinstance(value, str) and value.isidentifier():
        way_out = f'Make an axis of it: ({value},) = axes("{value}").'
    raise AxesError("bad_term", f"{value!r} is no axis", help=way_out)


class AxisList(Record, frozen=True):
    """All axes of one array, in order.

    Example:
        >>> b, h, w = axes("b", "h", "w")
        >>> ax[b, h * w]
        ax[b, h * w]
    """

    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return f"ax[{', '.join(map(str, self.terms)) or '()'}]"

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)


class _AxisLists:
    """`ax`: ``ax[b, h * w]`` is the list of an array's axes."""

    def __getitem__(self, terms: Any) -> AxisList:
        return _listed(tuple(map(_term, terms if isinstance(terms, tuple) else (terms,))))

    def __repr__(self) -> str:
        return "ax"


@functools.lru_cache(maxsize=1024)
def _listed(terms: tuple[Term, ...]) -> AxisList:
    """Return the one list of these terms: what is read twice in a traced function is the same object."""
    return AxisList(terms)


ax: Final = _AxisLists()
"""Lists of axes: ``ax[b, h * w]`` stands for an array of two axes, ``ax[()]`` for a number."""


def axes(*names: str) -> tuple[NamedAxis, ...]:
    """Return an axis for each name.

    Example:
        >>> b, n = axes("b", "n")
        >>> ax[b, n]
        ax[b, n]

    Raises:
        AxesError: a name is no Python identifier, or stands twice.
    """
    return tuple(map(NamedAxis, _names("axes", names)))


def packs(*names: str) -> tuple[Pack, ...]:
    """Return a pack of axes for each name: any number of axes, also none.

    Example:
        >>> (batch,) = packs("batch")
        >>> ax[batch, 3]
        ax[batch, 3]

    Raises:
        AxesError: a name is no Python identifier, or stands twice.
    """
    return tuple(map(Pack, _names("packs", names)))


def symbols(*, axes: str = "", packs: str = "") -> tuple[NamedAxis | Pack, ...]:
    """Return axes and packs for the names in two texts, the axes first.

    Example:
        >>> b, n, tail = symbols(axes="b n", packs="tail")
        >>> ax[b, n, tail]
        ax[b, n, tail]

    Raises:
        AxesError: a name is no Python identifier, or stands twice.
    """
    names = _names("symbols", (*axes.replace(",", " ").split(), *packs.replace(",", " ").split()))
    count = len(axes.replace(",", " ").split())
    return (*map(NamedAxis, names[:count]), *map(Pack, names[count:]))


def _names(function: str, names: tuple[Any, ...]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise AxesError("bad_term", f"{function}: {name!r} is no name", help="Names are Python identifiers.")
        if names.count(name) > 1:
            raise AxesError("bad_term", f"{function}: {name!r} stands twice", help="Give each name once.")
    return names
