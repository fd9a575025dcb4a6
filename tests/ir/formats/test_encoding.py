"""JSON and canonical bytes: exact, the same in every process, and clear about what cannot be read."""
from __future__ import annotations

import copy
import json
import math
import os
import pickle
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import cloudpickle
import pytest
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from jitfuse.base.floats import text_float
from jitfuse.errors import JitfuseError, VerifyError
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs


@settings(max_examples=drawn(100), deadline=None)
@given(data=st.data())
def test_any_program_comes_back_equal_with_its_sources(any_program: Any, data: Any) -> None:
    program = data.draw(any_program)
    again = FusedProgram.from_json(program.to_json(), check=False)
    assert again.canonical_bytes == program.canonical_bytes
    assert again == program and hash(again) == hash(program)
    assert dict(again.sources) == dict(program.sources)
    assert list(again.outputs) == list(program.outputs)


def constant(value: Any) -> FusedProgram:
    step = OpStep(0, "full", (), make_attrs({"value": value}), (0,))
    return FusedProgram(frozenset(), (step,), {"": 0}, {0: Meta((), "float64")})


@pytest.mark.parametrize("bits", [
    0x0000000000000000, 0x8000000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
    0xFFF8000000000000, 0x7FF8000000000123, 0x0000000000000001, 0x3FB999999999999A, 0x7FEFFFFFFFFFFFFF,
])
def test_floats_keep_every_bit(bits: int) -> None:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    back = FusedProgram.from_json(constant(value).to_json(), check=False).steps[0].attr("value")
    assert struct.pack("<d", back) == struct.pack("<d", value)


def test_values_of_different_types_are_different_programs() -> None:
    values = [0, False, 0.0, -0.0, None, "", b"", (), "0", (0,), math.nan, "nan", 2**70, 1, True, 1.0]
    assert len({constant(v).canonical_bytes for v in values}) == len(values)
    for value in values:
        again = FusedProgram.from_json(constant(value).to_json(), check=False)
        assert type(again.steps[0].attr("value")) is type(value)


def test_nested_programs_are_part_of_the_bytes(nesting_program: FusedProgram) -> None:
    again = FusedProgram.from_json(nesting_program.to_json(), check=False)
    body = again.steps[0].attr("body")
    assert again == nesting_program and isinstance(body, FusedProgram)
    assert dict(body.sources) == {0: "body.py:3"}
    other = replace(nesting_program.steps[0], attrs=make_attrs({"body": replace(body, outputs={"": 0}), "times": 2}))
    assert replace(nesting_program, steps=(other,)) != nesting_program


def test_sources_and_the_order_of_mappings_do_not_count(training_program: FusedProgram) -> None:
    turned = replace(
        training_program, sources={}, meta=dict(list(training_program.meta.items())[::-1]),
        feed_names=dict(list(training_program.feed_names.items())[::-1]),
    )
    assert turned == training_program
    assert turned.content_hash == training_program.content_hash
    assert b"model.py" not in training_program.canonical_bytes


@pytest.mark.parametrize("change", [
    {"writes": {}}, {"state_out": {}}, {"outputs": {"['total']": 6}}, {"feed_names": {}}, {"version": 2},
    {"outputs": {"['kept']": 5, "['total']": 6}}, {"meta": {}},
], ids=str)
def test_everything_else_counts(training_program: FusedProgram, change: dict[str, Any]) -> None:
    assert replace(training_program, **change) != training_program


