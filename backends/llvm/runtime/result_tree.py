"""The result of a call as a tree of descriptions, and the result table that encodes it.

Owns: the kinds of results and their records. Does not own the code that makes the objects (results.py).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import ResultCode
from jitfuse.backends.llvm.runtime.words import DTypeLike, Keeper
from jitfuse.base.records import Record


class Output(Record, frozen=True):
    """A result buffer of a plan: its position among the outputs, the value with its address."""

    position: int
    value: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class ArrayResult(Record, frozen=True):
    """A new ndarray that owns an output's buffer; the same output twice is the same object twice."""

    output: Output


class ScalarResult(Record, frozen=True):
    """A NumPy scalar with the bytes at an address: value, offset, dtype."""

    value: int
    dtype: DTypeLike
    offset: int = 0


class SlotResult(Record, frozen=True):
    """The object in a slot: a returned argument."""

    slot: int


class ObjectResult(Record, frozen=True):
    """A constant object."""

    target: object


class ViewResult(Record, frozen=True):
    """A view of the array in a slot, `offset` bytes past its data; writeable where the array is."""

    slot: int
    dtype: DTypeLike
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


class TupleResult(Record, frozen=True):
    """A tuple of results."""

    items: tuple[ResultTree, ...]


class ListResult(Record, frozen=True):
    """A list of results."""

    items: tuple[ResultTree, ...]


class DictResult(Record, frozen=True):
    """A dict of results under constant keys, in this order."""

    keys: tuple[object, ...]
    items: tuple[ResultTree, ...]


class CallResult(Record, frozen=True):
    """The return value of a callable for the list of results: any other container."""

    function: Callable[[list[Any]], object]
    items: tuple[ResultTree, ...]


class AppliedResult(Record, frozen=True):
    """The return value of a callable for one result."""

    function: Callable[[Any], object]
    of: ResultTree


class PickedResult(Record, frozen=True):
    """A masked selection: a new array, of this dtype, of the elements of an array where a mask of its first axes holds.

    The mask has `count` elements; `is_whole`: the mask covers all axes.
    """

    whole: ResultTree
    mask: ResultTree
    dtype: DTypeLike
    count: int
    is_whole: bool


ResultTree = (
    ArrayResult | ScalarResult | SlotResult | ObjectResult | ViewResult
    | TupleResult | ListResult | DictResult | CallResult | AppliedResult | PickedResult
)


class ResultTable:
    """The records of a result under construction, for a plan with so many slots and values."""

    def __init__(self, slots: int, values: int, outputs: Sequence[Output], keep: Keeper) -> None:
        self._slots, self._values, self._outputs = slots, values, outputs
        self._keep = keep
        self.words: list[int] = []

    def add(self, tree: ResultTree) -> int:
        """Append the records that leave a tree's object on the stack; returns the stack depth that they need."""
        keep, table = self._keep, self.words
        match tree:
            case ArrayResult(output):
                assert output == self._outputs[output.position]
                table += [ResultCode.ARRAY, output.position, 0, 0]
            case ScalarResult(value, dtype, offset):
                assert 0 <= value < self._values, value
                table += [ResultCode.SCALAR, value, offset, keep.ref(np.dtype(dtype))]
            case SlotResult(slot):
                assert 0 <= slot < self._slots, slot
                table += [ResultCode.SLOT, slot, 0, 0]
            case ObjectResult(target):
                table += [ResultCode.OBJECT, keep.ref(target), 0, 0]
            case ViewResult(slot, dtype, shape, strides, offset):
                assert 0 <= slot < self._slots, slot
                spec = keep.spec(dtype, shape, strides, flags=layout.FLAGS_BEHAVED)
                table += [ResultCode.VIEW, slot, spec, offset]
            case AppliedResult(function, of):
                depth = self.add(of)
                table += [ResultCode.APPLY, keep.ref(function), 0, 0]
                return depth
            case PickedResult(whole, mask, dtype, count, is_whole):
                depth = max(self.add(whole), 1 + self.add(mask))
                size = np.dtype(dtype).itemsize if is_whole else 0
                table += [ResultCode.PICK, count, size if size in layout.PICKED_SIZES else 0, keep.ref(np.dtype(dtype))]
                return depth
            case _:
                return self._container(tree)
        return 1

    def _container(self, tree: TupleResult | ListResult | DictResult | CallResult) -> int:
        depth = max([1, *(i + self.add(x) for i, x in enumerate(tree.items))])
        table, n = self.words, len(tree.items)
        match tree:
            case TupleResult():
                table += [ResultCode.TUPLE, n, 0, 0]
            case ListResult():
                table += [ResultCode.LIST, n, 0, 0]
            case DictResult(keys):
                assert len(keys) == n
                table += [ResultCode.DICT, n, self._keep.words([self._keep.ref(k) for k in keys]), 0]
            case CallResult(function):
                table += [ResultCode.CALL, n, self._keep.ref(function), 0]
        return depth
