"""What the attributes of steps may hold: one kind of value for each attribute name."""
from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Final

from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import ArgumentError
from jitfuse.ir.operators import ops
from jitfuse.ir.schema import ProgramData


def _is_int(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 64


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_int(value)


def _is_ints(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_int, value))


Kind = tuple[Callable[[Any], bool], str]
_BOOL: Final[Kind] = (lambda v: isinstance(v, bool), "True or False")
_INT: Final[Kind] = (_is_int, "an int")
_INTS: Final[Kind] = (_is_ints, "a tuple of ints")
_EXTENTS: Final[Kind] = (lambda v: _is_ints(v) and all(n >= 0 for n in v), "a tuple of ints from 0 on")
_COUNT: Final[Kind] = (lambda v: _is_int(v) and v >= 0, "an int from 0 on")
_NUMBER: Final[Kind] = (_is_number, "an int or a float")
_AXES: Final[Kind] = (lambda v: v is None or _is_int(v) or _is_ints(v), "None, an int or a tuple of ints")
_DTYPE: Final[Kind] = (lambda v: isinstance(v, str) and v in SUPPORTED, f"one of {', '.join(SUPPORTED)}")
_SCALAR: Final[Kind] = (
    lambda v: isinstance(v, bool | complex) or _is_number(v), "a bool, an int, a float or a complex number"
)
_NUMBERS: Final[Kind] = (lambda v: isinstance(v, tuple) and all(map(_SCALAR[0], v)), "a tuple of numbers")
_PATH: Final[Kind] = (lambda v: isinstance(v, tuple) and all(map(_is_ints, v)), "a tuple of tuples of ints")
_WORD: Final[Kind] = (lambda v: isinstance(v, str), "a string")
_PROGRAM: Final[Kind] = (lambda v: isinstance(v, ProgramData), "a program")
_BYTES: Final[Kind] = (lambda v: isinstance(v, bytes), "bytes")

ATTR_KINDS: Final[dict[str, Kind]] = {
    "axis": _AXES, "axes": _INTS, "keepdims": _BOOL, "correction": _NUMBER, "shape": _EXTENTS,
    "dtype": _DTYPE, "starts": _INTS, "steps": _INTS, "counts": _EXTENTS, "value": _SCALAR, "weak": _BOOL,
    "start": _NUMBER, "step": _NUMBER, "count": _COUNT, "data": _BYTES, "p": _NUMBER, "largest": _BOOL,
    "decimals": _INT, "equal_nan": _BOOL, "legacy": _BOOL,
    "eps": _NUMBER, "status": _COUNT,
    "method": _WORD, "sorting": _WORD, "side": _WORD, "positions": _INTS,
    "shifts": _INTS, "reps": _EXTENTS, "times": _COUNT, "before": _EXTENTS, "after": _EXTENTS, "mode": _WORD,
    "values": _NUMBERS, "lengths": _INTS, "odd": _BOOL, "place": _COUNT, "combine": _WORD,
    "subscripts": _WORD, "path": _PATH, "k": _INT, "offset": _INT,
    "n": _COUNT, "s": _EXTENTS, "norm": _WORD, "upper": _BOOL, "lower": _BOOL, "full_matrices": _BOOL,
    "rule": _PROGRAM, "results": _COUNT, "captured": _COUNT,
    "on_true": _PROGRAM, "on_false": _PROGRAM, "condition": _PROGRAM, "body": _PROGRAM,
    "carries": _COUNT, "scanned": _COUNT, "length": _COUNT, "reverse": _BOOL,
    "size": _COUNT, "return_index": _BOOL, "return_inverse": _BOOL, "return_counts": _BOOL, "sorted": _BOOL,
    "assume_unique": _BOOL, "return_indices": _BOOL,
    "arrays": _COUNT, "reads": _PATH, "writes": _PATH, "sizes": _EXTENTS, "dilations": _EXTENTS,
    "carrier": _WORD, "records": _BYTES, "workspace": _COUNT,
}
"""What an attribute of each name holds: the check, and a text for messages."""


def attr_problems(op: ops.Op, attrs: dict[str, Any]) -> list[str]:
    """Return what is wrong with a step's attributes: unknown, missing, or of the wrong kind for their name.

    Integers have 64 bits, signed or not.
    """
    takes = ", ".join(op.attrs) or "none"
    unknown = [name for name in attrs if name not in op.attrs]
    problems = [f"{op.name} has no attribute {name!r}; it takes {takes}" for name in unknown]
    problems += [f"{op.name} needs the attribute {name!r}" for name in op.attrs if name not in attrs]
    for name, value in attrs.items():
        if name in op.attrs and name in ATTR_KINDS:
            fits, words = _INT if (op.name, name) == ("concat", "axis") else ATTR_KINDS[name]
            if not fits(value):
                problems.append(f"{op.name}: the attribute {name} should be {words}, not {reprlib.repr(value)}")
    return problems


def check_attrs(op: ops.Op, attrs: dict[str, Any]) -> None:
    """Raise ArgumentError with the first of a step's attribute problems."""
    problems = attr_problems(op, attrs)
    if problems:
        raise ArgumentError(problems[0])
