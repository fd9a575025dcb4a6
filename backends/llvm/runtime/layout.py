"""Names all numbers on which the native call path and its Python tables must agree.

Owns: opcodes, word positions in the tables, offsets in CPython's and NumPy's structs, the order of the
runtime's configuration words. Does not own what the numbers mean (docs/native-call.md).

Struct offsets hold for 64-bit CPython 3.11 to 3.13 with the GIL and for NumPy 2.x; `supported` tells whether
this process runs these. Fields whose offsets differ between these versions are read by API functions.
"""
from __future__ import annotations

import struct
import sys
from typing import Final

WORD: Final = 8

# ---------------------------------------------------------------------- CPython structs, byte offsets
OB_TYPE: Final = 8
VAR_SIZE: Final = 16
"""ob_size of tuple and list; dict has ma_used at the same offset."""
TUPLE_ITEMS: Final = 24
LIST_ITEMS: Final = 24
FLOAT_VALUE: Final = 16
CELL_CONTENT: Final = 16
TYPE_BASICSIZE: Final = 32
TYPE_VECTORCALL_OFFSET: Final = 56
TYPE_FLAGS: Final = 168

TPFLAGS_BASETYPE: Final = 1 << 10
TPFLAGS_HAVE_VECTORCALL: Final = 1 << 11
VECTORCALL_COUNT_MASK: Final = (1 << 63) - 1
PY_EQ: Final = 2

# ---------------------------------------------------------------------- NativeCallable, byte offsets
CALLABLE_VECTORCALL: Final = 16
CALLABLE_STATE: Final = 24
CALLABLE_SIZE: Final = 32

# ---------------------------------------------------------------------- NumPy structs, byte offsets
ARRAY_DATA: Final = 16
ARRAY_NDIM: Final = 24
ARRAY_DIMS: Final = 32
ARRAY_STRIDES: Final = 40
ARRAY_DESCR: Final = 56
ARRAY_FLAGS: Final = 64
ARRAY_MEM_HANDLER: Final = 88
DESCR_BYTEORDER: Final = 26
DESCR_TYPE_NUM: Final = 28
SCALAR_VALUE: Final = 16
"""Where NumPy's number scalars keep their bytes."""

FLAG_C_CONTIGUOUS: Final = 0x1
FLAG_OWNDATA: Final = 0x4
FLAG_ALIGNED: Final = 0x100
FLAG_WRITEABLE: Final = 0x400
FLAGS_BEHAVED: Final = FLAG_ALIGNED | FLAG_WRITEABLE
FLAGS_CARRAY: Final = FLAGS_BEHAVED | FLAG_C_CONTIGUOUS

