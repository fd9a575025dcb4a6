"""State that the runs of one trace share (one run for each mode): graph, feeds by source, literals, guarded values.

Owns `Session`, `Feed`, and `TracedRegion`, the body of a loop or branch while it is traced. Does not own the runs
(`jitfuse.tracing.record.recorder`).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.base.records import Record
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import WideIntError
from jitfuse.ir.program import Meta
from jitfuse.tracing.record import layout as layouts
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.graph import ProcessGraph

if TYPE_CHECKING:

    from jitfuse.tracing.interception.chain import Chain

_INT64 = (-(2**63), 2**63 - 1)


class Feed(Record, frozen=True, eq=False):
    """A value bound at call time: its source, and its value in the traced call."""

    id: int
    meta: Meta
    source: Any
    value: Any
    layout: layouts.MemoryLayout
    kind: str
    writeable: bool = False


class TracedRegion:
    """The body of a loop or branch while it is traced: where its ops begin in the graph, and its parameters."""

    __slots__ = ("is_python", "name", "outer", "parameters", "start", "written")

    def __init__(
        self, name: str, start: int, outer: TracedRegion | None, *, is_python: bool = False, runs_once: bool = False
    ) -> None:
        self.is_python = is_python
        """Whether it is the body of a captured Python loop: its writes into arrays from outside are carried."""
        self.written: dict[int, tuple[Any, int]] | None = {} if runs_once else None
        """The storages from outside that a body which runs once has written into, by id, with their values before."""
        self.name = name
        self.start = start
        self.outer = outer
        self.parameters: list[int] = []


class Session:
    """The state that all runs of one trace share: graph, feeds by source, literals, guarded values.

    `one_mode`: there is one run, for the mode of the call, because the other mode has other results.
    """

    def __init__(self, *, one_mode: bool = False) -> None:
        self.one_mode = one_mode
        self.graph = ProcessGraph()
        self.feeds: dict[int, Feed] = {}
        self.feed_of_source: dict[Any, int] = {}
        self.feed_of_array: dict[int, int] = {}
        self.literals: dict[Any, int] = {}
        self.guarded_values: dict[int, bool | int | float | complex | bytes] = {}
        """Values that Python has read, and that each call must have again: numbers, and the bytes of small arrays."""
        self.decisions: set[Chain] = set()
        """Conditions over numbers that Python has decided by: their outcomes are guarded."""
        self.window_starts: dict[int, int] = {}
        """Indices of slices that begin at run-time numbers -> the first of each."""
        self.loops = 0
        """How many loops of the program have been traced, without nested ones."""
        self.in_order: set[Any] = set()
        """The sites of loops whose iterations could not be vectorised, and are not tried again."""
        self.int_ranges: dict[int, tuple[int, int]] = {}
        self.ranges: dict[int, tuple[int, int] | None] = {}
        """The ranges of Python ints, as far as they have been computed."""
        self.met: dict[int, tuple[Any, Feed]] = {}
        """Real torch tensors by id, and their feeds."""
        self.torch = False
        """Whether the function has seen torch tensors: then its results are torch tensors."""
        self.random_feed: int | None = None
        self.region: TracedRegion | None = None
        """The innermost body that is being traced."""
        self.parameters: dict[int, TracedRegion] = {}
        """The bodies that parameter tensors (carried values) belong to."""
        self.closed: list[tuple[int, int]] = []
        """The op ids (start, end) of bodies that have been traced."""
        self.eager = self.on_device = False
        """Whether an eager array, or one on another device, is among the feeds."""
        self.owners: dict[int, tuple[Chain, Any]] = {}
        """The feeds whose memory a wrapper owns: these wrappers, and the paths to them."""
        self.trains = False
        """Whether the function has read a parameter, so that what it computes may be differentiated in the end."""
        self.nonzero_indices: dict[int, int] = {}
        """Tensor -> indices of its nonzero elements, where Python has read how many there are."""
        self.known: dict[int, Any] = {}
        """Values that are known while tracing, computed from constants and guarded values alone."""
        self.known_bytes = 0
        self.asked: set[int] = set()
        """The tensors that Python has read and whose values were known."""
        self.unknown: set[int] = set()
        """Tensors that were found to depend on data."""
        self.of_data: dict[int, bool] = {}
        """Whether Python numbers are computed from data, as far as that has been determined."""
        self.counters: set[int] = set()
        """Python ints that are run-time values, although they are computed from constants alone."""
        self.live: dict[int, int] = {}
        """The tensors that are live across the last graph break, and need not be computed again: tensor -> slot."""
        self.dynamic: set[int] = set()
        """Feeds that are numbers of which Python has read many values: they count as data."""
        self.varying: set[int] = set()
        """Tensors that are live across a break to which a loop may come back with other values: they count as data."""

    def add_feed(self, source: Any, name: str, value: Any, meta: Meta, layout: layouts.MemoryLayout, kind: str,
                 writeable: bool = False) -> Feed:
        """Add a feed under its source; `kind` is "array", "python", "numpy" or "state"."""
        tensor = self.graph.add_feed(meta, name)
        feed = Feed(tensor, meta, source, value, layout, kind, writeable)
        self.feeds[tensor] = feed
        self.feed_of_source[source] = tensor
        return feed

    def array_feed(self, source: Any, name: str, value: np.ndarray[Any, Any], wrapped: bool = False) -> Feed:
        """Return the feed of an array; one array with two access paths is one feed, and the paths are aliases.

        `wrapped`: the array was reached through a wrapper. It is a feed of its own, because aliases compare objects.
        """
        known = self.feed_of_source.get(source)
        if known is None and not wrapped:
            known = self.feed_of_array.get(id(value))
        if known is not None:
            return self.feeds[known]
        meta = Meta(value.shape, dtype_name(value.dtype, name))
        layout = layouts.MemoryLayout(0, value.strides)
        feed = self.add_feed(source, name, value, meta, layout, "array", bool(value.flags.writeable))
        if not wrapped:
            self.feed_of_array[id(value)] = feed.id
        return feed

    def scalar_feed(self, source: Any, name: str, value: Any) -> Feed:
        """Return the feed of a Python scalar (weak) or a NumPy scalar (strong)."""
        known = self.feed_of_source.get(source)
        if known is not None:
            return self.feeds[known]
        weak = type(value) in WEAK_DTYPE
        dtype = WEAK_DTYPE[type(value)] if weak else dtype_name(value.dtype, name)
        if type(value) is int and not _INT64[0] <= value <= _INT64[1]:
            raise WideIntError(
                f"{name} is {value}: a Python int that is an argument travels as int64. Pass np.uint64(...) or a float"
            )
        kind = "python" if weak else "numpy"
        return self.add_feed(source, name, value, Meta((), dtype, weak=weak), layouts.MemoryLayout(0, ()), kind)


class ModeMattersSignal(BaseException):
    """Signal that the trace must start over in the call's mode alone: the modes cannot share one program.

    Not an Exception, so that user code does not catch it by accident.
    """
