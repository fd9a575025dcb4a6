"""Register programs as JSON, and back.

    {"format": "register program", "version": 1, "instructions": [
      {"op": "ELIMINATE", "dst": 2, "args": {"src": 1, "keep_keys": [["v", 3]]}, "spec": [["v", 3, 2]]}, ...]}

An axis is a letter (v: variable, m: mode), a number and a size, its key the first two. `dst` and `spec` are left out
where there are none. What is read has the types that `jitfuse.factors.ir.arguments` lists, and may still break rules.
"""
from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from jitfuse.errors import ModelError
from jitfuse.factors.ir.arguments import ARGUMENTS, Kind, fits
from jitfuse.factors.ir.schema import Axis, AxisKey, Instruction, OpCode, Program, TensorSpec
from jitfuse.factors.ir.text import KINDS, LETTERS

FORMAT: Final = "register program"
VERSION: Final = 1


def to_json(program: Program) -> str:
    """Return a program as JSON.

    Raises:
        ModelError: an argument is none of its opcode's, or has another type.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> to_json(from_text("FREE srcs=(0)"))
        '{"format": "register program", "version": 1, "instructions": [{"op": "FREE", "args": {"srcs": [0]}}]}'
    """
    written = [_written(instruction, f"instructions[{n}]") for n, instruction in enumerate(program.instructions)]
    return json.dumps({"format": FORMAT, "version": VERSION, "instructions": written})


def _written(instruction: Instruction, place: str) -> dict[str, Any]:
    kinds, spec = ARGUMENTS[instruction.op], instruction.spec
    args: dict[str, Any] = {}
    for name, value in instruction.args.items():
        if name not in kinds or not fits(kinds[name], value):
            _fail(f"{place}.args.{name}", f"{value!r} is no argument of {instruction.op.name}")
        args[name] = [[LETTERS[kind], i] for kind, i in value] if kinds[name] is Kind.KEYS else value
    fields = {
        "op": instruction.op.name, "dst": instruction.dst, "args": args,
        "spec": None if spec is None else [[LETTERS[axis.kind], axis.id, axis.size] for axis in spec.axes],
    }
    return {name: value for name, value in fields.items() if value is not None}


def from_json(text: str | bytes) -> Program:
    """Return the program of a JSON text.

    Raises:
        ModelError: the text is no JSON, of another version, or no program; the message names the place.
    """
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of too many digits, nested too deeply
        raise ModelError(f"the program is not JSON that can be read: {error}") from error
    fields = _fields(held, "the program", {"format", "version", "instructions"})
    if fields["format"] != FORMAT:
        _fail("format", f"{fields['format']!r} should be {FORMAT!r}")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        _fail("version", f"{fields['version']!r} should be {VERSION}")
    listed = _list(fields["instructions"], "instructions")
    return Program(tuple(_instruction(value, f"instructions[{n}]") for n, value in enumerate(listed)))


def _instruction(value: Any, place: str) -> Instruction:
    fields = _fields(value, place, {"op", "args"}, {"dst", "spec"})
    op = fields["op"]
    if not isinstance(op, str) or op not in OpCode.__members__:
        _fail(f"{place}.op", f"{op!r} is no opcode")
    kinds = ARGUMENTS[OpCode[op]]
    args = _fields(fields["args"], f"{place}.args", set(), kinds.keys())
    return Instruction(
        OpCode[op], _integer(fields["dst"], f"{place}.dst") if "dst" in fields else None,
        {name: _argument(kinds[name], held, f"{place}.args.{name}") for name, held in args.items()},
        _spec(fields["spec"], f"{place}.spec") if "spec" in fields else None,
    )


def _argument(kind: Kind, value: Any, place: str) -> Any:
    if kind is Kind.KEYS:
        value = tuple(_key(each, f"{place}[{k}]", 2) for k, each in enumerate(_list(value, place)))
    elif isinstance(value, list):
        value = tuple(value)
    if not fits(kind, value):
        _fail(place, f"it should be {kind.value}")
    return value


def _spec(value: Any, place: str) -> TensorSpec:
    axes = []
    for k, each in enumerate(_list(value, place)):
        kind, identity = _key(each, f"{place}[{k}]", 3)
        axes.append(Axis(identity, kind, _integer(each[2], f"{place}[{k}][2]")))
    return TensorSpec(tuple(axes))


def _key(value: Any, place: str, items: int) -> AxisKey:
    held = _list(value, place)
    if len(held) != items or held[0] not in (*KINDS,):
        _fail(place, f"{value!r} should be {['v', 3, 2][:items]} or the like")
    return KINDS[held[0]], _integer(held[1], f"{place}[1]")


def _fields(value: Any, place: str, needed: set[str], also: Any = frozenset()) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(place, "it should be an object")
    for name in sorted(needed - value.keys()):
        _fail(place, f"it has no {name}")
    for name in value.keys() - needed - also:
        _fail(place, f"{name!r} is no field of it")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        _fail(place, f"{value!r} is no list")
    return value


def _integer(value: Any, place: str) -> int:
    if type(value) is not int:
        _fail(place, f"{value!r} is no integer")
    return value


def _fail(place: str, why: str) -> NoReturn:
    raise ModelError(f"{place}: {why}")
