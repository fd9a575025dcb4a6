"""A FusedProgram as JSON: canonical bytes for hashing and equality, and a text to save and load.

Both are the same document: canonical bytes leave out the sources and all white space. Owns how every value
is written, exactly: floats (and the parts of complex numbers) in hexadecimal, NaN with its bits, bytes in base64,
nested programs in place.
Does not judge whether a program makes sense (`jitfuse.ir.verify`); reading checks types and structure only.
"""
from __future__ import annotations

import base64
import binascii
import json
import reprlib
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from jitfuse.errors import JitfuseError
from jitfuse.ir.floats import float_text, text_float
from jitfuse.ir.program import PROGRAM_VERSION, AttrValue, FusedProgram, Meta, OpStep

FORMAT: Final = "jitfuse.FusedProgram"
_FIELDS: Final = {
    "format", "version", "feeds", "feed_names", "steps", "outputs", "state_in", "state_out", "writes", "meta",
    "sources",
}
_STEP_FIELDS: Final = ("id", "op", "inputs", "attrs", "results", "mode_sensitive", "level")
_META_FIELDS: Final = ("shape", "dtype", "device", "weak", "axes")
T = TypeVar("T")


def canonical_bytes(program: FusedProgram) -> bytes:
    """Return the program without its sources as JSON in ASCII: equal programs give equal bytes everywhere."""
    return json.dumps(_encode(program, sources=False), separators=(",", ":"), allow_nan=False).encode("ascii")


def document(program: FusedProgram) -> dict[str, Any]:
    """Return the program with its sources as lists, dicts and JSON's scalars."""
    return _encode(program, sources=True)


def program_of(document: Any) -> FusedProgram:
    """Return the program of a document; raises JitfuseError where it is another kind or has an unknown version."""
    return _decode(document, "the program")


def to_json(program: FusedProgram) -> str:
    """Return the program with its sources as JSON text that carries the format's name and version."""
    return json.dumps(document(program), allow_nan=False)


def from_json(text: str) -> FusedProgram:
    """Return the program that `to_json` wrote.

    Raises JitfuseError where the text is damaged, is another kind of document, or has an unknown version.
    """
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError) as error:
        raise JitfuseError(f"this is no program: the text is not JSON ({error})") from error
    try:
        return program_of(found)
    except RecursionError as error:
        raise JitfuseError("this is no program: its values are nested too deeply") from error


def bytes_text(data: bytes) -> str:
    """Return bytes as text that `text_bytes` reads back."""
    return base64.b64encode(data).decode("ascii")


def text_bytes(text: str) -> bytes:
    """Return the bytes that `bytes_text` wrote; raises ValueError on anything else."""
    return base64.b64decode(text, validate=True)


# ---------------------------------------------------------------- writing
def _encode(program: FusedProgram, sources: bool) -> dict[str, Any]:
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
    assert isinstance(value, FusedProgram), type(value)
    return {"program": _encode(value, sources)}


# ---------------------------------------------------------------- reading
def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it holds a bare {name}")


def _wrong(where: str, expected: str, found: Any) -> JitfuseError:
    return JitfuseError(f"this is no program: {where} should be {expected}, not {reprlib.repr(found)}")


