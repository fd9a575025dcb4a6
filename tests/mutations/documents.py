"""Program files in JSON, in MessagePack and as text: what is not refused is a program that is valid, written the same
again, and that runs or says in a typed error why not.
"""
from __future__ import annotations

import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgpack
import numpy as np

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.dtypes import itemsize, kind, numpy_dtype
from jitfuse.errors import CutWireError, JitfuseError
from jitfuse.ir.analysis.verify import nested_programs, verify
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.ir.schema import ProgramData
from tests.mutations.document_changes import altered, changed, changed_bytes
from tests.mutations.document_seeds import programs
from tests.mutations.kinds import Kind

_RUN_BYTES: Final = 1 << 20
"""A program with larger values is not run."""
_RUN_CALLS: Final = 20_000
"""Calls of Python functions after which a run is given up: a changed loop may never end."""
_TOKENS: Final = re.compile(r"\s+|'[^']*'|\"[^\"]*\"|[\w.]+|.", re.DOTALL)
_FAULTS: Final = AttributeError | TypeError | KeyError | AssertionError | NameError
"""What operators raise that do not take their operands at all, rather than these values."""
_BY_BYTES: Final = 0.2
"""The share of mutations that know nothing of the structure."""
_ALTERED: Final = 0.6
"""The share up to which they change what the program says."""


# ---------------------------------------------------------------- mutations
def _changed_json(data: bytes, draw: random.Random) -> bytes:
    if (way := draw.random()) < _BY_BYTES:
        return changed_bytes(data, draw)
    if way < _ALTERED:
        return altered(FusedProgram.from_json(data.decode()), draw).to_json().encode()
    return _dumped(changed(json.loads(data), draw), draw)


def _dumped(document: Any, draw: random.Random) -> bytes:
    sys.set_int_max_str_digits(0)  # to write numbers that are too long to be read
    try:
        text = json.dumps(document)
    finally:
        sys.set_int_max_str_digits(4300)
    return text.replace('"version"', '"format": "jitfuse.FusedProgram", "version"', draw.random() < 0.02).encode()


def _changed_messagepack(data: bytes, draw: random.Random) -> bytes:
    if (way := draw.random()) < _BY_BYTES:
        return changed_bytes(data, draw)
    if way < _ALTERED:
        return altered(FusedProgram.from_messagepack(data), draw).to_messagepack()
    document = changed(msgpack.unpackb(data), draw)
    return msgpack.packb(_packable(document, draw), use_bin_type=draw.random() < 0.9, unicode_errors="surrogatepass")


def _packable(value: Any, draw: random.Random) -> Any:
    """Return what MessagePack holds; some of it as extensions of known and unknown kinds, as bytes and timestamps."""
    if isinstance(value, dict):
        return {k: _packable(v, draw) for k, v in value.items()}
    if isinstance(value, list):
        return [_packable(v, draw) for v in value]
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        return msgpack.ExtType(2, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if draw.random() < 0.001:
        unknown, short = msgpack.ExtType(9, b"abc"), msgpack.ExtType(1, b"\0")
        return draw.choice((msgpack.Timestamp(5, 7), unknown, short, b"add", 1.5))
    return value


def _changed_text(data: bytes, draw: random.Random) -> bytes:
    way = draw.random()
    if way < _BY_BYTES:
        return changed_bytes(data, draw)
    if way < _ALTERED:
        return str(altered(FusedProgram.from_text(data.decode()), draw)).encode()
    if way < 0.8:
        tokens = _TOKENS.findall(data.decode())
        for _ in range(draw.choice((1, 1, 2, 4))):
            at, other = draw.randrange(len(tokens)), draw.choice(tokens)
            tokens[at : at + 1] = draw.choice(([], [other], [tokens[at]] * 2, [*tokens[at : at + 1], other]))
            tokens = tokens or [""]
        return "".join(tokens).encode()
    document = json.loads(FusedProgram.from_text(data.decode()).to_json())
    for _ in range(20):
        try:
            return str(FusedProgram.from_json(_dumped(changed(document, draw), draw).decode(), check=False)).encode()
        except (JitfuseError, ValueError):  # what is no structure of a program is no text of one
            continue
    return data


# ---------------------------------------------------------------- verdicts
def _judge(read: Callable[[bytes], FusedProgram], write: Callable[[FusedProgram], bytes]) -> Any:
    def judge(valid: bytes, mutated: bytes) -> str | None:
        try:
            program = read(mutated)
        except JitfuseError as error:
            return f"a valid program is refused: {error}" if mutated == valid else None
        if mutated == valid and write(program) != valid:
            return "a valid program is written another way again"
        verify(program)
        again = read(write(program))
        if again != program or write(again) != write(program) or dict(again.sources) != dict(program.sources):
            return f"it is another program once written and read:\n{program}"
        for other in (FusedProgram.from_json(program.to_json()), FusedProgram.from_text(str(program)),
                      FusedProgram.from_messagepack(program.to_messagepack())):
            if other != program:
                return f"it is another program in another format:\n{program}"
        return _run(program)

    return judge


class _Enough(BaseException):
    """A run has made as many calls as it may."""


def _run(program: FusedProgram) -> str | None:
    """Run a program in both modes, where it is small; return what was raised that is no typed error."""
    if sum(map(_nbytes, _metas(program))) > _RUN_BYTES:
        return None
    for training in (False, True):
        draw, calls = np.random.default_rng(1), 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"
            if calls > _RUN_CALLS:
                raise _Enough

        feeds = {i: _value(program.meta[i], draw) for i in program.feeds}
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            ProgramRunner(program)(feeds, training)
        except CutWireError as error:
            if error.step_id is not None and error.expected and isinstance(error.__cause__, _FAULTS | None):
                return f"it is valid, and its values are not what it says: {error}"
        except (JitfuseError, _Enough):
            pass
        finally:
            sys.setprofile(before)
    return None


def _metas(program: ProgramData) -> Iterator[Meta]:
    yield from program.meta.values()
    for step in program.steps:
        for _, nested in nested_programs(step):
            yield from _metas(nested)


def _nbytes(meta: Meta) -> int:
    return meta.size * itemsize(meta.dtype)


def _value(meta: Meta, draw: Any) -> Any:
    """Return a feed that looks as its meta says."""
    values = draw.integers(0, 4, meta.shape) if kind(meta.dtype) != "float" else draw.normal(size=meta.shape)
    array = np.asarray(values).astype(numpy_dtype(meta.dtype)).reshape(meta.shape)
    return array.item() if meta.weak else array[()] if math.prod(meta.shape) == 1 and not meta.shape else array


@cache
def _seeds(write: Callable[[FusedProgram], bytes]) -> list[bytes]:
    return [write(program) for program in programs()]


def _kind(
    mutate: Callable[[bytes, random.Random], bytes], read: Callable[[bytes], FusedProgram],
    write: Callable[[FusedProgram], bytes],
) -> Kind:
    return Kind(lambda: _seeds(write), mutate, _judge(read, write))


def _parsed(data: bytes) -> FusedProgram:
    return FusedProgram.from_text(data.decode(errors="surrogateescape"))


JSON = _kind(_changed_json, FusedProgram.from_json, lambda p: p.to_json().encode())  # type: ignore[arg-type]
MESSAGEPACK = _kind(_changed_messagepack, FusedProgram.from_messagepack, lambda p: p.to_messagepack())
TEXT = _kind(_changed_text, _parsed, lambda p: str(p).encode())
