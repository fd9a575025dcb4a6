"""Kernel forms from a file: a form that is not refused compiles.

Mutates forms as JSON: numbers, names, items that are dropped, doubled, swapped or taken from elsewhere.
"""
from __future__ import annotations

import json
import random
from typing import Any

from jitfuse.compile.rebuild import kernel_code
from jitfuse.errors import JitfuseError
from jitfuse.ir.kernels.decoding import form_of
from jitfuse.ir.kernels.verify_form import verify_form
from tests.mutations.kinds import Kind
from tests.mutations.samples import entries

_WORDS = (("None", "null"), ("True", "true"), ("False", "false"), ("'", '"'))
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 64, 255, 1 << 16, 1 << 31, 1 << 63, 10**30, -1, -2, None, True, 0.5)
_NAMES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint64", "uint8", "bool", "complex128",
    "add", "divide", "floor_divide", "power", "sin", "exp", "gcd", "where", "astype", "less", "logical_and", "abs",
    "nextafter", "clip", "conj", "load", "store", "keep", "kept", "const", "param", "index", "random", "scan",
    "bounded", "require", "point", "map", "reduce", "contract", "sum", "prod", "min", "max", "any", "argmax", "whole",
    "partial", "final", "multiply", "0", "1", "2", "n", "nn", "11", "", "f", "0x1p+4",
)


def seeds() -> list[bytes]:
    """Return the forms of the sample's kernels, each once."""
    return sorted({form for entry in entries() for form in entry.canonical.split(b"\0")})


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Return the text of a form with up to four changes anywhere in it."""
    text = data.decode()
    for python, plain in _WORDS:
        text = text.replace(python, plain)
    document = json.loads(text)
    others = _places(document)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        change(document, draw, others)
    return repr(document).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, index) of everything in a document."""
    found: list[tuple[Any, Any]] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        found.append((value, key))
        if isinstance(item, dict | list):
            found += _places(item)
    return found


def change(document: Any, draw: random.Random, others: list[tuple[Any, Any]]) -> None:
    """Change one thing in a JSON document, in place; `others` are places to take other values from."""
    places = _places(document)
    holder, key = draw.choice(places)
    value = holder[key]
    ways = draw.random()
    if isinstance(value, str) and ways < 0.6:
        holder[key] = draw.choice(_NAMES)
    elif isinstance(value, int | float | None) and ways < 0.7:
        near = [value + 1, value - 1] if isinstance(value, int) else []
        holder[key] = draw.choice([*near, *near, *_NUMBERS])
    elif isinstance(holder, list) and ways < 0.8:
        _rearrange(holder, key, draw)
    else:
        there, at = draw.choice(others)
        taken = there[at] if (isinstance(there, dict) and at in there) or (
            isinstance(there, list) and at < len(there)) else None
        holder[key] = json.loads(json.dumps(taken))


def _rearrange(items: list[Any], at: int, draw: random.Random) -> None:
    way = draw.randrange(4)
    if way == 0:
        del items[at]
    elif way == 1:
        items.insert(at, json.loads(json.dumps(items[at])))
    elif way == 2:
        other = draw.randrange(len(items))
        items[at], items[other] = items[other], items[at]
    else:
        items[at:at] = json.loads(json.dumps(items[at : at + 1])) * draw.choice((8, 200))


def judge(valid: bytes, mutated: bytes) -> str | None:
    """Compile the form unless it is refused."""
    try:
        form = form_of(mutated)
        verify_form(form)
    except JitfuseError as error:
        return str(error) if mutated == valid else None
    kernel_code([form])
    return None


FORMS = Kind(seeds, mutate, judge)
