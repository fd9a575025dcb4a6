"""Blocks of 64-bit words that native code reads, and the Python objects that such words point to.

Owns: stable addresses, keeping what a word points to alive, array specs, the configuration block of the
runtime. Does not own what a table holds (tables.py, plan_table.py).
"""
from __future__ import annotations

import ctypes
import math
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Config, SpecField

DTypeLike = np.dtype[Any] | str

_NUMPY_MAJOR: Final = np.__version__.split(".")[0]
ABI: Final = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}-numpy{_NUMPY_MAJOR}"
"""The Python and NumPy ABI for which object code that uses their objects is valid."""

_SIGN: Final = 1 << 63


class Words:
    """A block of 64-bit words at a fixed address, with the objects that its words point to.

    Native code may hold the address for as long as this object lives; the length never changes.
    """

    __slots__ = ("_array", "_keep", "address")

    def __init__(self, values: Iterable[int], keep: Iterable[object] = ()) -> None:
        self._array = _signed_array(list(values))
        self._keep: tuple[object, ...] = tuple(keep)
        self.address: Final[int] = self._array.buffer_info()[0] if self._array else 0

    def __getitem__(self, index: int) -> int:
        return self._array[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._array[index] = signed(value)

    def __len__(self) -> int:
        return len(self._array)

    def keep(self, owner: object) -> None:
        """Hold a reference to an object that a word points to."""
        self._keep += (owner,)


class Keeper:
    """Collects the objects that a table under construction points to."""

    def __init__(self) -> None:
        self.objects: list[object] = []

    def ref(self, target: object) -> int:
        """Return the address of a Python object and hold a reference to it."""
        self.objects.append(target)
        return id(target)

    def words(self, values: Iterable[int]) -> int:
        """Return the address of a new block of words (0 where it is empty), and keep it alive."""
        block = Words(values)
        self.objects.append(block)
        return block.address

    def spec(
        self, dtype: DTypeLike, shape: Sequence[int], strides: Sequence[int] | None = None, *, value: int = 0,
        flags: int = layout.FLAGS_CARRAY, late: bool = False, owned: bool = False,
    ) -> int:
        """Return the address of an array spec: `strides` in bytes, None for C order; `owned`: it owns its memory."""
        d = np.dtype(dtype)
        assert d.isnative and not d.hasobject, d
        assert strides is None or len(strides) == len(shape), (shape, strides)
        assert len(shape) <= 64 and all(n >= 0 for n in shape), shape
        words = [0] * layout.SPEC_WORDS
        words[SpecField.DESCR] = self.ref(d)
        words[SpecField.NDIM] = len(shape)
        words[SpecField.DIMS] = self.words(shape)
        words[SpecField.STRIDES] = 0 if strides is None else self.words(strides)
        words[SpecField.NBYTES] = max(1, math.prod(shape) * d.itemsize) if owned or strides is None else 0
        words[SpecField.VALUE] = value
        words[SpecField.FLAGS] = flags
        words[SpecField.LATE] = int(late)
        return self.words(words)


def _signed_array(values: list[int]) -> array[int]:
    try:
        return array("q", values)
    except OverflowError:  # addresses in the upper half
        return array("q", map(signed, values))


def signed(value: int) -> int:
    """Return the 64 bits of an address or word as a signed integer."""
    assert -_SIGN <= value < 2 * _SIGN, value
    return value - 2 * _SIGN if value >= _SIGN else value


def _numpy_functions() -> dict[str, int]:
    """Return the addresses of NumPy's C-API functions that the runtime calls."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    count = max(layout.NUMPY_API_INDEX.values()) + 1
    slots = struct.unpack(f"{count}P", ctypes.string_at(table, count * layout.WORD))
    return {name: slots[i] for name, i in layout.NUMPY_API_INDEX.items()}


def error_state() -> Any:
    """Return NumPy's context variable, which `np.errstate` sets to a new object whenever it is entered."""
    from numpy._core import umath

    return umath._extobj_contextvar


def configuration(memory_handler: object) -> Words:
    """Return the words for `jf_configure`, called once per process; the caller holds them until it returns.

    `memory_handler` is the capsule under which result arrays own their buffers. It is never released.
    """
    functions = _numpy_functions()
    objects: dict[int, object] = {
        Config.MEMORY_HANDLER: memory_handler, Config.BYTE_DESCR: np.dtype(np.uint8),
        Config.NDARRAY: np.ndarray, Config.FLOAT: float, Config.INT: int, Config.COMPLEX: complex,
        Config.DICT: dict, Config.LIST: list, Config.TUPLE: tuple, Config.TRUE: True, Config.FALSE: False,
        Config.ERROR_STATE: error_state(),
    }
    words = {
        Config.NEW_FROM_DESCR: functions["PyArray_NewFromDescr"],
        Config.SCALAR: functions["PyArray_Scalar"],
        Config.SET_BASE_OBJECT: functions["PyArray_SetBaseObject"],
        **{position: id(target) for position, target in objects.items()},
    }
    return Words([words[i] for i in range(len(words))], objects.values())
