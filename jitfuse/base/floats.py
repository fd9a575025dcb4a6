"""Floats as text, exactly: in hexadecimal, NaN with its bits."""
from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

_PLAIN_NAN: Final = 0x7FF8000000000000


def float_text(value: float) -> str:
    """Return a float as text that `text_float` reads back bit by bit."""
    if math.isnan(value):
        bits = int.from_bytes(struct.pack(">d", value), "big")
        return "nan" if bits == _PLAIN_NAN else f"nan:{bits:016x}"
    return float(value).hex()


def exact_text(value: Any) -> str:
    """Return text that is equal exactly for bitwise equal values: it distinguishes 0.0 and -0.0, 1 and True, NaNs."""
    text = repr(value)
    return f"{text} {[*_nans(value)]}" if "nan" in text else text


def _nans(value: Any) -> Iterator[str]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _nans(item)
    elif isinstance(value, complex):
        yield from (float_text(value.real), float_text(value.imag))
    elif isinstance(value, float):
        yield float_text(value)


def text_float(text: str) -> float:
    """Return the float that `float_text` wrote; raise ValueError on anything else."""
    if text.startswith("nan:"):
        raw = bytes.fromhex(text[4:]).rjust(8, b"\0")
        value: float = struct.unpack(">d", raw)[0] if len(raw) == 8 else 0.0
        if not math.isnan(value):
            raise ValueError(f"{text!r} is no NaN")
        return value
    return float.fromhex(text)
