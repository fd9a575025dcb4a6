"""Read the text form of a FusedProgram (`jitfuse.ir.formats.text`) back.

Owns the grammar. Programs are of the class that the caller hands in. White space separates, and a comment behind a step
is its source:

    program  = "program" INT "{" line* "}"
    line     = ("feed" | "state") ID ":" meta STRING?
             | ID ":" meta ("," ID ":" meta)* "=" WORD "(" [operand ("," operand)*] ")" braces COMMENT?
             | "return" STRING ":" ID  |  ("update" | "write") ID "<-" ID
    braces   = "{" "step" INT "," "level" INT ["," "mode"] "}"
    meta     = "?" | WORD "[" [INT ("," INT)*] "]" "weak"? ["@" (WORD | STRING)] ["axes" value]
    operand  = ID | WORD "=" value
    value    = INT | FLOAT | STRING | BYTES | "True" | "False" | "None" | program
             | "(" [value ("," value)* ","?] ")" | "complex" "(" FLOAT "," FLOAT ")"
"""
from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Container
from typing import Any, Final, Generic, NoReturn, TypeVar

from jitfuse.base.floats import text_float
from jitfuse.base.records import NamedTuple
from jitfuse.errors import JitfuseError
from jitfuse.ir.schema import PROGRAM_VERSION, AttrValue, Meta, OpStep, P

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+) | (?P<comment>\#[^\n\ud800-\udfff]*) | (?P<id>%-?[0-9]+) | (?P<bytes>h'(?:[0-9a-f]{2})*')
    | (?P<string>'(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*")
    | (?P<float>-?[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|-?[0-9]+e[+-]?[0-9]+|-inf\b|nan:[0-9a-f]{16}\b)
    | (?P<int>-?[0-9]+) | (?P<word>[A-Za-z_][\w.]*) | (?P<device>@\w[\w:.-]*) | (?P<mark><-|[{}()\[\]:,=?@])""",
    re.VERBOSE,
)

_ESCAPE: Final = re.compile(r"\\(?:(?P<plain>[\\'\"nrt])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|.)")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_NUMBERS: Final = {"nan": math.nan, "inf": math.inf}
_CONSTANTS: Final[dict[str, AttrValue]] = {"True": True, "False": False, "None": None, **_NUMBERS}


T = TypeVar("T")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def from_text(text: str, kind: type[P]) -> P:
    """Return the program that the text describes, valid or not; raise JitfuseError naming the unreadable line."""
    parser = _Parser(_tokens(text), kind)
    try:
        program = parser.program()
    except RecursionError as error:
        raise JitfuseError("this program's text is nested too deeply") from error
    parser.skip_comments()
    if parser.peek().kind != "end":
        parser.fail("the end of the text")
    return program


def _unreadable(line: int, why: str) -> JitfuseError:
    return JitfuseError(f"line {line} of the program's text: {why}")


def _tokens(text: str) -> list[_Token]:
    tokens, line, at = [], 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(line, f"{text[at : at + 20]!r} is not part of its language")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    return [*tokens, _Token("end", "the end", line)]


def _unquoted(text: str) -> str:
    """Return the string of a Python string literal."""
    plain = _ESCAPE.sub(_escaped, text[1:-1])
    plain.encode()  # half of a surrogate pair is no character
    return plain


def _escaped(match: re.Match[str]) -> str:
    plain, *codes = match.groups()
    if plain:
        return _ESCAPED.get(plain, plain)
    if not any(codes):
        raise ValueError(f"{match.group()} stands for nothing")
    return chr(int("".join(c for c in codes if c), 16))


class _Parser(Generic[P]):
    """A recursive descent over the tokens, with one method for each rule of the grammar."""

    def __init__(self, tokens: list[_Token], kind: type[P]) -> None:
        self._tokens = tokens
        self._kind = kind
        self._at = 0

    # ------------------------------------------------------------ tokens
    def peek(self) -> _Token:
        return self._tokens[self._at]

    def fail(self, expected: str) -> NoReturn:
        token = self.peek()
        raise _unreadable(token.line, f"expected {expected}, found {reprlib.repr(token.text)}")

    def skip_comments(self) -> None:
        while self.peek().kind == "comment":
            self._at += 1

    def _take(self, kind: str, text: str | None = None) -> str:
        token = self.peek()
        if token.kind != kind or (text is not None and token.text != text):
            self.fail(repr(text) if text is not None else kind)
        self._at += 1
        return token.text

    def _accept(self, text: str) -> bool:
        token = self.peek()
        if token.text != text or token.kind not in ("mark", "word"):
            return False
        self._at += 1
        return True

    def _read(self, read: Callable[[str], T], kind: str) -> T:
        """Take a token of this kind and return its value, if it has one."""
        token = self.peek()
        text = self._take(kind)
        try:
            return read(text)
        except (ValueError, OverflowError) as error:
            raise _unreadable(token.line, f"{reprlib.repr(text)} is no {kind}: {error}") from error

    def _int(self) -> int:
        return self._read(int, "int")

    def _id(self) -> int:
        return self._read(lambda text: int(text[1:]), "id")

    def _string(self) -> str:
        return self._read(_unquoted, "string")

    def _once(self, known: Container[T], key: T, what: str) -> T:
        """Return a key that must not have occurred before."""
        if key in known:
            raise _unreadable(self.peek().line, f"{what} is said twice")
        return key

    # ------------------------------------------------------------ programs and lines
    def program(self) -> P:
        self.skip_comments()
        self._take("word", "program")
        version = self._int()
        if version != PROGRAM_VERSION:
            self.fail(f"a program of version {PROGRAM_VERSION} (this one has version {version}) before this")
        self._take("mark", "{")
        parts: dict[str, Any] = {
            "feeds": set(), "steps": [], "outputs": {}, "meta": {}, "feed_names": {}, "state_in": set(),
            "state_out": {}, "writes": {}, "sources": {},
        }
        while not self._accept("}"):
            if self.peek().kind == "comment":
                self._at += 1
            elif self.peek().kind == "id":
                self._step(parts)
            else:
                self._statement(parts)
        parts["feeds"], parts["state_in"] = frozenset(parts["feeds"]), frozenset(parts["state_in"])
        return self._kind(**{**parts, "steps": tuple(parts["steps"])}, version=version)

    def _statement(self, parts: dict[str, Any]) -> None:
        keyword = self.peek().text
        if keyword not in ("feed", "state", "return", "update", "write"):
            self.fail("feed, state, a step, return, update, write or '}'")
        self._take("word")
        if keyword == "return":
            path = self._once(parts["outputs"], self._string(), "this output")
            self._take("mark", ":")
            parts["outputs"][path] = self._id()
        elif keyword in ("update", "write"):
            known = parts["state_out" if keyword == "update" else "writes"]
            feed = self._once(known, self._id(), f"what this feed is to become by {keyword}")
            self._take("mark", "<-")
            known[feed] = self._id()
        else:
            feed = self._once(parts["feeds"], self._value_with_meta(parts), "this feed")
            parts["feeds"].add(feed)
            if keyword == "state":
                parts["state_in"].add(feed)
            if self.peek().kind == "string":
                parts["feed_names"][feed] = self._string()

    def _step(self, parts: dict[str, Any]) -> None:
        results = [self._value_with_meta(parts)]
        while self._accept(","):
            results.append(self._value_with_meta(parts))
        self._take("mark", "=")
        op_name = self._take("word")
        inputs, attrs = self._operands()
        self._take("mark", "{")
        self._take("word", "step")
        step_id = self._int()
        self._take("mark", ",")
        self._take("word", "level")
        level = self._int()
        mode = self._accept(",") and bool(self._take("word", "mode"))
        closing = self.peek()
        self._take("mark", "}")
        if self.peek().kind == "comment" and self.peek().line == closing.line:
            parts["sources"][step_id] = " ".join(self._take("comment")[1:].split())
        parts["steps"].append(OpStep(step_id, op_name, inputs, attrs, tuple(results), mode, level))

    def _operands(self) -> tuple[tuple[int, ...], tuple[tuple[str, AttrValue], ...]]:
        inputs: list[int] = []
        attrs: list[tuple[str, AttrValue]] = []
        self._take("mark", "(")
        while not self._accept(")"):
            if inputs or attrs:
                self._take("mark", ",")
            if self.peek().kind == "id" and not attrs:
                inputs.append(self._id())
            else:
                name = self._take("word")
                self._take("mark", "=")
                attrs.append((name, self._value()))
        return tuple(inputs), tuple(attrs)

    # ------------------------------------------------------------ metas and values
    def _value_with_meta(self, parts: dict[str, Any]) -> int:
        i: int = self._once(parts["meta"], self._id(), "the meta of this value")
        self._take("mark", ":")
        if not self._accept("?"):
            parts["meta"][i] = self._meta()
        return i

    def _meta(self) -> Meta:
        dtype = self._take("word")
        shape: list[int] = []
        self._take("mark", "[")
        while not self._accept("]"):
            if shape:
                self._take("mark", ",")
            shape.append(self._int())
        weak = self._accept("weak")
        device = "cpu"
        if self.peek().kind == "device":
            device = self._take("device")[1:]
        elif self._accept("@"):
            device = self._string()
        axes: Any = self._value() if self._accept("axes") else None
        if axes is not None and not (isinstance(axes, tuple) and all(isinstance(a, str) for a in axes)):
            self.fail("a tuple of axis names before this")
        return Meta(tuple(shape), dtype, device, weak, axes)

    def _value(self) -> AttrValue:
        token = self.peek()
        if token.kind == "int":
            return self._int()
        if token.kind == "float":
            return self._read(text_float if token.text.startswith("nan") else float, "float")
        if token.kind == "string":
            return self._string()
        if token.kind == "bytes":
            return bytes.fromhex(self._take("bytes")[2:-1])
        for word, constant in _CONSTANTS.items():
            if self._accept(word):
                return constant
        if token.text == "program":
            return self.program()
        if self._accept("complex"):
            return self._complex()
        if self._accept("("):
            items: list[AttrValue] = []
            while not self._accept(")"):
                items.append(self._value())
                if not self._accept(","):
                    self._take("mark", ")")
                    break
            return tuple(items)
        self.fail("a value")

    def _complex(self) -> complex:
        self._take("mark", "(")
        real = self._value()
        self._take("mark", ",")
        imaginary = self._value()
        self._take("mark", ")")
        if not isinstance(real, float) or not isinstance(imaginary, float):
            self.fail("two floats before this")
        return complex(real, imaginary)
