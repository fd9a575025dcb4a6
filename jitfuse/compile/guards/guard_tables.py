"""Bind a trace to the native call path: guards and feeds as an entry's tables.

Owns the translation of chains and feed sources. Does not own the tables' format
(`jitfuse.backends.llvm.runtime.tables`) or plans (`jitfuse.compile.bind.plan`).
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime.entries import Handler
from jitfuse.backends.llvm.runtime.entry_builder import EntryBuilder
from jitfuse.backends.llvm.runtime.exchange import exchange
from jitfuse.base.records import Record
from jitfuse.compile.call_plans.call_plan import IndexCheck
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.ir.program import RANDOM_STATE, Meta
from jitfuse.tracing.interception.chain import Chain, Guard
from jitfuse.tracing.interception.exact import exact_form
from jitfuse.tracing.record.foreign import tensor_as_array
from jitfuse.tracing.trace import FeedSource, Trace


class Entrance(Record, frozen=True):
    """Which calls an entry takes, and what it reads: as in `jitfuse.tracing.trace.Trace`; `writes` are feeds."""

    positional: int
    keywords: tuple[str, ...]
    guards: Sequence[Guard]
    feeds: Mapping[int, FeedSource]
    aliases: Sequence[tuple[Chain, int]]
    guarded_values: Mapping[int, bool | int | float | complex | bytes]
    int_ranges: Mapping[int, tuple[int, int]]
    writes: Collection[int]
    delivered: Collection[Chain] = ()
    """Objects of the caller that results and effects need beside feeds."""

    @staticmethod
    def of(trace: Trace) -> Entrance:
        """Return the entrance of a whole trace."""
        return Entrance(
            trace.positional, trace.keywords, trace.guards, trace.feeds, trace.aliases, trace.guarded_values,
            trace.int_ranges, frozenset(trace.program.writes), trace.result.chains,
        )


class BoundEntry:
    """The entry of one trace under construction, and the slots of its feeds.

    `tensors` are the feeds that are torch tensors in calls; calls return tensors if `torch`.
    """

    def __init__(
        self, entrance: Entrance, state: Mapping[str, np.ndarray[Any, Any]], handler: Handler,
        tensors: Collection[int] = (), torch: bool = False,
    ) -> None:
        self.entrance = entrance
        self.tensors = tensors
        self.torch = torch
        self._state = state
        self.checks: list[tuple[IndexCheck, ...]] = []
        self._builder = EntryBuilder(entrance.positional, entrance.keywords, handler=_with_checks(handler, self.checks))
        self._slots: dict[Chain, int] = {}
        self.feed_slots: dict[int, int] = {}
        self.feed_values: dict[int, int] = {}
        self._grad_enabled = self._grad_mode() if tensors else None
        self._exact = {g.chain for g in entrance.guards if g.kind == "TYPE" and g.expected in (list, tuple, dict)}
        self._bind_arguments_first()
        for guard in entrance.guards:
            self._bind_guard(guard)
        for chain, feed in entrance.aliases:
            self._builder.guard_same(self.slot(chain), self.feed_slots[feed])
        for chain in entrance.delivered:
            self.slot(chain)
        self._guard_overlaps()
        self._anchor = np.zeros(8, np.int64)
        self.anchor_slot = self._builder.constant(self._anchor)
        self.anchor_value = self._builder.guard_array(self.anchor_slot, "int64", (8,))
        self.entry = self._builder.build()

    @property
    def anchor(self) -> int:
        """The address that the anchor value has: constants are located by their offset from it."""
        return int(self._anchor.ctypes.data)

    # ------------------------------------------------------------------ guards
    def _bind_arguments_first(self) -> None:
        """Guard the feeds, plain arguments first: shapes distinguish entries fastest."""
        def depth(item: tuple[int, Any]) -> tuple[bool, int]:
            source = item[1].source
            return (not isinstance(source, Chain) or source.parent is not None, item[0])

        for feed, _ in sorted(self.entrance.feeds.items(), key=depth):
            self._bind_feed(feed)

    def slot(self, chain: Chain) -> int:
        """Return the slot with the object at the end of a chain."""
        found = self._slots.get(chain)
        if found is None:
            found = self._slots[chain] = self._new_slot(chain)
        return found

    def _new_slot(self, chain: Chain) -> int:
        b = self._builder
        if chain.parent is not None:
            owner = self.slot(chain.parent)
            if chain.kind == "attr":
                return b.attribute(owner, chain.value)
            return b.item(owner, chain.value) if chain.kind == "key" else b.index(owner, chain.value)
        if chain.kind == "arg":
            return b.argument(chain.value) if isinstance(chain.value, int) else b.keyword(chain.value)
        if chain.kind == "global":
            return b.dict_item(*chain.value)
        if chain.kind == "computed":
            function, operands = chain.value
            return b.call(function, *[self.slot(x) if isinstance(x, Chain) else b.constant(x) for x in operands])
        return b.cell(chain.value) if chain.kind == "cell" else b.constant(chain.value)

    def _bind_guard(self, guard: Guard) -> None:
        b = self._builder
        slot = self.slot(guard.chain)
        if guard.kind == "IS":
            b.guard_identity(slot, guard.expected)
        elif guard.kind == "TYPE":
            b.guard_type(slot, guard.expected)
        elif guard.kind == "DISTINCT":
            b.guard_distinct(slot, self.slot(guard.expected))
        elif guard.kind == "EQ":
            scalar = isinstance(guard.expected, np.generic)
            if scalar:
                b.guard_type(slot, type(guard.expected))
            else:
                b.guard_equal(slot, guard.expected)
            if scalar or type(guard.expected) in (set, frozenset, slice, range):  # all other containers are unpacked
                b.guard_equal(b.call(exact_form, slot), exact_form(guard.expected))
        elif guard.kind == "LEN":
            if guard.chain in self._exact:
                b.guard_length(slot, guard.expected)
            else:
                b.guard_equal(b.call(len, slot), guard.expected)
        elif guard.kind == "KEYS":
            b.guard_equal(b.call(tuple, slot), guard.expected)
        elif guard.chain.kind == "object" and type(guard.chain.value) is dict:
            b.guard_absent(guard.chain.value, guard.expected)
        else:
            b.guard_identity(b.call(_has(guard.expected), slot), False)

    # ------------------------------------------------------------------ feeds
    def _bind_feed(self, feed: int) -> None:
        entrance, b = self.entrance, self._builder
        source = entrance.feeds[feed]
        if source.kind == "state":
            assert source.source == RANDOM_STATE
            state = self._state[RANDOM_STATE]
            slot = b.constant(state)
            self.feed_values[feed] = b.guard_array(slot, state.dtype, state.shape, writeable=True)
            self.feed_slots[feed] = slot
            return
        slot = self.feed_slots[feed] = self.slot(source.source)
        if feed in self.tensors:
            self._bind_tensor(feed, slot, source)
        elif source.kind == "array":
            exact = None if is_c_order(source.meta, source.strides) else source.strides
            self.feed_values[feed] = b.guard_array(
                slot, numpy_dtype(source.meta.dtype), source.meta.shape, exact, writeable=feed in entrance.writes
            )
            if feed in entrance.guarded_values:
                b.guard_equal(b.call(np.ndarray.tobytes, slot), entrance.guarded_values[feed])
        elif source.kind == "numpy":
            self.feed_values[feed] = b.guard_numpy_scalar(slot, numpy_dtype(source.meta.dtype))
        else:
            self._bind_number(feed, slot)

    def _grad_mode(self) -> int:
        """Return the slot that holds whether gradients are recorded."""
        found, b = exchange(), self._builder
        assert found is not None
        return b.call(_called, b.constant(found.grad_enabled))

    def _bind_tensor(self, feed: int, slot: int, source: FeedSource) -> None:
        found, b, shape = exchange(), self._builder, source.meta.shape
        assert found is not None and self._grad_enabled is not None
        element = itemsize(source.meta.dtype)
        strides: list[int | None] = [s // element for s in source.strides]
        if is_c_order(source.meta, source.strides):
            strides = [None if n == 1 or 0 in shape else s for n, s in zip(shape, strides, strict=True)]
        self.feed_values[feed] = b.guard_tensor(slot, source.meta.dtype, shape, strides, found)
        b.guard_no_gradient(slot, self._grad_enabled, found)
        if feed in self.entrance.guarded_values:
            b.guard_equal(b.call(_bytes, slot), self.entrance.guarded_values[feed])

    def _bind_number(self, feed: int, slot: int) -> None:
        b, dtype = self._builder, self.entrance.feeds[feed].meta.dtype
        if feed in self.entrance.guarded_values:
            b.guard_equal(slot, self.entrance.guarded_values[feed])
        if dtype == "float64":
            self.feed_values[feed] = b.guard_float(slot)
        elif dtype == "complex128":
            self.feed_values[feed] = b.guard_complex(slot)
        elif dtype == "bool":
            self.feed_values[feed] = b.guard_bool(slot)
        else:
            self.feed_values[feed] = b.guard_int(slot, *self.entrance.int_ranges.get(feed, ()))

    def _guard_overlaps(self) -> None:
        """Guard that written arguments overlap no other array, as in the trace."""
        written: dict[int, tuple[int, int]] = {}
        others: dict[int, tuple[int, int]] = {}
        if self.entrance.writes:
            for feed, source in self.entrance.feeds.items():
                if source.kind == "array" and 0 not in source.meta.shape:
                    spans = written if feed in self.entrance.writes else others
                    spans[self.feed_values[feed]] = _extent(source.meta, source.strides)
        if written and len(written) + len(others) > 1:
            self._builder.guard_disjoint(written, others)


def _with_checks(handler: Handler, checks: Sequence[Any]) -> Handler:
    """Return a handler that receives a launch's checks in place of its site."""
    return lambda site, status: handler(checks[site], status)


def _called(function: Callable[[], Any]) -> Any:
    return function()


def _bytes(tensor: Any) -> bytes:
    return tensor_as_array(tensor).tobytes()


def _has(key: Any) -> Callable[[Any], bool]:
    return lambda mapping: key in mapping


def is_c_order(meta: Meta, strides: tuple[int, ...]) -> bool:
    """Return whether elements follow each other in row-major order, whatever the strides of extents of 1."""
    expected = itemsize(meta.dtype)
    if 0 in meta.shape:
        return True
    for extent, stride in zip(reversed(meta.shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _extent(meta: Meta, strides: tuple[int, ...]) -> tuple[int, int]:
    """Return (first byte, one past the last byte) of an array with elements, relative to its data pointer."""
    reach = [(n - 1) * s for n, s in zip(meta.shape, strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize(meta.dtype)
