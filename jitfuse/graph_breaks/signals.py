"""Signals that end a run of the user's function, or the making of native tables, and limits on tracing.

The signals are no Exceptions, lest user code catches them by accident.
"""
from __future__ import annotations

from typing import Final

REPLAYED: Final = 32
"""Reads at one source line in one run after which it is recorded as a loop traced iteration by iteration."""
BRANCHED: Final = 6
"""Reads at one source line in one run after which its branches are if-converted, if they can be."""
BRANCHED_IF_REPEATED: Final = 24
"""The same in a loop that recurs but for counters: it may well end in a back edge, which runs one branch only."""
LOOPED: Final = 24
"""The same after which the loop that ends by the read is captured: a loop with a back edge seldom comes to that."""


class BreakSignal(BaseException):
    """Base of the signals that end a run of the user's function."""


class BackEdgeSignal(BreakSignal):
    """The function has come to a known state: the call continues from there, along the tree."""


class RestartSignal(BreakSignal):
    """The tree is wrong: branches are to be traced differently, or the function reads something else at the same point
    of a path. It is traced from the beginning."""


class GiveUpSignal(BreakSignal):
    """The function has exceeded its budget."""


class UnfitSignal(BaseException):
    """The values of a tree cannot be placed in native tables: Python follows the tree."""
