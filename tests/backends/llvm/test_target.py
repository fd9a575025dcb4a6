from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitfuse.backends.llvm import loader, target
from jitfuse.backends.llvm.jit import host_target
from jitfuse.errors import CompileError

PRINT = "import sys; from jitfuse.backends.llvm.target import machine_identity; print(machine_identity())"
own = pytest.mark.skipif(not loader.OWN_LOADER, reason="this system asks LLVM")


@pytest.fixture
def fresh() -> Iterator[None]:
    target.machine_identity.cache_clear()
    yield
    target.machine_identity.cache_clear()


def said() -> int:
    """What CPUID says, as the identity has it."""
    return int(next(word for word in target.machine_identity() if word.startswith("cpuid:")).split(":")[1], 16)


def register(leaf: int, subleaf: int, position: int) -> int:
    """One of the four registers of a leaf."""
    row = next(k for k, (*asked, _) in enumerate(target._LEAVES) if asked == [leaf, subleaf])
    return said() >> 128 * row + 32 * position & 0xFFFFFFFF


@pytest.mark.full
def test_identity_is_the_same_in_another_process_and_on_every_core() -> None:
    code = PRINT + f"\nassert {not loader.OWN_LOADER} or 'llvmlite' not in sys.modules"
    for core in sorted(os.sched_getaffinity(0))[:4] if hasattr(os, "sched_setaffinity") else (0,):
        pin = f"import os; os.sched_setaffinity(0, [{core}])\n" if hasattr(os, "sched_setaffinity") else ""
        done = subprocess.run([sys.executable, "-c", pin + code], capture_output=True, text=True, check=False)
        assert done.stdout == f"{target.machine_identity()}\n", done.stderr


@own
def test_registers_agree_with_what_llvm_sees() -> None:
    """Bits of Intel's manual, volume 2, CPUID, and AMD's volume 3, appendix E."""
    features = dict.fromkeys(host_target().features.split(","), True)
    last = register(0x0, 0, 0), register(0x80000000, 0, 0)

    def bit(leaf: int, subleaf: int, position: int, number: int) -> bool:
        return leaf <= last[leaf >> 31] and bool(register(leaf, subleaf, position) >> number & 1)

    assert bit(0x1, 0, 2, 12) == ("+fma" in features)
    assert bit(0x1, 0, 2, 23) == ("+popcnt" in features)
    assert bit(0x7, 0, 1, 5) == ("+avx2" in features)
    assert bit(0x7, 0, 1, 16) == ("+avx512f" in features)
    assert bit(0x7, 0, 2, 7) == ("+shstk" in features)
    assert bit(0x7, 1, 0, 4) == ("+avxvnni" in features)
    assert bit(0x80000001, 0, 2, 5) == ("+lzcnt" in features)
    assert bit(0x80000008, 0, 1, 0) == ("+clzero" in features)
    if "+avx" in features:
        assert said() >> 128 * len(target._LEAVES) & 6 == 6


@own
@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads /proc/cpuinfo")
def test_vendor_agrees_with_the_kernel() -> None:
    b, c, d = (register(0x0, 0, position).to_bytes(4, "little") for position in (1, 2, 3))
    assert f": {(b + d + c).decode()}\n" in Path("/proc/cpuinfo").read_text()


def test_another_llvmlite_is_another_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: None) -> None:
    mine = target.machine_identity()
    (tmp_path / "llvmlite" / "binding").mkdir(parents=True)
    (tmp_path / "llvmlite" / "__init__.py").write_text("__version__ = '9'\n")
    (tmp_path / "llvmlite" / "binding" / "libllvmlite.so").write_bytes(b"12345")
    version = tmp_path / "llvmlite" / "_version.py"
    monkeypatch.syspath_prepend(tmp_path)
    seen = {mine}
    for text in ("version_version = '9'\nversion_full = 'a'\n", "version_version = '9'\nversion_full = 'b'\r\n"):
        version.write_text(text)
        target.machine_identity.cache_clear()
        seen.add(target.machine_identity())
    assert len(seen) == 3
    assert target.machine_identity()[-4:] == ("llvmlite", "9", "b", "5")


def test_without_llvmlite_there_is_no_native_code(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(target, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="pip install llvmlite"):
        target.machine_identity()


@own
def test_processor_says_the_same_each_time() -> None:
    assert len({target._processor() for _ in range(20)}) == 1


@own
def test_the_core_that_answers_and_leaves_beyond_the_last_say_nothing() -> None:
    assert register(0x1, 0, 1) == 0  # its number
    last = register(0x80000000, 0, 0)
    assert last >= 0x80000001  # long mode
    for leaf, subleaf, _ in target._LEAVES:
        if leaf > max(last, 0x80000000):
            assert not any(register(leaf, subleaf, position) for position in range(4))
