"""A FusedProgram as JSON: canonical bytes for hashing and equality, and a text to save and load.

Both are the same document; canonical bytes leave out the sources and all white space. Owns how every value is written
exactly: floats (and the parts of complex numbers) in hexadecimal, NaN with its bits, bytes in base64, nested programs
in place. Does not own how documents are read back (`jitfuse.ir.formats.decoding`).
"""
from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from jitfuse.base.floats import float_text
from jitfuse.ir.schema import AttrValue, Meta, OpStep, ProgramData

FORMAT: Final = "jitfuse.FusedProgram"


def canonical_bytes(program: ProgramData) -> bytes:
    """Return the program without its sources as JSON in ASCII: equal programs give equal bytes everywhere."""
    return json.dumps(_encode(program, sources=False), separators=(",", ":"), allow_nan=False).encode("ascii")


def document(program: ProgramData) -> dict[str, Any]:
    """Return the program with its sources as lists, dicts and JSON's scalars."""
    return _encode(program, sources=True)


def to_json(program: ProgramData) -> str:
    """Return the program with its sources as JSON text that carries the format's name and version."""
    return json.dumps(document(program), allow_nan=False)


def bytes_text(data: bytes) -> str:
    """Return bytes as text that `text_bytes` reads back."""
    return base64.b64encode(data).decode("ascii")


def text_bytes(text: str) -> bytes:
    """Return the bytes that `bytes_text` wrote; raises ValueError on anything else."""
    return base64.b64decode(text, validate=True)


# ---------------------------------------------------------------- writing
def _encode(program: ProgramData, sources: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": program.version,
        "feeds": sorted(program.feeds),
        "feed_names": _pairs(program.feed_names),
        "steps": [_encode_step(step, sources) for step in program.steps],
        "outputs": [[path, i] for path, i in program.outputs.items()],
        "state_in": sorted(program.state_in),
        "state_out": _pairs(program.state_out),
        "writes": _pairs(program.writes),
        "meta": [[i, _encode_meta(program.meta[i])] for i in sorted(program.meta)],
    }
    if sources:
        document["sources"] = _pairs(program.sources)
    return document


def _pairs(mapping: Mapping[int, Any]) -> list[list[Any]]:
    return [[key, mapping[key]] for key in sorted(mapping)]


def _encode_step(step: OpStep, sources: bool) -> list[Any]:
    attrs = [[name, _encode_value(value, sources)] for name, value in step.attrs]
    boundary = [step.step_id, step.op_name, step.input_ids, attrs, step.result_ids]
    return [*boundary, step.mode_sensitive, step.level]


def _encode_meta(meta: Meta) -> list[Any]:
    return [meta.shape, meta.dtype, meta.device, meta.weak, meta.axes]


def _encode_value(value: AttrValue, sources: bool) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return {"float": float_text(value)}
    if isinstance(value, complex):
        return {"complex": [float_text(value.real), float_text(value.imag)]}
    if isinstance(value, bytes):
        return {"bytes": bytes_text(value)}
    if isinstance(value, tuple):
        return [_encode_value(v, sources) for v in value]
    assert isinstance(value, ProgramData), type(value)
    return {"program": _encode(value, sources)}
