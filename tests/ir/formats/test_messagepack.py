"""MessagePack: the same programs as JSON, exact, and clear about what cannot be read."""
from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import msgpack
import pytest
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from jitfuse.errors import JitfuseError, VerifyError
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs


def back(program: FusedProgram) -> FusedProgram:
    return FusedProgram.from_messagepack(program.to_messagepack(), check=False)


def constant(value: Any) -> FusedProgram:
    return FusedProgram(frozenset(), (OpStep(0, "full", (), make_attrs({"value": value}), (0,)),), {"": 0},
                        {0: Meta((), "float64")})


@settings(max_examples=drawn(100), deadline=None)
@given(data=st.data())
def test_any_program_comes_back_equal_with_its_sources(any_program: Any, data: Any) -> None:
    program = data.draw(any_program)
    again = back(program)
    assert again == program and again.canonical_bytes == program.canonical_bytes
    assert dict(again.sources) == dict(program.sources)


@pytest.mark.parametrize("value", [
    0, False, 0.0, None, "", b"", b"\x00\xff", (), (0, (1.5, "a")), "nan", 2**70, -(2**70), 2**63, -(2**63), 1, True,
])
def test_values_keep_their_types(value: Any) -> None:
    found = back(constant(value)).steps[0].attr("value")
    assert type(found) is type(value) and found == value


@pytest.mark.parametrize("bits", [0x8000000000000000, 0xFFF8000000000000, 0x7FF8000000000123, 1, 0x7FEFFFFFFFFFFFFF])
def test_floats_keep_every_bit(bits: int) -> None:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    assert struct.pack("<d", back(constant(value)).steps[0].attr("value")) == struct.pack("<d", value)


def test_nested_programs(nesting_program: FusedProgram) -> None:
    assert back(nesting_program) == nesting_program


def test_smaller_than_json() -> None:
    program = constant(bytes(range(256)) * 100)
    assert len(program.to_messagepack()) < 0.8 * len(program.to_json())


@pytest.mark.parametrize("data", [
    b"", b"\xc1", b"\x81", msgpack.packb({}), msgpack.packb([1]), msgpack.packb(math.nan),
    msgpack.packb(msgpack.ExtType(9, b"")), b"\x91" * 5000, b"\xdf\xff\xff\xff\xff",
    msgpack.packb(msgpack.Timestamp(1, 2)), msgpack.packb({"format": b"jitfuse.FusedProgram"}),
    b"\x82\xa1a\x01\xa1a\x01",
    msgpack.packb({b"format": "jitfuse.FusedProgram"}), msgpack.packb("a") + b"\xc0", b"\xa2\xff\xfe", b"\xdd\xff" * 9,
    b"\xc9\x7f\xff\xff\xff\x02", b"\xd6\xff" + b"\x00" * 3,
], ids=range(18))
def test_what_is_no_program_is_refused(data: bytes) -> None:
    with pytest.raises(JitfuseError, match="this is no program"):
        FusedProgram.from_messagepack(data)


def test_every_cut_and_every_changed_byte_is_an_error_or_a_program(training_program: FusedProgram) -> None:
    whole = training_program.to_messagepack()
    for k in range(len(whole)):
        with pytest.raises(JitfuseError):
            FusedProgram.from_messagepack(whole[:k])
        changed = bytearray(whole)
        changed[k] ^= 0x81
        with contextlib.suppress(JitfuseError):
            FusedProgram.from_messagepack(bytes(changed))


def test_another_version_is_said(training_program: FusedProgram) -> None:
    document = msgpack.unpackb(training_program.to_messagepack())
    document["version"] = 99
    with pytest.raises(JitfuseError, match="has version 99"):
        FusedProgram.from_messagepack(msgpack.packb(document))


def test_integers_that_are_too_long_to_be_written_are_refused(training_program: FusedProgram) -> None:
    document = msgpack.unpackb(training_program.to_messagepack())
    document["version"] = msgpack.ExtType(2, b"\x7f" * 2000)
    with pytest.raises(JitfuseError, match="extension type 2 of 2000 bytes is unknown"):
        FusedProgram.from_messagepack(msgpack.packb(document))


def test_invalid_programs_are_refused(training_program: FusedProgram) -> None:
    document = msgpack.unpackb(training_program.to_messagepack())
    document["outputs"][0][1] = 99
    with pytest.raises(VerifyError, match="rule 11"):
        FusedProgram.from_messagepack(msgpack.packb(document))
