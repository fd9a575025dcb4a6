"""Machine code as people read it, through binutils' or LLVM's objdump: llvmlite has no disassembler.

Owns calling the tool and naming the symbols of images. Does not own assembly that LLVM writes
(`jitfuse.backends.llvm.jit.assembly`), for which no tool is needed.
"""
from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Final

from jitfuse.backends.llvm.image import decode, is_image
from jitfuse.errors import CompileError

_LINE: Final = re.compile(r"\s*([0-9a-f]+):")


def disassemble(code: bytes) -> str:
    """Return the machine code of an object or of an image as text; CompileError where no objdump is installed."""
    if not is_image(code):
        return _objdump(("-d", "-r"), code)
    image = decode(code)
    labels = {at: name for name, at in image.exports if at < image.text_end}
    text = image.parts[0][: image.text_end]
    out = []
    for line in _objdump(("-D", "-b", "binary", "-m", "i386:x86-64"), text).splitlines():
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
        done = subprocess.run(
            [tool, *options, "--no-show-raw-insn", file.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise CompileError(f"{tool} failed: {done.stderr.strip()}")
    return done.stdout
