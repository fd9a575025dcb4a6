"""The loader against LLVM's own: same results, same errors, and no object, however damaged, that it crashes on."""
from __future__ import annotations

import ctypes
import gc
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import drawn

from jitfuse.backends.llvm import jit, loader
from jitfuse.backends.llvm.load import elf, image
from jitfuse.backends.llvm.runtime import native
from jitfuse.errors import CompileError

LOADERS = [pytest.param(jit.load, id="llvm")]
if loader.OWN_LOADER:
    LOADERS.append(pytest.param(loader.load, id="own"))
    LOADERS.append(pytest.param(lambda code, **options: loader.load(linked(code, **options)), id="image"))
own = pytest.mark.skipif(not loader.OWN_LOADER, reason="this system loads through LLVM")
Load = Callable[..., loader.Library]

EVERYTHING = """
@table = internal constant [16 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5, i32 9, i32 2, i32 6, i32 5, i32 3, i32 5,
    i32 8, i32 9, i32 7, i32 9, i32 3], align 64
@narrow = internal constant [3 x i8] c"abc", align 1
@counter = internal global i64 40
@zeros = internal global [1000 x i64] zeroinitializer, align 128
@seen = global i64 7
@far = internal constant [2 x ptr] [ptr @seen, ptr @double_it]

define internal i64 @double_it(i64 %x) noinline {
  %r = mul i64 %x, 2
  ret i64 %r
}
define i64 @table_at() {
  %r = ptrtoint ptr @table to i64
  ret i64 %r
}
define i64 @zeros_at() {
  %r = ptrtoint ptr @zeros to i64
  ret i64 %r
}
define i64 @look(i64 %k) {
  %at = getelementptr i32, ptr @table, i64 %k
  %v = load i32, ptr %at
  %w = zext i32 %v to i64
  %n = getelementptr i8, ptr @narrow, i64 1
  %c = load volatile i8, ptr %n
  %d = zext i8 %c to i64
  %s = mul i64 %d, 1000
  %r = add i64 %w, %s
  ret i64 %r
}
define i64 @count() {
  %a = load i64, ptr @counter
  %b = add i64 %a, 1
  store i64 %b, ptr @counter
  %z = getelementptr i64, ptr @zeros, i64 999
  %y = load i64, ptr %z
  %x = add i64 %y, %b
  store i64 %b, ptr %z
  ret i64 %x
}
define i64 @through_pointers(i64 %x) {
  %p = load volatile ptr, ptr @far
  %q = getelementptr ptr, ptr @far, i64 1
  %f = load volatile ptr, ptr %q
  %v = load i64, ptr %p
  %s = add i64 %v, %x
  %r = call i64 %f(i64 %s)
  ret i64 %r
}
define i64 @visible() {
  %r = load i64, ptr @seen
  ret i64 %r
}
define double @constants(double %x) {
  %a = fadd double %x, 0x400921FB54442D18
  %v = insertelement <8 x double> poison, double %a, i64 0
  %w = shufflevector <8 x double> %v, <8 x double> poison, <8 x i32> zeroinitializer
  %y = fmul <8 x double> %w, <double 1.0, double 2.0, double 3.0, double 4.0, double 5.0, double 6.0, double 7.0,
      double 8.0>
  %r = call double @llvm.vector.reduce.fadd.v8f64(double 0.0, <8 x double> %y)
  ret double %r
}
declare double @llvm.vector.reduce.fadd.v8f64(double, <8 x double>)
define i64 @choose(i64 %x) {
entry:
  switch i64 %x, label %other [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e ]
a: ret i64 17
b: ret i64 4
c: ret i64 99
d: ret i64 -5
e: ret i64 1000
other: ret i64 0
}
"""
IMPORTING = """
@_Py_NoneStruct = external global i8
declare i64 @strlen(ptr)
declare void @Py_IncRef(ptr)
define i64 @length(ptr %s) {
  %n = call i64 @strlen(ptr %s)
  %r = add i64 %n, 1
  ret i64 %r
}
define ptr @none() {
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
define ptr @which() {
  ret ptr @strlen
}
"""


