"""Readable machine code, through binutils' or LLVM's objdump: llvmlite has no disassembler.

Owns: calling the tool and naming the symbols of images. Does not own assembly that LLVM writes
(`jitfuse.backends.llvm.jit.assembly`), for which no tool is needed.
"""
from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

from jitfuse.backends.llvm.load.image import DAMAGED, decode, is_image
from jitfuse.errors import CompileError

_LINE: Final = re.compile(r"\s*([0-9a-f]+):")


MAX_CODE_BYTES: Final = 1 << 20
"""The most bytes of machine code that are shown: they become 10 to 20 times as many characters."""
_SECONDS: Final = 20
_HEADER: Final = re.compile(r"\A\s*\S+:\s+file format .*\s+")
"""objdump's header, which names the temporary file."""


def disassemble(code: bytes) -> str:
    """Return the machine code of an object or of an image as text, up to `MAX_CODE_BYTES`.

    The code is never run or compiled. Raises CompileError where no objdump is installed, and for bytes that are
    neither an object nor an image.
    """
    if not is_image(code):
        if len(code) > 8 * MAX_CODE_BYTES:
            raise CompileError(f"an object of {len(code):,} bytes is too long to be shown")
        return _HEADER.sub("", _objdump(("-d", "-r"), code))
    try:
        image = decode(code)
        labels = {at: name for name, at in image.exports if at < image.text_end}
        text = image.parts[0][: min(image.text_end, MAX_CODE_BYTES)]
    except DAMAGED as error:
        raise CompileError(f"the code is damaged: {error}") from None
    listing = _labelled(text, labels)
    cut = f"; cut after {MAX_CODE_BYTES:,} bytes\n" if len(text) < image.text_end else ""
    return listing + cut


def _labelled(text: bytes, labels: Mapping[int, str]) -> str:
    out = []
    for line in _HEADER.sub("", _objdump(("-D", "-b", "binary", "-m", "i386:x86-64"), text)).splitlines():
        found = _LINE.match(line)
        name = labels.get(int(found[1], 16)) if found else None
        out += [line] if name is None else ["", f"{int(found[1], 16) if found else 0:016x} <{name}>:", line]
    return "\n".join(out) + "\n"


def _objdump(options: Sequence[str], content: bytes) -> str:
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        raise CompileError("disassembly needs objdump (binutils or LLVM), and there is none on the path")
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(content)
        file.flush()
        try:
            done = subprocess.run(
                [tool, *options, "--no-show-raw-insn", file.name], check=False, capture_output=True,
                encoding="utf-8", errors="replace", timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CompileError(f"{tool} takes more than {_SECONDS} seconds") from None
    if done.returncode:
        raise CompileError(f"{tool} failed: {done.stderr.strip()}")
    return done.stdout
