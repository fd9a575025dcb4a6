"""Named axes: one notation for views, rearrangements, repeats, reductions, contractions, and all of them in one.

See docs/named-axes.md for what an operation means.
"""
from __future__ import annotations

from jitfuse.axes.operation import TensorOp as TensorOp
from jitfuse.axes.operations import contract as contract
from jitfuse.axes.operations import einop as einop
from jitfuse.axes.operations import rearrange as rearrange
from jitfuse.axes.operations import reduce as reduce
from jitfuse.axes.operations import repeat as repeat
from jitfuse.axes.operations import view as view
from jitfuse.axes.terms import AxisList as AxisList
from jitfuse.axes.terms import NamedAxis as NamedAxis
from jitfuse.axes.terms import Pack as Pack
from jitfuse.axes.terms import ax as ax
from jitfuse.axes.terms import axes as axes
from jitfuse.axes.terms import packs as packs
from jitfuse.axes.terms import symbols as symbols

__all__ = [
    "AxisList",
    "NamedAxis",
    "Pack",
    "TensorOp",
    "ax",
    "axes",
    "contract",
    "einop",
    "packs",
    "rearrange",
    "reduce",
    "repeat",
    "symbols",
    "view",
]