def linked(code: bytes, **options: Any) -> bytes:
    """Return the image of an object."""
    made = loader.link(code, **options)
    assert image.is_image(made) and loader.link(code, **options) == made
    assert image.encode(image.decode(made)) == made
    return made


def call(
    library: loader.Library, name: str, *args: Any, result: Any = ctypes.c_int64, kind: Any = ctypes.c_int64
) -> Any:
    return ctypes.CFUNCTYPE(result, *[kind] * len(args))(library.address(name))(*args)


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("load", LOADERS)
def test_constants_data_pointers_and_calls(load: Load, level: int) -> None:
    library = load(jit.compile_text(EVERYTHING, level=level))
    assert library.names == set(re.findall(r"^define \w+ @(\w+)", EVERYTHING, re.M)) | {"seen"}
    assert call(library, "table_at") % 64 == 0
    assert call(library, "zeros_at") % 128 == 0
    assert [call(library, "look", k) for k in (0, 5, 15)] == [98003, 98009, 98003]
    assert [call(library, "count") for _ in range(3)] == [41, 83, 85]
    assert call(library, "through_pointers", 14) == 42
    ctypes.c_int64.from_address(library.address("seen")).value = -3
    assert call(library, "visible") == -3
    want = sum((1.5 + np.pi) * k for k in range(1, 9))
    assert call(library, "constants", 1.5, result=ctypes.c_double, kind=ctypes.c_double) == pytest.approx(want, 1e-15)
    assert [call(library, "choose", k) for k in range(-1, 6)] == [0, 17, 4, 99, -5, 1000, 0]
    with pytest.raises(KeyError):
        library.address("table")


@pytest.mark.parametrize("load", LOADERS)
def test_imports(load: Load) -> None:
    code = jit.compile_text(IMPORTING)
    with pytest.raises(CompileError, match="from outside: Py_IncRef, _Py_NoneStruct, strlen;"):
        load(code)
    library = load(code, allowed={"strlen", "Py_IncRef", "_Py_NoneStruct"})
    assert call(library, "length", b"hello", kind=ctypes.c_char_p) == 6
    assert call(library, "none", result=ctypes.py_object) is None
    which = call(library, "which")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(which)(b"abc") == 3


@pytest.mark.parametrize("load", LOADERS)
def test_symbol_that_the_process_lacks_is_an_error(load: Load) -> None:
    text = "declare i64 @jf_no_such()\ndefine i64 @f() {\n  %r = call i64 @jf_no_such()\n  ret i64 %r\n}\n"
    code = jit.compile_text(text)
    with pytest.raises(CompileError, match="no symbol 'jf_no_such'"):
        load(code, allowed={"jf_no_such"})


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("damage", ["empty", "text", "half", "header"])
def test_damaged_objects_are_errors(load: Load, damage: str) -> None:
    code = jit.compile_text(EVERYTHING)
    damaged = {
        "empty": b"", "text": b"not an object", "half": code[: len(code) // 2],
        "header": code[:40] + b"\xff" * 8 + code[48:],
    }[damage]
    with pytest.raises(CompileError):
        load(damaged)


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads mappings in /proc")
def test_dropped_code_is_unmapped(load: Load) -> None:
    code = jit.compile_text(EVERYTHING)
    load(code)
    gc.collect()
    before = mappings()
    libraries = [load(code) for _ in range(50)]
    assert before + 50 <= mappings() <= before + 50 * 4
    del libraries
    gc.collect()
    assert mappings() < before + 25


# ---------------------------------------------------------------------- this loader alone
@own
def test_pages_are_never_writable_and_executable() -> None:
    library = loader.load(jit.compile_text(EVERYTHING))

    def access(address: int) -> str:
        for line in Path("/proc/self/maps").read_text().splitlines():
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if begin <= address < end:
                return line.split()[1]
        raise AssertionError(hex(address))

    assert access(library.address("look")) == "r-xp"
    assert access(call(library, "table_at")) == "r-xp"  # constants lie behind the code
    assert access(call(library, "zeros_at")) == access(library.address("seen")) == "rw-p"


@pytest.mark.full
@own
def test_many_loads_and_drops_leave_nothing() -> None:
    code = jit.compile_text(EVERYTHING)

    def resident() -> int:
        return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) << 10

    def iterations(n: int) -> None:
        for _ in range(n):
            loader.load(code)

    iterations(500)
    before = mappings(), resident()
    iterations(9_500)
    assert mappings() < before[0] + 100
    assert resident() < before[1] + (8 << 20)  # a page of each would be 37 MiB; the system may join pages to huge ones


