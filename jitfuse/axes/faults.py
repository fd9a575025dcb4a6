"""Faults: what is wrong with an operation, and where, before the operation adds its text."""
from __future__ import annotations

from collections.abc import Mapping

from jitfuse.base.records import NamedTuple


class Place(NamedTuple):
    """A place in an operation: a term of a list of a side, a whole list (`term` None), or an option by its name."""

    side: str
    array: int = 0
    term: int | None = None


class Fault(Exception):  # noqa: N818 (what is raised to users is an AxesError)
    """A mistake: its code, what it is, the way out, the place, the sizes known so far."""

    def __init__(
        self, code: str, reason: str, *, help: str, place: Place | None = None, sizes: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.help = help
        self.place = place
        self.sizes = sizes or {}
