from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.backends.llvm import disassembly, jit
from jitfuse.backends.llvm.load.elf import object_symbols
from jitfuse.backends.llvm.loader import link
from jitfuse.backends.llvm.text.builder import Module, Value
from jitfuse.errors import CompileError


def multiply_text(factor: int, name: str = "f") -> str:
    module = Module()
    f = module.function(name, "i64", [("x", "i64")])
    f.ret(f.mul(f.args[0], f.const("i64", factor)))
    return module.text()


def call(library: jit.JitLibrary, name: str, x: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address(name))(x))


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, **environment}, check=False,
    )


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_compiled_text_runs(level: int) -> None:
    library = jit.load(jit.compile_text(multiply_text(3), level=level))
    assert call(library, "f", -7) == -21
    assert library.names == {"f"}
    with pytest.raises(KeyError):
        library.address("g")


def test_same_text_gives_same_object() -> None:
    assert jit.compile_text(multiply_text(5)) == jit.compile_text(multiply_text(5))


def test_host_target_agrees_with_the_kernel() -> None:
    target = jit.host_target()
    info = Path("/proc/cpuinfo")
    if info.exists() and target.triple.startswith("x86_64"):
        flags = info.read_text().split("flags", 1)[1].split("\n", 1)[0].split()
        assert target.has_fma == ("fma" in flags)
        assert target.vector_bytes == (64 if "avx512f" in flags else 32 if "avx2" in flags else 16)


def test_bytes_are_shuffled_without_sse4a() -> None:
    def f(chosen: Any, x: Any, y: Any) -> Any:
        return np.where(chosen[:, :1], x, y) + np.where(chosen[:, 2:], y, x)

    x = np.ones((2000, 3))
    fused = jf.fuse(f)
    fused(x > 0, x, x)
    assert "-sse4a" in jit.host_target().features.split(",") or not jit.host_target().triple.startswith("x86_64")
    assert all("insertq" not in str(kernel.asm) for kernel in fused.kernels)


def test_parse_error_shows_the_line() -> None:
    with pytest.raises(CompileError) as caught:
        jit.compile_text(multiply_text(3).replace("mul", "mull"))
    assert "expected instruction opcode" in str(caught.value)
    assert "| " in str(caught.value) and "mull i64 %x, 3" in str(caught.value)


def test_debug_mode_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define i64 @f(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 2\n" \
           "  br label %b\nb:\n  ret i64 %x\n}\n"
    monkeypatch.setenv("JITFUSE_DEBUG", "1")
    with pytest.raises(CompileError, match="does not dominate"):
        jit.compile_text(text)


def test_undefined_symbols_are_refused_unless_allowed() -> None:
    module = Module()
    f = module.function("f", "i64", [("s", "ptr")])
    f.ret(f.call("strlen", "i64", f.args))
    code = jit.compile_text(module.text())
    assert object_symbols(code).undefined == {"strlen"}
    with pytest.raises(CompileError, match="strlen"):
        jit.load(code)
    library = jit.load(code, allowed={"strlen"})
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(library.address("f"))(b"hello") == 5


def test_vector_frem_is_seen_as_a_library_call() -> None:
    text = "define <4 x float> @f(<4 x float> %x, <4 x float> %y) {\n  %r = frem <4 x float> %x, %y\n" \
           "  ret <4 x float> %r\n}\n"
    with pytest.raises(CompileError, match="fmodf"):
        jit.load(jit.compile_text(text))


def test_plain_loops_over_bytes_stay_loops() -> None:
    module = Module()
    params = [("p", "ptr"), ("q", "ptr"), ("n", "i64")]
    f = module.function("f", "void", params, attributes=jit.KERNEL_ATTRIBUTES)
    p, q, n = f.args
    with f.loop(Value("0", "i64"), n) as loop:
        f.store(f.const("i8", 0), f.offset(p, loop.index))
    with f.loop(Value("0", "i64"), n) as loop:
        f.store(f.load("i8", f.offset(q, loop.index)), f.offset(p, loop.index))
    f.ret()
    assert object_symbols(jit.compile_text(module.text(), level=2)).undefined == frozenset()


def test_inspection_helpers() -> None:
    text = "define i64 @f(i64 %x) {\n  %a = add i64 %x, 1\n  %b = sub i64 %a, 1\n  ret i64 %b\n}\n"
    assert "f:" in jit.assembly(text) and "ret" in jit.assembly(text)


def test_disassembly_needs_objdump(monkeypatch: pytest.MonkeyPatch) -> None:
    code = jit.compile_text(multiply_text(3))
    for stored in (code, link(code)):
        try:
            listing = disassembly.disassemble(stored)
            assert "<f>:" in listing and "ret" in listing.partition("<f>:")[2]
        except CompileError as error:
            assert "objdump" in str(error)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompileError, match="objdump"):
        disassembly.disassemble(code)


def test_many_threads_compile_load_and_drop(in_threads: Any) -> None:
    def work(k: int) -> None:
        for i in range(3):
            library = jit.load(jit.compile_text(multiply_text(k + i)))
            assert call(library, "f", 7) == 7 * (k + i), (k, i)

    in_threads(16, work)


def test_loading_starts_no_code_generator(tmp_path: Path) -> None:
    path = tmp_path / "f.o"
    path.write_bytes(jit.compile_text(multiply_text(3)))
    code = (
        "import ctypes; from jitfuse.backends.llvm import jit\n"
        f"library = jit.load(open({str(path)!r}, 'rb').read())\n"
        "assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address('f'))(14) == 42\n"
        "assert not jit._engine._machines\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_importing_starts_nothing() -> None:
    done = run_python("import sys, jitfuse.backends.llvm.jit; assert 'llvmlite.binding' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_inline_assembly_compiles() -> None:
    if jit.host_target().triple.startswith("x86_64"):
        text = 'define i64 @f(i64 %x) {\n  %r = call i64 asm "bswap $0", "=r,0"(i64 %x)\n  ret i64 %r\n}\n'
        library = jit.load(jit.compile_text(text))
        assert call(library, "f", 1) == 1 << 56


@pytest.mark.full
def test_fork_while_another_thread_compiles() -> None:
    code = f"""
import os, threading, warnings
warnings.simplefilter("ignore")
import jitfuse as jf
from jitfuse.backends.llvm import disassembly, jit
text = {multiply_text(3)!r}
stop = threading.Event()
def work():
    while not stop.is_set():
        jit.compile_text(text)
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        jit.load(jit.compile_text(text))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
