"""FusedProgram: the one source of truth for what a fused function computes.

Owns a program's identity (canonical bytes, hash, equality), how it is pickled, and the methods that write it and read
it back, all thin. Also the place from which tracing, passes and all that comes after them import the parts of a
program. Does not own what these are (`jitfuse.ir.schema`), the rules of a valid program (`jitfuse.ir.analysis.verify`),
nor any format (`jitfuse.ir.formats`).
"""
from __future__ import annotations

from collections.abc import Callable

from jitfuse.base.later import Later
from jitfuse.base.lazy import cached_property
from jitfuse.ir.schema import PROGRAM_VERSION, RANDOM_STATE, Attrs, AttrValue, Meta, OpStep, ProgramData, make_attrs

verify = Later("jitfuse.ir.analysis.verify")
decoding = Later("jitfuse.ir.formats.decoding")
encoding = Later("jitfuse.ir.formats.encoding")
messagepack = Later("jitfuse.ir.formats.messagepack")
parse = Later("jitfuse.ir.formats.parse")
picture = Later("jitfuse.ir.formats.picture")
text = Later("jitfuse.ir.formats.text")

__all__ = ["PROGRAM_VERSION", "RANDOM_STATE", "AttrValue", "Attrs", "FusedProgram", "Meta", "OpStep", "make_attrs"]


class FusedProgram(ProgramData, frozen=True, eq=False):
    """A scheduled, self-contained program over AbstractTensor methods, for evaluation and training alike.

    Its fields are those of `ProgramData`. The methods that read one raise JitfuseError where the input is foreign,
    damaged or of another version, and VerifyError where the program is not valid; ``check=False`` allows that.
    """

    @cached_property
    def canonical_bytes(self) -> bytes:
        """The program as canonical JSON: equal programs give equal bytes in every process."""
        return encoding.canonical_bytes(self)

    @cached_property
    def content_hash(self) -> str:
        """The sha256 of the canonical bytes, in hexadecimal."""
        import hashlib  # loads OpenSSL, which takes as long as the rest of a warm call

        return hashlib.sha256(self.canonical_bytes).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FusedProgram):
            return NotImplemented
        return self is other or self.canonical_bytes == other.canonical_bytes

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __str__(self) -> str:
        return text.to_text(self)

    @staticmethod
    def from_text(text: str, *, check: bool = True) -> FusedProgram:
        """Return the program that `str` wrote."""
        return _checked(parse.from_text(text, FusedProgram), check)

    def to_svg(self) -> str:
        """Return a picture of the program, its steps in layers, as a self-contained SVG document."""
        return picture.program_svg(self)

    _repr_svg_ = to_svg  # what notebooks show

    def to_json(self) -> str:
        """Return the program as JSON text with its version; `from_json` gives back an equal program."""
        return encoding.to_json(self)

    @staticmethod
    def from_json(text: str, *, check: bool = True) -> FusedProgram:
        """Return the program that `to_json` wrote."""
        return _checked(decoding.from_json(text, FusedProgram), check)

    def to_messagepack(self) -> bytes:
        """Return the program as MessagePack with its version; `from_messagepack` gives back an equal program."""
        return messagepack.to_messagepack(self)

    @staticmethod
    def from_messagepack(data: bytes, *, check: bool = True) -> FusedProgram:
        """Return the program that `to_messagepack` wrote."""
        return _checked(messagepack.from_messagepack(data, FusedProgram), check)

    def __reduce__(self) -> tuple[Callable[[str], FusedProgram], tuple[str]]:
        return _unpickled, (self.to_json(),)


def _checked(program: FusedProgram, check: bool) -> FusedProgram:
    """Return a program that was read; raise VerifyError if `check` is set and it is not valid."""
    if check:
        verify.verify(program)
    return program


def _unpickled(text: str) -> FusedProgram:
    """Return the program in a pickle, which holds its document; unpickling means trusting it."""
    return FusedProgram.from_json(text, check=False)
