"""What ends a run of the user's function early, or the making of native tables, and how much is traced at most.

The signals are no Exceptions, lest user code catches them by accident.
"""
from __future__ import annotations

from typing import Final

REPLAYED: Final = 32
"""Looks at one place in one run of the function that are worth a note: a loop that is run through iteration by
iteration."""
TRACED: Final = 128
"""Looks that one call may add to the tree: each takes milliseconds, twenty where its segment has a new kernel."""
TRACED_AT_PLACE: Final = 64
"""The same at one place. Of 184 programs seven came to more; one of them stayed compiled, no faster than NumPy."""


BRANCHED: Final = 6
"""Looks at one place in one run of the function after which its branches are if-converted, where they can be."""
BRANCHED_IF_REPEATED: Final = 24
"""The same in a loop that comes back to where it was but for counters: it may well be closed, and one branch is run."""
LOOPED: Final = 24
"""The same after which the loop that ends by it is the program's: one that is closed comes to that rarely, or late."""


class BreakSignal(BaseException):
    """Base of what follows."""


class BackEdgeSignal(BreakSignal):
    """The function has come to a state that is known: the call goes on from there, along the tree."""


class RestartSignal(BreakSignal):
    """The tree is wrong, for branches are to go another way, or both, or the function asks what it did not ask before
    in the same situation: it is traced from the beginning."""


class GiveUpSignal(BreakSignal):
    """The function has looked at too many different values."""


class UnfitSignal(BaseException):
    """The values of a tree cannot be placed in native tables: Python goes along it."""
