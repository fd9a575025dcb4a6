"""torch tensors in native calls: the C function of DLPack's exchange table that reads a tensor, and its conditions.

Owns: the lookup of the table (DLPack 1.x, `Tensor.__dlpack_c_exchange_api__`), the layout of a DLTensor, the words
for dtypes. torch is never imported here: a process with tensors has imported it already. Does not own the code that
reads tensors (`jitfuse.backends.llvm.runtime.guard_data`).
"""
from __future__ import annotations

import ctypes
import functools
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.dtypes import itemsize, kind

DATA: Final = 0
DEVICE: Final = 8
"""Device type and number, 32 bits each."""
RANK_AND_DTYPE: Final = 16
"""Number of axes in the lower 32 bits; code, bits and lanes of the dtype in the upper ones."""
SHAPE: Final = 24
STRIDES: Final = 32
"""In elements."""
TENSOR_WORDS: Final = 6
CPU: Final = 1

_READ: Final = 5
"""Position of `dltensor_from_py_object_no_sync` in the table, after the header's two words and three functions."""
_CODES: Final = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}


class Exchange(Record, frozen=True):
    """How native code reads tensors: a C function, the types that it accepts, predicates of tensors."""

    read: int
    types: tuple[type, type]
    grad_enabled: Callable[[], bool]
    requires_grad: Callable[[Any], bool]
    unresolved: tuple[Callable[[Any], bool], Callable[[Any], bool]]
    """Predicates: the tensor's memory holds the negatives of its elements; it holds their conjugates."""


@functools.cache
def _exchange_of(torch: Any) -> Exchange | None:
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = (ctypes.c_uint64 * (_READ + 1)).from_address(pointer(capsule, b"dlpack_exchange_api"))
    major = table[0] & 0xFFFFFFFF
    if major != 1 or not table[_READ]:
        return None
    return Exchange(table[_READ], (torch.Tensor, torch.nn.Parameter), torch.is_grad_enabled,
                    operator.attrgetter("requires_grad"), (torch.Tensor.is_neg, torch.Tensor.is_conj))


def exchange() -> Exchange | None:
    """Return how native code reads torch's tensors; None where torch is not imported or too old."""
    torch = sys.modules.get("torch")
    return None if torch is None else _exchange_of(torch)


def rank_and_dtype(ndim: int, dtype: str) -> int:
    """Return the word of a DLTensor that holds its number of axes and its dtype."""
    code = 4 if dtype == "bfloat16" else _CODES[kind(dtype)]
    return ndim | (code | itemsize(dtype) * 8 << 8 | 1 << 16) << 32


def questions(found: Exchange, dtype: str) -> tuple[Callable[[Any], bool], ...]:
    """Return the predicates that must be False so that the memory of a tensor of a dtype holds its elements."""
    if kind(dtype) == "complex":
        return found.unresolved
    return found.unresolved[:1] if dtype in ("float16", "float32", "float64") else ()