@own
def test_a_child_has_data_of_its_own() -> None:
    library = loader.load(jit.compile_text(EVERYTHING))
    assert call(library, "count") == 41
    code = f"""
import ctypes, os, warnings
warnings.simplefilter("ignore")
from jitfuse.backends.llvm import loader
library = loader.load({jit.compile_text(EVERYTHING)!r})
count = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("count"))
assert count() == 41
child = os.fork()
if child == 0:
    os._exit(0 if count() == 83 else 1)
assert os.waitpid(child, 0)[1] == 0
assert count() == 83
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@own
def test_the_runtime_loads_alike() -> None:
    code = jit.compile_text(native.runtime_text(), level=native.LEVEL)
    ours, llvms = loader.load(code, allowed=native.IMPORTS), jit.load(code, allowed=native.IMPORTS)
    assert ours.names == llvms.names
    name = next(name for name in sorted(ours.names) if name.endswith("limit"))
    values = [ctypes.c_int64.from_address(library.address(name)).value for library in (ours, llvms)]
    assert values[0] == values[1]


@own
def test_code_that_reads_an_import_beside_it_is_refused() -> None:
    code = jit.compile_text(
        "@far = external global i64\ndefine ptr @f() {\n  ret ptr @far\n}\ndefine i64 @g() {\n  ret i64 12345\n}\n"
    )
    changed = bytearray(code)
    table = next(s for s in elf.ObjectFile(code).sections if s.name == ".rela.text")
    for kind in (1, 2):  # its word, and how far it is
        struct.pack_into("<I", changed, table.offset + 8, kind)
        with pytest.raises(CompileError, match="is not loaded"):
            loader.link(bytes(changed), allowed={"far"})
    assert image.is_image(loader.link(code, allowed={"far"}))


@own
def test_images_hold_no_zeros_that_fill_up_pages() -> None:
    made = image.decode(loader.link(jit.compile_text(EVERYTHING)))
    assert made.end >= 3 * 4096 > 2 * 4096 > len(loader.link(jit.compile_text(EVERYTHING)))


@own
def test_code_and_its_constants_share_a_page() -> None:
    text = "define double @f(double %x) {\n  %y = fmul double %x, 1.0e10\n  ret double %y\n}\n"
    made = image.decode(loader.link(jit.compile_text(text)))
    assert made.end == made.code_end == 4096 and made.parts[1] == b""
    assert made.text_end < len(made.parts[0])


# ---------------------------------------------------------------------- damage
@own
def test_damaged_images_are_errors() -> None:
    made = linked(jit.compile_text(EVERYTHING))
    for damaged in (*(made[:n] for n in range(20, len(made), 7)), made[:14] + b"i\1\0\0\0", made[:14] + b"(\0\0\0\0"):
        with pytest.raises(CompileError, match="damaged image"):
            loader.load(damaged)


def fields(code: bytes) -> list[int]:
    """Return the offsets of the bytes that are structure: headers, symbols, relocations, names."""
    file = elf.ObjectFile(code)
    found = [*range(64), *range(len(code) - 64 * len(file.sections), len(code))]
    for section in file.sections:
        if section.kind in (elf.SYMTAB, 3, elf.RELA):
            found.extend(range(section.offset, section.offset + section.size))
    return found


def loads_or_refuses(code: bytes) -> bool:
    """Load without running; anything but success and CompileError is raised."""
    try:
        loader.load(code, allowed=native.IMPORTS)
    except CompileError:
        return False
    return True


@own
def test_flipped_bytes_and_cut_objects() -> None:
    dice = random.Random(7)
    for text in (EVERYTHING, IMPORTING):
        code = jit.compile_text(text)
        places = fields(code)
        outcomes = {True: 0, False: 0}
        for _ in range(drawn(3000, least=1500)):
            damaged = bytearray(code)
            for _ in range(dice.choice((1, 1, 2, 5))):
                damaged[dice.choice(places)] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            outcomes[loads_or_refuses(bytes(damaged))] += 1
        assert min(outcomes.values()) > 100 or text is IMPORTING
    code = jit.compile_text(EVERYTHING)
    assert not any(loads_or_refuses(code[:n]) for n in range(len(code)))


@own
def test_random_words_in_tables() -> None:
    """Whole fields, not bytes: sizes, offsets and numbers of 0, near limits, and beyond them."""
    dice = random.Random(8)
    code = jit.compile_text(EVERYTHING)
    file = elf.ObjectFile(code)
    table = len(code) - 64 * len(file.sections)
    words = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, len(code), len(code) - 1, 4096, 4097)
    starts = [table + 64 * k + 8 * j for k in range(1, len(file.sections)) for j in range(8)]
    for section in file.sections:
        if section.kind in (elf.RELA, elf.SYMTAB):
            starts += range(section.offset, section.offset + section.size, 8)
    for at in starts:
        for word in words:
            damaged = bytearray(code)
            struct.pack_into("<Q", damaged, at, word)
            if dice.random() < 0.3:
                struct.pack_into("<Q", damaged, dice.choice(starts), dice.choice(words))
            loads_or_refuses(bytes(damaged))


@own
@pytest.mark.parametrize(("kind", "addend", "why"), [
    (2, 2**40, "out of reach"), (4, -(2**40), "out of reach"), (9, 2**33, "out of reach"),
    (3, 0, "type 3 is unknown"), (8, 0, "type 8 is unknown"), (10, 0, "type 10 is unknown"),
    (11, 0, "type 11 is unknown"),
])
def test_relocations_that_do_not_fit_are_errors(kind: int, addend: int, why: str) -> None:
    code = bytearray(jit.compile_text(EVERYTHING))
    table = next(s for s in elf.ObjectFile(bytes(code)).sections if s.name == ".rela.text")
    struct.pack_into("<I", code, table.offset + 8, kind)
    struct.pack_into("<q", code, table.offset + 16, addend)
    with pytest.raises(CompileError, match=why):
        loader.load(bytes(code))


@own
@pytest.mark.parametrize(("text", "why"), [
    ("@t = thread_local global i64 1\n", "flags 0x403"),
    ("define internal void @f() {\n  ret void\n}\n"
     "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]\n",
     "ctors"),
])
def test_what_has_no_loader_is_refused(text: str, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        loader.load(jit.compile_text(text))


@own
def test_objects_for_other_machines_are_refused() -> None:
    code = bytearray(jit.compile_text(EVERYTHING))
    struct.pack_into("<H", code, 18, 183)
    with pytest.raises(CompileError, match="machine 183"):
        loader.load(bytes(code))


def test_other_systems_load_through_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "OWN_LOADER", False)
    library = loader.load(jit.compile_text(EVERYTHING))
    assert isinstance(library, jit.JitLibrary)
    assert call(library, "choose", 2) == 99
