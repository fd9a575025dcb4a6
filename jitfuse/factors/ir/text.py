"""Register programs as text, and back.

One instruction a line. White space separates, blank lines and comments are skipped, and the number may be left out:

    line   = ["[" INT "]"] OPCODE (NAME "=" value)*
    value  = atom | "(" [atom ("," atom)* [","]] ")"
    atom   = INT | STRING | key | axis
    key    = "v3" (variable 3) | "m1" (mode 1)
    axis   = key ":" INT, its size

`dst` and `spec` are fields as the arguments are. A line that can be read may still break the rules of `verify.py`.
"""
from __future__ import annotations

import re
from ast import literal_eval
from typing import Any, Final, NoReturn

from jitfuse.errors import ModelError
from jitfuse.factors.ir.arguments import is_axis_key
from jitfuse.factors.ir.schema import Axis, AxisKey, AxisType, Instruction, OpCode, Program, TensorSpec

LETTERS: Final = {AxisType.GEOMETRIC: "v", AxisType.TOPOLOGICAL: "m"}
KINDS: Final = {letter: kind for kind, letter in LETTERS.items()}
_TOKEN: Final = re.compile(
    r"""\s+ | \#.* | (?P<axis>(?P<kind>[vm])(?P<id>-?[0-9]+)(?::(?P<size>-?[0-9]+))?(?!\w)) | (?P<int>-?[0-9]+)
    | (?P<word>[A-Za-z_]\w*) | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") | (?P<mark>[\[\](),=])""",
    re.VERBOSE,
)


def to_text(program: Program) -> str:
    """Return a program's text, one instruction a line.

    Example:
        >>> print(to_text(from_text("UNIT dst=0 spec=(v3:2, m1:4)\\nFREE srcs=(0)")))
        [0] UNIT dst=0 spec=(v3:2, m1:4)
        [1] FREE srcs=(0)
    """
    return "\n".join(f"[{n}] {instruction_text(instruction)}" for n, instruction in enumerate(program.instructions))


def instruction_text(instruction: Instruction) -> str:
    """Return the line of an instruction, without its number."""
    fields = {"dst": instruction.dst, **instruction.args, "spec": instruction.spec}
    shown = (f"{name}={_value_text(value)}" for name, value in fields.items() if value is not None)
    return " ".join((instruction.op.name, *shown))


def spec_text(spec: TensorSpec) -> str:
    """Return the axes of a tensor with their sizes, such as ``(v3:2, m1:4)``."""
    return f"({', '.join(f'{key_text(axis.key)}:{axis.size}' for axis in spec.axes)})"


def key_text(key: AxisKey) -> str:
    """Return the name of an axis: ``v3`` is variable 3, ``m1`` mode 1."""
    return f"{LETTERS[key[0]]}{key[1]}"


def _value_text(value: Any) -> str:
    if isinstance(value, TensorSpec):
        return spec_text(value)
    if isinstance(value, Axis):
        return f"{key_text(value.key)}:{value.size}"
    if is_axis_key(value):
        return key_text(value)
    return f"({', '.join(map(_value_text, value))})" if isinstance(value, tuple) else repr(value)


def from_text(text: str) -> Program:
    """Return the program of a text.

    Raises:
        ModelError: a line cannot be read; the message has its number.
    """
    instructions: list[Instruction] = []
    for number, line in enumerate(text.split("\n"), 1):
        tokens = _Tokens(number, line)
        if tokens.left:
            instructions.append(tokens.instruction(len(instructions)))
    return Program(tuple(instructions))


class _Tokens:
    """The tokens of one line, the next one last."""

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        self.left: list[re.Match[str]] = []
        at = 0
        while at < len(line):
            match = _TOKEN.match(line, at)
            if match is None:
                self.fail(f"{line[at : at + 20]!r} is no part of it")
            at = match.end()
            if match.lastgroup:
                self.left.append(match)
        self.left.reverse()

    def fail(self, why: str) -> NoReturn:
        raise ModelError(f"line {self.number} of the program's text: {why}")

    def take(self, kind: str, wanted: str = "") -> str:
        """Return the next token, which must be of a kind, or be a mark."""
        found = self.left.pop() if self.left else None
        if found is None or found.lastgroup != kind or wanted not in ("", found[0]):
            self.fail(f"{wanted or f'a {kind}'} is missing before {_shown(found)}")
        return found[0]

    def is_next(self, mark: str) -> bool:
        """Take the next token where it is this mark."""
        found = bool(self.left) and self.left[-1][0] == mark
        if found:
            self.left.pop()
        return found

    def instruction(self, place: int) -> Instruction:
        if self.is_next("["):
            if (number := self.take("int")) != str(place):
                self.fail(f"the instruction has the number {number}, but is number {place}")
            self.take("mark", "]")
        name = self.take("word")
        if name not in OpCode.__members__:
            self.fail(f"{name} is no opcode")
        fields: dict[str, Any] = {}
        while self.left:
            field = self.take("word")
            self.take("mark", "=")
            if field in fields:
                self.fail(f"{field} is given twice")
            fields[field] = self.value()
        dst, axes = fields.pop("dst", None), fields.pop("spec", None)
        if axes is not None and not (isinstance(axes, tuple) and all(isinstance(axis, Axis) for axis in axes)):
            self.fail("spec has the form (v3:2, m1:4)")
        return Instruction(OpCode[name], dst, fields, None if axes is None else TensorSpec(axes))

    def value(self) -> Any:
        if not self.is_next("("):
            return self.atom()
        atoms: list[Any] = []
        while not self.is_next(")"):
            atoms.append(self.atom())
            if not self.is_next(","):
                self.take("mark", ")")
                break
        return tuple(atoms)

    def atom(self) -> Any:
        found = self.left.pop() if self.left else None
        try:
            if found is not None and found.lastgroup == "axis":
                kind, identity = KINDS[found["kind"]], int(found["id"])
                return (kind, identity) if found["size"] is None else Axis(identity, kind, int(found["size"]))
            if found is not None and found.lastgroup in ("int", "string"):
                return literal_eval(found[0])
        except (SyntaxError, ValueError):  # an escape that Python has not, digits beyond its limit, 007
            pass
        self.fail(f"{_shown(found)} is no value")


def _shown(found: re.Match[str] | None) -> str:
    return repr(found[0][:40]) if found else "the end of the line"