@pytest.mark.full
def test_bytes_and_hash_are_the_same_in_every_process(training_program: FusedProgram) -> None:
    code = (
        "import sys; from jitfuse.ir.program import FusedProgram\n"
        "p = FusedProgram.from_json(sys.stdin.read()); print(p.content_hash, len({p, p}))"
    )
    for seed in ("0", "1", "4711"):
        run = subprocess.run(
            [sys.executable, "-c", code], input=training_program.to_json(), capture_output=True, text=True,
            check=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert run.stdout.split() == [training_program.content_hash, "1"]


def test_the_bytes_are_the_documented_ones() -> None:
    """A golden text: a change here needs a new PROGRAM_VERSION, or caches of old bytes go stale."""
    assert constant(0.1).canonical_bytes == (
        b'{"format":"jitfuse.FusedProgram","version":1,"feeds":[],"feed_names":[],'
        b'"steps":[[0,"full",[],[["value",{"float":"0x1.999999999999ap-4"}]],[0],false,0]],'
        b'"outputs":[["",0]],"state_in":[],"state_out":[],"writes":[],'
        b'"meta":[[0,[[],"float64","cpu",false,null]]]}'
    )


# ---------------------------------------------------------------- what cannot be read
@pytest.mark.parametrize(("text", "message"), [
    ("", "the text is not JSON"),
    ("{'a': 1}", "the text is not JSON"),
    ("NaN", "the text is not JSON"),
    ("[" * 100_000, "the text is not JSON"),
    ("[]", "an object whose format is 'jitfuse.FusedProgram'"),
    ('{"format": "onnx"}', "an object whose format is 'jitfuse.FusedProgram'"),
    ('{"format": "jitfuse.FusedProgram"}', "version of the program should be an integer, not None"),
    ('{"format": "jitfuse.FusedProgram", "version": 99}', "version 99; this jitfuse reads version 1"),
    ('{"format": "jitfuse.FusedProgram", "version": 1}', "the program has no 'feeds'"),
])
def test_foreign_texts_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(JitfuseError) as caught:
        FusedProgram.from_json(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("path", "value", "message"), [
    (["more"], 3, "the program has a field 'more', which version 1 lacks"),
    (["feeds"], 3, "feeds of the program should be a list, not 3"),
    (["feeds", 0], True, "item 0 of feeds of the program should be an integer, not True"),
    (["steps", 0], [0, "add"], "item 0 of steps of the program should be a list of id, op, inputs"),
    (["steps", 0, 1], 7, "op of item 0 of steps of the program should be a string, not 7"),
    (["steps", 0, 2, 1], 1.5, "inputs of item 0 of steps of the program should be an integer, not 1.5"),
    (["steps", 0, 5], 0, "mode_sensitive of item 0 of steps of the program should be true or false, not 0"),
    (["steps", 1, 3, 0, 1], {"float": "one"}, "should be float content, not 'one'"),
    (["steps", 1, 3, 0, 1], {"float": "nan:12"}, "should be float content"),
    (["steps", 1, 3, 0, 1], {"bytes": "?"}, "should be bytes content, not '?'"),
    (["steps", 1, 3, 0, 1], {"pickle": "?"}, "should be an attribute's value"),
    (["steps", 1, 3, 0, 1], {"program": {}}, "should be an object whose format"),
    (["outputs"], [["a", 1], ["a", 2]], "outputs of the program holds 'a' twice"),
    (["meta", 0, 1, 1], None, "dtype of item 0 of meta of the program should be a string, not None"),
    (["meta", 0, 1, 3], "no", "weak of item 0 of meta of the program should be true or false, not 'no'"),
])
def test_damage_is_named_with_its_place(training_program: FusedProgram, path: Any, value: Any, message: str) -> None:
    document = json.loads(training_program.to_json())
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(JitfuseError) as caught:
        FusedProgram.from_json(json.dumps(document))
    assert message in str(caught.value)


def test_no_cut_or_flipped_character_raises_anything_else(training_program: FusedProgram) -> None:
    text = training_program.to_json()
    for k in range(0, len(text), 7):
        with pytest.raises(JitfuseError):
            FusedProgram.from_json(text[:k])
        for damaged in (text[:k] + "9" + text[k + 1 :], text[:k] + "]" + text[k:]):
            with suppress(JitfuseError):  # inside a string or a number it may still be a program
                assert FusedProgram.from_json(damaged) != training_program or "sources" in text[:k]


@pytest.mark.parametrize(("old", "new", "message"), [
    ('"version": 1', '"version": 1, "version": 1', "an object holds a key twice"),
    ('{"float": ', '{"float": "nan", "float": ', "an object holds a key twice"),
    ('"feeds": [0, 1', '"feeds": [0, 0, 1', "feeds of the program holds 0 twice"),
    ('"version": 1', '"version": 1' + "0" * 5000, "the text is not JSON"),
    ('"version": 1', '"version": true', "version of the program should be an integer, not True"),
    ("jf.random.state", "\\ud800", "should be a string of whole characters"),
    ('"multiply"', '"mulitply"', "rule 6: 'mulitply' is no operator"),
    ('["p", {', '["q", {', "rule 7: dropout has no attribute 'q'"),
    ('[3, 4], "float32"', '[3, 5], "float32"', "rule 10: "),
    ('}', '} {}', "the text is not JSON"),
])
def test_invalid_programs_are_refused(training_program: FusedProgram, old: str, new: str, message: str) -> None:
    text = training_program.to_json()
    assert old in text
    with pytest.raises(JitfuseError) as caught:
        FusedProgram.from_json(text.replace(old, new, 1) if old != "}" else text + new)
    assert message in str(caught.value)


def test_unchecked_reading_is_for_looking_at_invalid_programs(training_program: FusedProgram) -> None:
    broken = replace(training_program, outputs={"": 99})
    with pytest.raises(VerifyError, match="rule 11"):
        FusedProgram.from_json(broken.to_json())
    assert FusedProgram.from_json(broken.to_json(), check=False) == broken


@pytest.mark.parametrize("copied", [
    lambda p: pickle.loads(pickle.dumps(p)), lambda p: pickle.loads(pickle.dumps(p, 0)),
    lambda p: cloudpickle.loads(cloudpickle.dumps(p)), copy.copy, copy.deepcopy,
], ids=["pickle", "pickle of protocol 0", "cloudpickle", "copy", "deepcopy"])
@pytest.mark.parametrize("state", [{}, {"state_in": frozenset(), "state_out": {}, "feed_names": {}, "writes": {}}])
def test_programs_are_pickled_as_their_document(training_program: FusedProgram, copied: Any, state: Any) -> None:
    view = MappingProxyType(dict(training_program.meta))  # what cannot be pickled itself
    program = replace(training_program, meta=view, **state)
    again = copied(program)
    assert again == program and dict(again.sources) == dict(program.sources) and again is not program
    assert program.content_hash.encode() not in pickle.dumps(program)  # nothing that was computed from it


@pytest.mark.parametrize("text", ["nan:" + "7f" * 9, "nan:", "nan:0", "0x", ""])
def test_texts_that_are_no_floats_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        text_float(text)
