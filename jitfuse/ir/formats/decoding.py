"""Decode documents of programs: turn JSON, or lists, dicts and scalars from MessagePack, into a FusedProgram.

Owns the check of a document's types and structure, and the messages that locate damage. Programs are made of the class
that the caller hands in, which this file does not know. Does not decide whether a program is valid
(`jitfuse.ir.analysis.verify`).
"""
from __future__ import annotations

import binascii
import json
import reprlib
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from jitfuse.base.floats import text_float
from jitfuse.errors import JitfuseError
from jitfuse.ir.formats.encoding import FORMAT, text_bytes
from jitfuse.ir.schema import PROGRAM_VERSION, AttrValue, Meta, OpStep, P, ProgramData

_FIELDS: Final = {
    "format", "version", "feeds", "feed_names", "steps", "outputs", "state_in", "state_out", "writes", "meta",
    "sources",
}
_STEP_FIELDS: Final = ("id", "op", "inputs", "attrs", "results", "mode_sensitive", "level")
_META_FIELDS: Final = ("shape", "dtype", "device", "weak", "axes")
T = TypeVar("T")


def from_json(text: str, kind: type[P]) -> P:
    """Return the program that `to_json` wrote, valid or not.

    Raises JitfuseError where the text is damaged, is another kind of document, or has an unknown version.
    """
    try:
        found = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=unique_keys)
    except (ValueError, TypeError, RecursionError) as error:
        raise JitfuseError(f"this is no program: the text is not JSON ({error})") from error
    return program_of(found, kind)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"it holds a bare {name}")


def program_of(document: Any, kind: type[P]) -> P:
    """Return the program of a document; raise JitfuseError if it is another kind or has an unknown version."""
    try:
        return _decode(kind, document, "the program")
    except RecursionError as error:
        raise JitfuseError("this is no program: its values are nested too deeply") from error


def unique_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise ValueError for a duplicate key, of which readers would drop one value."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object holds a key twice")
    return made


def _wrong(where: str, expected: str, found: Any) -> JitfuseError:
    return JitfuseError(f"this is no program: {where} should be {expected}, not {reprlib.repr(found)}")


def _decode(kind: type[P], document: Any, where: str) -> P:
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

    return kind(
        feeds=field("feeds", _ids),
        steps=tuple(field("steps", _list_of(partial(_decode_step, kind)))),
        outputs=field("outputs", _mapping(_str, _int)),
        meta=field("meta", _mapping(_int, _decode_meta)),
        feed_names=field("feed_names", _mapping(_int, _str)),
        state_in=field("state_in", _ids),
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
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _wrong(where, "a string of whole characters", value) from error
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


def _ids(value: Any, where: str) -> frozenset[int]:
    found: set[int] = set()
    for i in _ints(value, where):
        if i in found:
            raise JitfuseError(f"this is no program: {where} holds {i} twice")
        found.add(i)
    return frozenset(found)


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


def _decode_step(kind: type[ProgramData], value: Any, where: str) -> OpStep:
    step_id, op_name, inputs, attrs, results, mode_sensitive, level = _record(value, _STEP_FIELDS, where)
    return OpStep(
        step_id=_int(step_id, f"id of {where}"),
        op_name=_str(op_name, f"op of {where}"),
        input_ids=_ints(inputs, f"inputs of {where}"),
        attrs=tuple(_mapping(_str, partial(_decode_value, kind))(attrs, f"attrs of {where}").items()),
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


def _decode_value(kind: type[ProgramData], value: Any, where: str) -> AttrValue:
    if isinstance(value, str):
        return _str(value, where)
    if value is None or isinstance(value, bool) or type(value) is int:
        return value
    if isinstance(value, list):
        return tuple(_list_of(partial(_decode_value, kind))(value, where))
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
            return _decode(kind, content, where)
    raise _wrong(where, "an attribute's value", value)
