"""Collects the guards of an entry, and the objects, numbers and arrays that they find.

Does not own the code that checks them (`jitfuse.backends.llvm.runtime.guards`).
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CellType
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.entries import Handler, NativeEntry
from jitfuse.backends.llvm.runtime.exchange import Exchange, questions, rank_and_dtype
from jitfuse.backends.llvm.runtime.layout import EntryField as EntryWord
from jitfuse.backends.llvm.runtime.layout import GuardCode
from jitfuse.backends.llvm.runtime.words import DTypeLike, Keeper, Words
from jitfuse.dtypes import KINDS, itemsize

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class EntryBuilder:
    """Collects the guards of an entry; each guard method appends a guard.

    Guards run in the order of these calls and stop at the first that fails. Put cheap and selective guards first, and
    a guard of a type before those that rely on it.
    """

    def __init__(self, positional: int, keywords: Sequence[str] = (), *, handler: Handler) -> None:
        """Start an entry for calls with so many positional arguments and these keywords, in this order and without
        `training`."""
        assert "training" not in keywords and len(set(keywords)) == len(keywords)
        self._positional = positional
        self._keywords = tuple(sys.intern(k) for k in keywords)
        self._keep = Keeper()
        self._handler = handler
        self._guards: list[int] = []
        self._slots = positional + len(keywords)
        self._cells = 0
        self._values = 1

    # ------------------------------------------------------------------ objects
    def argument(self, index: int) -> int:
        """Return the slot of a positional argument."""
        assert 0 <= index < self._positional
        return index

    def keyword(self, name: str) -> int:
        """Return the slot of a keyword argument."""
        return self._positional + self._keywords.index(name)

    def constant(self, target: object) -> int:
        """Return a slot that holds this object, kept alive by the entry: the root of an access path."""
        return self._slot(GuardCode.CONST, self._keep.ref(target))

    def dict_item(self, mapping: dict[Any, Any], key: object) -> int:
        """Return a slot with the value of a key in this very dict (globals, builtins); a missing key fails."""
        assert type(mapping) is dict
        return self._slot(GuardCode.DICT, self._keep.ref(mapping), self._key(key))

    def cell(self, cell: CellType) -> int:
        """Return a slot with the content of this closure cell; empty fails."""
        return self._slot(GuardCode.CELL, self._keep.ref(cell))

    def attribute(self, slot: int, name: str) -> int:
        """Return a slot with ``getattr(slot, name)``; an exception fails."""
        return self._slot(GuardCode.ATTR, self._known(slot), self._key(name))

    def item(self, slot: int, key: object) -> int:
        """Return a slot with ``slot[key]``; an exception fails."""
        return self._slot(GuardCode.KEY, self._known(slot), self._key(key))

    def index(self, slot: int, position: int) -> int:
        """Return a slot with one item of an exact list or tuple; anything else fails."""
        assert position >= 0
        return self._slot(GuardCode.INDEX, self._known(slot), position)

    def call(self, function: Callable[..., Any], slot: int, other: int | None = None) -> int:
        """Return a slot with ``function(slot)`` or ``function(slot, other)``, for facts that no other guard reads."""
        count = 1 if other is None else 2
        second = slot if other is None else other
        return self._slot(GuardCode.CALL, self._keep.ref(function), count, self._known(slot), self._known(second))

    # ------------------------------------------------------------------ conditions
    def guard_absent(self, mapping: dict[Any, Any], key: object) -> None:
        """Pass where this very dict does not have the key, so that lookup of the name goes on elsewhere."""
        assert type(mapping) is dict
        self._guard(GuardCode.ABSENT, self._keep.ref(mapping), self._key(key))

    def guard_type(self, slot: int, type_: type) -> None:
        """Pass for instances of exactly this type."""
        self._guard(GuardCode.TYPE, self._known(slot), self._keep.ref(type_))

    def guard_identity(self, slot: int, target: object) -> None:
        """Pass for this very object."""
        self._guard(GuardCode.IS, self._known(slot), self._keep.ref(target))

    def guard_same(self, slot: int, other: int) -> None:
        """Pass where two slots hold the same object."""
        self._guard(GuardCode.SAME, self._known(slot), self._known(other))

    def guard_distinct(self, slot: int, other: int) -> None:
        """Pass where two slots hold different objects."""
        self._guard(GuardCode.DISTINCT, self._known(slot), self._known(other))

    def guard_length(self, slot: int, length: int) -> None:
        """Pass for an exact list, tuple or dict of this length."""
        self._guard(GuardCode.LEN, self._known(slot), length)

    def guard_equal(self, slot: int, value: object) -> None:
        """Pass for objects with the type and value of `value`; floats are compared bit by bit.

        Lists, tuples and dicts are compared item by item, because ``(1,) == (True,)`` and ``[0.0] == [-0.0]``.
        """
        if value is None or value is Ellipsis or isinstance(value, bool):
            self.guard_identity(slot, value)
        elif type(value) in (list, tuple):
            assert isinstance(value, (list, tuple))
            self.guard_type(slot, type(value))
            self.guard_length(slot, len(value))
            for i, x in enumerate(value):
                self.guard_equal(self.index(slot, i), x)
        elif type(value) is dict:
            self.guard_type(slot, dict)
            self.guard_length(slot, len(value))
            for key, x in value.items():
                self.guard_equal(self.item(slot, key), x)
        else:
            self._guard(GuardCode.EQ, self._known(slot), self._keep.ref(value))

    def guard_disjoint(self, written: Mapping[int, tuple[int, int]], others: Mapping[int, tuple[int, int]]) -> None:
        """Pass where the memory of `written` values is disjoint, from one another and from that of the others.

        Both map values to extents: (first byte, one past the last byte) relative to the data pointer, none empty.
        """
        words: list[int] = []
        for spans in (written, others):
            assert all(low < high for low, high in spans.values())
            rows = [w for value, extent in spans.items() for w in (self._known_value(value), *extent)]
            words += [self._keep.words(rows), len(spans)]
        self._guard(GuardCode.DISJOINT, *words)

    # ------------------------------------------------------------------ data
    def guard_float(self, slot: int) -> int:
        """Pass for an exact float; returns the value with its address as float64."""
        return self._scalar(GuardCode.FLOAT, slot)

    def guard_complex(self, slot: int) -> int:
        """Pass for an exact complex number; returns the value with its address as complex128."""
        # its two doubles have the offset at which NumPy scalars keep their bytes
        return self._scalar(GuardCode.NPSCALAR, slot, self._keep.ref(complex), 2 * layout.WORD, cells=2)

    def guard_int(self, slot: int, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
        """Pass for an exact int within low..high; returns the value with its address as int64."""
        assert INT64_MIN <= low <= high <= INT64_MAX
        return self._scalar(GuardCode.INT, slot, low, high)

    def guard_bool(self, slot: int) -> int:
        """Pass for an exact bool; returns the value with its address as one byte."""
        return self._scalar(GuardCode.BOOL, slot)

    def guard_numpy_scalar(self, slot: int, dtype: DTypeLike) -> int:
        """Pass for a NumPy scalar of exactly this dtype; returns the value with the address of its bytes."""
        d = np.dtype(dtype)
        assert d.name in KINDS and d.isnative, d
        cells = -(-d.itemsize // layout.WORD)
        return self._scalar(GuardCode.NPSCALAR, slot, self._keep.ref(d.type), d.itemsize, cells=cells)

    def guard_array(
        self, slot: int, dtype: DTypeLike, shape: Sequence[int], strides: Sequence[int] | None = None, *,
        writeable: bool = False,
    ) -> int:
        """Pass for an exact, aligned ndarray of this dtype and shape; returns the value of its data.

        `strides` in bytes must match exactly; None asks for C-contiguous memory.
        """
        d = np.dtype(dtype)
        assert d.isnative and not d.hasobject and d.names is None, d
        assert strides is None or len(strides) == len(shape), (shape, strides)
        flags = layout.FLAG_ALIGNED | (layout.FLAG_WRITEABLE if writeable else 0)
        flags |= layout.FLAG_C_CONTIGUOUS if strides is None else 0
        value = self._new_value()
        self._guard(
            GuardCode.ARRAY, self._known(slot), value, self._keep.ref(d), len(shape), self._keep.words(shape),
            0 if strides is None else self._keep.words(strides), flags,
        )
        return value

    def guard_tensor(
        self, slot: int, dtype: str, shape: Sequence[int], strides: Sequence[int | None], found: Exchange
    ) -> int:
        """Pass for a torch tensor or parameter on the CPU of this dtype and shape; returns the value of its data.

        `strides` are in elements; None accepts any stride of an axis.
        """
        assert len(strides) == len(shape), (shape, strides)
        asked = [self._keep.ref(q) for q in questions(found, dtype)]
        reading = self._keep.words([
            found.read, *map(self._keep.ref, found.types), min(itemsize(dtype), layout.WORD) - 1,
            self._keep.words(asked), len(asked),
        ])
        value = self._new_value()
        self._guard(
            GuardCode.TENSOR, self._known(slot), value, rank_and_dtype(len(shape), dtype), self._keep.words(shape),
            self._keep.words([layout.ANY_STRIDE if s is None else s for s in strides]), 0, reading,
        )
        return value

    def guard_no_gradient(self, slot: int, enabled: int, found: Exchange) -> None:
        """Pass where the slot `enabled` holds False, or the tensor does not require gradients."""
        self._guard(GuardCode.NO_GRAD, self._known(slot), self._known(enabled), self._keep.ref(found.requires_grad))

    # ------------------------------------------------------------------ the end
    def build(self) -> NativeEntry:
        """Return the entry, with no plan for either mode yet."""
        names = [self._keep.ref(k) for k in self._keywords]
        words: Mapping[int, int] = {
            EntryWord.NEXT: 0,
            EntryWord.GUARDS: self._keep.words(self._guards),
            EntryWord.GUARD_COUNT: len(self._guards) // layout.GUARD_WORDS,
            EntryWord.SLOTS: self._slots,
            EntryWord.CELLS: self._cells,
            EntryWord.EVALUATION: 0,
            EntryWord.TRAINING: 0,
            EntryWord.HANDLER: self._keep.ref(self._handler),
            EntryWord.POSITIONAL: self._positional,
            EntryWord.KEYWORDS: self._keep.words(names),
            EntryWord.KEYWORD_COUNT: len(names),
            EntryWord.ANSWERS: 0,
        }
        return NativeEntry(Words([words[i] for i in range(len(words))], self._keep.objects), self._values,
                     self._keywords)

    def _guard(self, op: int, *words: int) -> None:
        assert len(words) < layout.GUARD_WORDS
        self._guards += [op, *words, *[0] * (layout.GUARD_WORDS - 1 - len(words))]

    def _slot(self, op: int, *words: int) -> int:
        """Append a guard that fills the next slot; native code counts filled slots, to release them."""
        slot = self._slots
        self._slots += 1
        self._guard(op, slot, *words)
        return slot

    def _scalar(self, op: int, slot: int, *words: int, cells: int = 1) -> int:
        value = self._new_value()
        self._guard(op, self._known(slot), self._cells, value, *words)
        self._cells += cells
        return value

    def _key(self, key: object) -> int:
        """Return the address of a key; names are interned, as in namespaces, so that lookup is faster."""
        return self._keep.ref(sys.intern(key) if type(key) is str else key)

    def _new_value(self) -> int:
        self._values += 1
        return self._values - 1

    def _known(self, slot: int) -> int:
        assert 0 <= slot < self._slots, slot
        return slot

    def _known_value(self, value: int) -> int:
        assert 0 < value < self._values, value
        return value