NUMPY_API_INDEX: Final = {"PyArray_Scalar": 60, "PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}
"""Positions in NumPy's C-API table, fixed by NumPy's ABI."""


class Config:
    """Words of the block that `jf_configure` copies: addresses that only Python can know."""

    NEW_FROM_DESCR: Final = 0
    SCALAR: Final = 1
    SET_BASE_OBJECT: Final = 2
    MEMORY_HANDLER: Final = 3
    BYTE_DESCR: Final = 4
    NDARRAY: Final = 5
    FLOAT: Final = 6
    INT: Final = 7
    COMPLEX: Final = 8
    DICT: Final = 9
    LIST: Final = 10
    TUPLE: Final = 11
    TRUE: Final = 12
    FALSE: Final = 13
    ERROR_STATE: Final = 14
    """NumPy's context variable of np.errstate."""


class StateField:
    """Words of a state block."""

    FIRST_ENTRY: Final = 0
    MISS: Final = 1
    DEFAULT_MODE: Final = 2
    TRAINING: Final = 3
    LAUNCHES: Final = 4
    MISSES: Final = 5


class EntryField:
    """Words of an entry."""

    NEXT: Final = 0
    GUARDS: Final = 1
    GUARD_COUNT: Final = 2
    SLOTS: Final = 3
    CELLS: Final = 4
    EVALUATION: Final = 5
    TRAINING: Final = 6
    HANDLER: Final = 7
    POSITIONAL: Final = 8
    KEYWORDS: Final = 9
    KEYWORD_COUNT: Final = 10
    ANSWERS: Final = 11


class PlanField:
    """Words of a plan."""

    OPS: Final = 0
    ARENA: Final = 1
    OUTPUTS: Final = 2
    OUTPUT_SPECS: Final = 3
    FRAME_WORDS: Final = 4
    OWNERS: Final = 5
    WORK: Final = 6
    COST: Final = 7


class SpecField:
    """Words of an array or output spec."""

    DESCR: Final = 0
    NDIM: Final = 1
    DIMS: Final = 2
    STRIDES: Final = 3
    NBYTES: Final = 4
    VALUE: Final = 5
    FLAGS: Final = 6
    LATE: Final = 7


class ReadingField:
    """Words of the block that describes how to read a tensor."""

    FUNCTION: Final = 0
    TENSOR: Final = 1
    PARAMETER: Final = 2
    MASK: Final = 3
    QUESTIONS: Final = 4
    QUESTION_COUNT: Final = 5


class SpanField:
    """Words of a piece of memory: the value with its data pointer, the first byte and one past the last from there."""

    VALUE: Final = 0
    LOW: Final = 1
    HIGH: Final = 2


SPAN_WORDS: Final = 3
ANY_STRIDE: Final = -(1 << 63)
"""In a tensor guard, stands for a stride that is not checked."""
SPEC_WORDS: Final = 8
GUARD_WORDS: Final = 8
RESULT_WORDS: Final = 4
FRAME_WORDS_ON_STACK: Final = 256
"""A larger frame comes from the heap, so that deep recursion never depends on a program's size."""


class GuardCode:
    """First word of a guard record."""

    CONST: Final = 0
    DICT: Final = 1
    ABSENT: Final = 2
    CELL: Final = 3
    ATTR: Final = 4
    KEY: Final = 5
    INDEX: Final = 6
    TYPE: Final = 7
    IS: Final = 8
    EQ: Final = 9
    LEN: Final = 10
    FLOAT: Final = 11
    INT: Final = 12
    BOOL: Final = 13
    NPSCALAR: Final = 14
    ARRAY: Final = 15
    DISJOINT: Final = 16
    CALL: Final = 17
    SAME: Final = 18
    TENSOR: Final = 19
    NO_GRAD: Final = 20
    DISTINCT: Final = 21


class OpCode:
    """First word of a plan's op."""

    LAUNCH: Final = 0
    HOST: Final = 1
    OBSERVE: Final = 2
    CHECK: Final = 3
    JUMP: Final = 4
    RETURN: Final = 5
    MOVE: Final = 6
    SWAP: Final = 7
    COPY: Final = 8
    COUNT: Final = 9
    BRANCH: Final = 10
    LESS: Final = 11
    ALLOC: Final = 12
    STRIDED: Final = 13
    SWEEP: Final = 14
    MATCH: Final = 15


class SweepWord:
    """Words of a launch in a SWEEP, before its patches (value, offset) and its turns (word, value, offset).

    Patches are addresses of operands; turns are addresses that alternate between iterations.
    """

    KERNEL: Final = 0
    UNITS: Final = 1
    SITE: Final = 2
    WORDS: Final = 3
    PATCHES: Final = 4
    TURNS: Final = 5
    TEMPLATE: Final = 6
    TABLE: Final = 7


class BatchField:
    """Words of a batch's table: kernel, how many launches, how many operands and other arguments each has, then rows.

    The row of a launch is its first unit in the batch, then the arguments after the operands. The rows end with the
    number of all units.
    """

    KERNEL: Final = 0
    LAUNCHES: Final = 1
    OPERANDS: Final = 2
    WORDS: Final = 3
    ROWS: Final = 4


class PauseField:
    """Words of the block in which a run of a plan's ops counts towards its next pause (pauses.py)."""

    LAUNCHES: Final = 0
    THREAD: Final = 1
    SINCE: Final = 2
    COUNTDOWN: Final = 3
    PERIOD: Final = 4
    READ: Final = 5


PAUSE_WORDS: Final = 6


class ResultCode:
    """First word of a result record."""

    ARRAY: Final = 0
    SCALAR: Final = 1
    SLOT: Final = 2
    OBJECT: Final = 3
    VIEW: Final = 4
    TUPLE: Final = 5
    LIST: Final = 6
    DICT: Final = 7
    CALL: Final = 8
    APPLY: Final = 9
    PICK: Final = 10


PICKED_SIZES: Final = (1, 2, 4, 8, 16)
"""Bytes of the elements that masked selection in native code supports."""


class Code:
    """How an observed scalar is read."""

    BOOL: Final = 0
    INT32: Final = 1
    INT64: Final = 2
    FLOAT32: Final = 3
    FLOAT64: Final = 4


IMMORTAL_OBJECTS: Final = sys.version_info >= (3, 12)
"""Whether reference counts must go through Py_IncRef and Py_DecRef, which leave immortal objects alone."""


def supported() -> bool:
    """Return whether the struct offsets of this module hold in this process."""
    return (
        sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info[:2] <= (3, 13)
        and struct.calcsize("P") == WORD
        and object.__basicsize__ == VAR_SIZE  # larger in free-threaded and reference-tracing builds
        and tuple.__basicsize__ == TUPLE_ITEMS
    )


MEMORY_STATISTICS: Final = ("live_bytes", "cached_bytes", "allocations", "reuses", "limit")
"""The statistics that ``jf_memory_stats`` writes, one word each."""
MEMORY_HANDLER: Final = "jf_memory_handler"
MEMORY_HANDLER_NAME: Final = "jf_memory_handler_name"
"""Globals of the runtime: NumPy's handler structure, and the name of the capsule around it."""
ERROR_STATE_ACCEPTED: Final = "jf_error_state"
"""The global that holds the address of the `np.errstate` under which calls run natively."""
