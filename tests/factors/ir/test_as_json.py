"""JSON of register programs: its form, and the place of what is wrong in it."""
from __future__ import annotations

import json
from typing import Any

import pytest

from jitfuse.errors import ModelError
from jitfuse.factors.ir.as_json import from_json, to_json
from jitfuse.factors.ir.text import from_text

TEXT = """
LOAD_SLOT dst=0 slot=('msg', 1, 2) spec=(v0:2, m3:4)
ELIMINATE dst=1 src=0 keep_keys=(m3) spec=(m3:4)
FREE srcs=(0, 1)
"""
FORM: dict[str, Any] = {
    "format": "register program", "version": 1, "instructions": [
        {"op": "LOAD_SLOT", "dst": 0, "args": {"slot": ["msg", 1, 2]}, "spec": [["v", 0, 2], ["m", 3, 4]]},
        {"op": "ELIMINATE", "dst": 1, "args": {"src": 0, "keep_keys": [["m", 3]]}, "spec": [["m", 3, 4]]},
        {"op": "FREE", "args": {"srcs": [0, 1]}},
    ],
}


def test_the_form_and_back() -> None:
    assert json.loads(to_json(from_text(TEXT))) == FORM
    assert from_json(json.dumps(FORM)) == from_text(TEXT)
    assert from_json(json.dumps(FORM).encode()) == from_text(TEXT)


MISSING = object()
WRONG: list[tuple[tuple[Any, ...], Any, str]] = [
    (("format",), "program", "format: 'program' should be 'register program'"),
    (("format",), MISSING, "the program: it has no format"),
    (("version",), 2, "version: 2 should be 1"),
    (("version",), True, "version: True should be 1"),
    (("extra",), 1, "the program: 'extra' is no field of it"),
    (("instructions",), {}, "instructions: {} is no list"),
    (("instructions", 1), [], "instructions[1]: it should be an object"),
    (("instructions", 1, "op"), "ADD", "instructions[1].op: 'ADD' is no opcode"),
    (("instructions", 1, "op"), [], "instructions[1].op: [] is no opcode"),
    (("instructions", 1, "op"), MISSING, "instructions[1]: it has no op"),
    (("instructions", 1, "args"), MISSING, "instructions[1]: it has no args"),
    (("instructions", 1, "args"), 0, "instructions[1].args: it should be an object"),
    (("instructions", 1, "dst"), 1.0, "instructions[1].dst: 1.0 is no integer"),
    (("instructions", 1, "args", "out_spec"), 1, "instructions[1].args: 'out_spec' is no field of it"),
    (("instructions", 1, "args", "src"), "0", "instructions[1].args.src: it should be a register"),
    (("instructions", 1, "args", "keep_keys"), 3, "instructions[1].args.keep_keys: 3 is no list"),
    (("instructions", 1, "args", "keep_keys", 0), 3, "instructions[1].args.keep_keys[0]: 3 is no list"),
    (("instructions", 1, "args", "keep_keys", 0), ["m"], "instructions[1].args.keep_keys[0]: ['m'] should be ['v', 3]"),
    (("instructions", 1, "args", "keep_keys", 0, 1), None, "instructions[1].args.keep_keys[0][1]: None is no integer"),
    (("instructions", 0, "args", "slot"), [], "instructions[0].args.slot: it should be the key of a slot"),
    (("instructions", 0, "args", "slot", 1), [], "instructions[0].args.slot: it should be the key of a slot"),
    (("instructions", 0, "spec"), "v0", "instructions[0].spec: 'v0' is no list"),
    (("instructions", 0, "spec", 1), ["x", 3, 4], "instructions[0].spec[1]: ['x', 3, 4] should be ['v', 3, 2]"),
    (("instructions", 0, "spec", 1, 0), [], "instructions[0].spec[1]: [[], 3, 4] should be ['v', 3, 2]"),
    (("instructions", 0, "spec", 1, 2), "4", "instructions[0].spec[1][2]: '4' is no integer"),
    (("instructions", 2, "args", "srcs"), [True], "instructions[2].args.srcs: it should be a tuple of registers"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_what_is_wrong_is_named_with_its_place(path: tuple[Any, ...], value: Any, message: str) -> None:
    held = json.loads(json.dumps(FORM))
    inner = held
    for part in path[:-1]:
        inner = inner[part]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(ModelError) as caught:
        from_json(json.dumps(held))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, '{"version": ' + "1" * 5000 + "}"])
def test_what_is_no_json(text: str | bytes) -> None:
    with pytest.raises(ModelError, match="the program is not JSON that can be read"):
        from_json(text)


@pytest.mark.parametrize("text", ["FREE srcs=0", "FREE srcs=(0) other=1", "LOAD_FACTOR dst=0 factor_id=v0 spec=()"])
def test_arguments_that_are_none_are_not_written(text: str) -> None:
    with pytest.raises(ModelError, match=r"instructions\[0\].args"):
        to_json(from_text(text))
