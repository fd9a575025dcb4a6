"""How an operation is written, and where in that text a fault is."""
from __future__ import annotations

from collections.abc import Mapping

from jitfuse.axes.faults import Place
from jitfuse.axes.terms import AxisList
from jitfuse.base.records import NamedTuple


class Notation(NamedTuple):
    """A text, and the ranges of it that places have."""

    text: str
    ranges: Mapping[Place, tuple[int, int]]

    def marked(self, place: Place | None) -> str:
        """Return the text with a caret under a place, if it is one of the text."""
        found = self.ranges.get(place) if place is not None else None
        if found is None and place is not None and place.term is not None:
            found = self.ranges.get(place._replace(term=None))
        indented = f"    {self.text}"
        if found is None:
            return indented
        return f"{indented}\n    {' ' * found[0]}{'^' * max(1, found[1] - found[0])}"


class Writer:
    """A text that grows, and remembers where its places are."""

    def __init__(self) -> None:
        self.text = ""
        self.ranges: dict[Place, tuple[int, int]] = {}

    def add(self, text: str, place: Place | None = None) -> None:
        """Add text that is a place."""
        start = len(self.text)
        self.text += text
        if place is not None:
            self.ranges[place] = start, len(self.text)

    def side(self, side: str, lists: tuple[AxisList, ...], *, single: bool) -> None:
        """Add a side: a list, or a tuple of them."""
        self.add("" if single else "(")
        for k, axes in enumerate(lists):
            start = len(self.text)
            self.add("ax[")
            for n, term in enumerate(axes):
                self.add(", " if n else "")
                self.add(str(term), Place(side, k, n))
            self.add("" if len(axes) else "()")
            self.add("]")
            self.ranges[Place(side, k)] = start, len(self.text)
            self.add(", " if k < len(lists) - 1 else "")
        self.add("" if single else ",)" if len(lists) == 1 else ")")

    def notation(self) -> Notation:
        """Return what is written."""
        return Notation(self.text, self.ranges)