def _decode(document: Any, where: str) -> FusedProgram:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _wrong(where, f"an object whose format is {FORMAT!r}", document)
    version = _int(document.get("version"), f"version of {where}")
    if version != PROGRAM_VERSION:
        raise JitfuseError(
            f"{where} has version {version}; this jitfuse reads version {PROGRAM_VERSION}. "
            "Trace the function again, or load it with the jitfuse that wrote it."
        )

    unknown = sorted(document.keys() - _FIELDS)
    if unknown:
        raise JitfuseError(f"this is no program: {where} has a field {unknown[0]!r}, which version {version} lacks")

    def field(name: str, decode: Callable[[Any, str], T]) -> T:
        if name not in document:
            raise JitfuseError(f"this is no program: {where} has no {name!r}")
        return decode(document[name], f"{name} of {where}")

    return FusedProgram(
        feeds=frozenset(field("feeds", _ints)),
        steps=tuple(field("steps", _list_of(_decode_step))),
        outputs=field("outputs", _mapping(_str, _int)),
        meta=field("meta", _mapping(_int, _decode_meta)),
        feed_names=field("feed_names", _mapping(_int, _str)),
        state_in=frozenset(field("state_in", _ints)),
        state_out=field("state_out", _mapping(_int, _int)),
        writes=field("writes", _mapping(_int, _int)),
        sources=field("sources", _mapping(_int, _str)) if "sources" in document else {},
        version=version,
    )


def _int(value: Any, where: str) -> int:
    if type(value) is not int:
        raise _wrong(where, "an integer", value)
    return value


def _str(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a string", value)
    return value


def _bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    return value


def _list_of(decode: Callable[[Any, str], T]) -> Callable[[Any, str], list[T]]:
    return lambda value, where: [decode(v, f"item {k} of {where}") for k, v in enumerate(_list(value, where))]


def _ints(value: Any, where: str) -> tuple[int, ...]:
    return tuple(_list_of(_int)(value, where))


def _mapping(
    key: Callable[[Any, str], Any], item: Callable[[Any, str], T]
) -> Callable[[Any, str], dict[Any, T]]:
    def decode(value: Any, where: str) -> dict[Any, T]:
        result: dict[Any, T] = {}
        for k, pair in enumerate(_list(value, where)):
            first, second = _record(pair, ("key", "value"), f"item {k} of {where}")
            name = key(first, f"key {k} of {where}")
            if name in result:
                raise JitfuseError(f"this is no program: {where} holds {name!r} twice")
            result[name] = item(second, f"item {name!r} of {where}")
        return result

    return decode


def _record(value: Any, fields: tuple[str, ...], where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != len(fields):
        raise _wrong(where, f"a list of {', '.join(fields)}", value)
    return value


def _decode_step(value: Any, where: str) -> OpStep:
    step_id, op_name, inputs, attrs, results, mode_sensitive, level = _record(value, _STEP_FIELDS, where)
    return OpStep(
        step_id=_int(step_id, f"id of {where}"),
        op_name=_str(op_name, f"op of {where}"),
        input_ids=_ints(inputs, f"inputs of {where}"),
        attrs=tuple(_mapping(_str, _decode_value)(attrs, f"attrs of {where}").items()),
        result_ids=_ints(results, f"results of {where}"),
        mode_sensitive=_bool(mode_sensitive, f"mode_sensitive of {where}"),
        level=_int(level, f"level of {where}"),
    )


def _decode_meta(value: Any, where: str) -> Meta:
    shape, dtype, device, weak, axes = _record(value, _META_FIELDS, where)
    names = None if axes is None else tuple(_list_of(_str)(axes, f"axes of {where}"))
    return Meta(
        _ints(shape, f"shape of {where}"), _str(dtype, f"dtype of {where}"),
        _str(device, f"device of {where}"), _bool(weak, f"weak of {where}"), names,
    )


def _decode_value(value: Any, where: str) -> AttrValue:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if isinstance(value, list):
        return tuple(_list_of(_decode_value)(value, where))
    if isinstance(value, dict) and len(value) == 1:
        ((tag, content),) = value.items()
        try:
            if tag == "float":
                return text_float(_str(content, where))
            if tag == "complex":
                return complex(*[text_float(_str(c, where)) for c in _record(content, ("real", "imaginary"), where)])
            if tag == "bytes":
                return text_bytes(_str(content, where))
        except (ValueError, OverflowError, struct.error, binascii.Error) as error:
            raise _wrong(where, f"{tag} content", content) from error
        if tag == "program":
            return _decode(content, where)
    raise _wrong(where, "an attribute's value", value)
