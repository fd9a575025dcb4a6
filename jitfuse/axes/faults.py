"""Faults: what is wrong with an operation, and where, before the operation adds its text."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jitfuse.base.records import NamedTuple

CODES: Final = {
    "bad_term": "what is written is no axis, pack, size, or list of them",
    "wrong_arity": "the number of arrays is not that of the operation",
    "added_axis": "an axis is on the right alone, where the operation makes none",
    "lost_axis": "an axis is on the left alone, where the operation keeps all",
    "no_source": "a part on the right can be made of nothing on the left",
    "ambiguous_parts": "a part on the right can be made of several parts on the left",
    "unused_part": "nothing is made of a part on the left",
    "number_in_product": "a size without a name stands where several parts are multiplied",
    "rank_mismatch": "an array has another number of axes than is written",
    "inconsistent_sizes": "no sizes fit the shapes",
    "ambiguous_sizes": "several sizes fit the shapes",
    "unknown_name": "a size is given for a name that the operation does not have",
    "bad_size": "a size is negative, or no integer, or a pack's is no tuple",
    "bad_reducer": "a reducer is missing, unknown, or where none is taken",
    "not_a_view": "a view takes a copy",
    "mixed_libraries": "some arrays are torch tensors and some are not",
    "unsupported_array": "an argument is no array",
    "too_many_axes": "a sum of products has more axes than einsum has letters",
}
"""What can be wrong."""


class Place(NamedTuple):
    """A place in an operation: a term of a list of a side, a whole list (`term` None), or an option by its name."""

    side: str
    array: int = 0
    term: int | None = None


REDUCER: Final = Place(".reduce_by")
"""The place of the reducers."""


def size_place(name: str) -> Place:
    """Return the place of a given size."""
    return Place(f".with_sizes {name}")


class Fault(Exception):  # noqa: N818 (what is raised to users is an AxesError)
    """A mistake: its code, what it is, the way out, the place, the sizes known so far."""

    def __init__(
        self, code: str, reason: str, *, help: str, place: Place | None = None, sizes: Mapping[str, int] | None = None
    ) -> None:
        assert code in CODES, code
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.help = help
        self.place = place
        self.sizes = sizes or {}
