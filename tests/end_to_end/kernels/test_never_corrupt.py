"""The cache is never corrupt and never fatal: whatever happens to its folder, calls give right results.

Whole calls, through real kernels; the store alone is tested in tests/cache. A damaged entry is a miss, compiled
again and repaired, said at most once. JITFUSE_TEST_SCALE multiplies samples, processes and killed writers.
"""
from __future__ import annotations

import json
import marshal
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE, drawn, extended

import jitfuse as jf
from jitfuse.cache import Entry, Store, notices
from jitfuse.cache.entry import EntryError, decode, encode
from jitfuse.cache.inspect import verify
from jitfuse.cache.location import Layers
from jitfuse.cache.sources import package_root
from jitfuse.compile.interface import native_runtime
from jitfuse.errors import CacheWarning

X = np.linspace(-3.0, 3.0, 1001)


def first(x: Any) -> Any:
    return np.exp(-x * x) * 0.4375 + x


def second(x: Any) -> Any:
    return np.cumsum(np.abs(x)) - x * 0.3125


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder; the warnings of one cause count from zero."""
    native_runtime()  # its own object lies elsewhere
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "cache"))
    notices.forget()
    yield tmp_path / "cache"
    notices.forget()


@contextmanager
def said_at_most(times: int) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    assert all(w.category is CacheWarning for w in said) and len(said) <= times, [str(w.message) for w in said]


def call(function: Callable[[Any], Any] = first) -> dict[str, int]:
    """Call a function as a new process would, for its object dies with the caller; check it and return the counts."""
    fused = jf.fuse(function)
    np.testing.assert_allclose(fused(X), function(X), rtol=1e-13, atol=1e-13)
    stats: dict[str, int] = fused.stats()
    assert stats["fallbacks"] == 0 and stats["compiles"] + stats["cache_hits"] == 1
    return stats


def entries(folder: Path, kind: str | None = None) -> list[Path]:
    """Return the files of a kind: objects where it is None."""
    files = sorted(folder.glob("*.jfc"))
    return [path for path in files if decode(path.read_bytes(), path.stem).metadata.get("kind") == kind]


def entry_of(folder: Path, function: Callable[[Any], Any], kind: str | None = None) -> Path:
    before = set(entries(folder, kind))
    assert call(function)["compiles"] == 1
    (made,) = set(entries(folder, kind)) - before
    return made


def damaged(data: bytes) -> Iterator[bytes]:
    """Yield samples of damage: lengths, flipped bytes, the borders of everything, what is no entry at all."""
    dice = random.Random(11)
    borders = (0, 1, 8, 12, 20, 52, 84, 104, len(data) - 1)
    yield from (data[:n] for n in (*borders, *(dice.randrange(len(data)) for _ in range(drawn(4)))))
    for at in (*borders, *(dice.randrange(len(data)) for _ in range(drawn(12)))):
        yield data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1:]
    yield from (data + b"\0", bytes(len(data)), data[::-1], data * 2, b"\x80\x04N.", b"{}", data[104:])


def test_damaged_entries_are_compiled_again_and_repaired(folder: Path) -> None:
    path = entry_of(folder, first)
    data = path.read_bytes()
    with said_at_most(1):
        for sample in damaged(data):
            path.write_bytes(sample)
            assert call()["compiles"] == 1
            assert call()["cache_hits"] == 1, "the next writer repairs it"
    assert verify(Store(Layers((), str(folder)))).damaged == ()


def test_the_reader_finds_every_flipped_bit_and_every_length_of_a_real_entry(folder: Path) -> None:
    path = entry_of(folder, first)
    data, key = path.read_bytes(), path.stem
    assert decode(data, key).code
    flips = (1, 2, 4, 8, 16, 32, 64, 128) if extended() else (1,)
    for at in range(len(data)):
        for flip in flips:
            with pytest.raises(EntryError):
                decode(data[:at] + bytes([data[at] ^ flip]) + data[at + 1:], key)
        with pytest.raises(EntryError):
            decode(data[:at], key)


def test_entries_swapped_between_names(folder: Path) -> None:
    one, two = entry_of(folder, first), entry_of(folder, second)
    contents = one.read_bytes(), two.read_bytes()
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    with said_at_most(1):
        assert call(first)["compiles"] == call(second)["compiles"] == 1
    assert call(first)["cache_hits"] == call(second)["cache_hits"] == 1


@pytest.mark.parametrize("code", [b"", b"no object", b"\x7fELF" + bytes(200), None])
def test_whole_entries_of_code_that_does_not_load(folder: Path, code: bytes | None) -> None:
    """What the checksum cannot find: a writer whose memory was damaged. None: the object of another function."""
    path = entry_of(folder, first)
    entry = decode(path.read_bytes(), path.stem)
    if code is None:
        other = entry_of(folder, second)
        code = decode(other.read_bytes(), other.stem).code.replace(b"k0", b"q0")
    path.write_bytes(encode(Entry(entry.key, {"compile_ms": "soon", "ir": 3}, entry.canonical, code)))
    with said_at_most(1):
        assert call()["compiles"] == 1
    assert call()["cache_hits"] == 1


@pytest.mark.parametrize("code", [
    b"", b"no plan", b"\x80\x04N.", marshal.dumps(None), marshal.dumps((1, 2)), marshal.dumps(("x", b"", b"")),
    marshal.dumps((None, b"", marshal.dumps((None,) * 8))), marshal.dumps(((), (), marshal.dumps(((),) * 7))),
    marshal.dumps(((("0" * 64, b""),), ((0, 0),), marshal.dumps(((), (), (), (), (), (), 0, ())))), None,
])
def test_whole_entries_that_are_no_plans(folder: Path, code: bytes | None) -> None:
    path = entry_of(folder, first, "plan")
    entry = decode(path.read_bytes(), path.stem)
    path.write_bytes(encode(entry._replace(code=entry.code[: len(entry.code) // 2] if code is None else code)))
    with said_at_most(1):
        assert call()["cache_hits"] == 1, "the kernels are there"
    assert decode(path.read_bytes(), path.stem).code == entry.code, "written anew"


def test_damaged_plans_are_made_again(folder: Path) -> None:
    path = entry_of(folder, first, "plan")
    data = path.read_bytes()
    with said_at_most(1):
        for sample in damaged(data):
            path.write_bytes(sample)
            assert call()["cache_hits"] == 1
            assert decode(path.read_bytes(), path.stem).code == decode(data, path.stem).code


def test_metadata_is_for_people_only(folder: Path) -> None:
    path = entry_of(folder, first)
    entry = decode(path.read_bytes(), path.stem)
    for metadata in ({}, {"compile_ms": None, "ir": [], "kernels": "k0"}):
        path.write_bytes(encode(entry._replace(metadata=metadata)))
        fused = jf.fuse(first)
        np.testing.assert_allclose(fused(X), first(X), rtol=1e-13)
        (kernel,) = fused.kernels
        assert kernel.from_cache and kernel.compile_ms == 0.0 and kernel.source == ""


@pytest.mark.full
def test_a_runtime_object_that_does_not_load_is_compiled_again(folder: Path) -> None:
    for sample in (None, b"", b"jitfuse image\0", b"\x7fELF" + bytes(100)):
        if sample is not None:
            (path,) = (p for p in entries(folder) if b'"function":"jitfuse runtime"' in p.read_bytes())
            entry = decode(path.read_bytes(), path.stem)
            path.write_bytes(encode(entry._replace(code=sample)))
        with_runtime = run_cold(folder, 1, kinds=0, said="default")
        assert with_runtime == [{"compiles": 1, "cache_hits": 0, "cache_misses": 0}]
    assert verify(Store(Layers((), str(folder)))).damaged == ()


# ---------------------------------------------------------------------- the folder, while the process runs
def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def replace_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine")


def open_to_others(folder: Path) -> None:
    folder.chmod(0o777)


def replace_by_a_circle(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder)


def set_clocks_forward(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (time.time() + 1e8,) * 2)


@pytest.mark.parametrize("trouble", [
    delete, replace_by_a_file, open_to_others, replace_by_a_circle, set_clocks_forward,
])
def test_trouble_while_the_process_runs(folder: Path, trouble: Callable[[Path], None]) -> None:
    call(first), call(second)
    running = jf.fuse(lambda x: np.tan(x * 0.125) - x)
    running(X)
    trouble(folder)
    with said_at_most(2):  # reading and writing are two causes
        for function in (first, second, first, second):
            call(function)
    np.testing.assert_allclose(running(X), np.tan(X * 0.125) - X, rtol=1e-13)
    assert call(second)["cache_hits"] == 1, "the memory of the process serves where the folder does not"


@pytest.mark.parametrize("place", ["file/cache", "relative/cache", "~nobody-of-this-name/cache", "x" * 5000, "circle"])
def test_folders_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    native_runtime()
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "gone").mkdir()
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.chdir(tmp_path / "gone" if place.startswith("relative") else tmp_path)
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("JITFUSE_CACHE_DIR", place)
    notices.forget()
    with said_at_most(1):
        assert call(first)["compiles"] == 1 and call(first)["cache_hits"] == 1


def test_a_full_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native_runtime()
    mounted = tmp_path / "small"
    mounted.mkdir(0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k,mode=700", "tmpfs", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(mounted))
        notices.forget()
        with said_at_most(1):
            for function in (first, second, first, second):
                call(function)
        assert all(path.suffix == ".jfc" for path in mounted.iterdir()), "what did not fit is gone"
        assert verify(Store(Layers((), str(mounted)))).damaged == ()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


# ---------------------------------------------------------------------- many processes
COLD = """
import json, sys, time, warnings
import numpy as np
import jitfuse as jf
x, begin, kinds = np.linspace(-3, 3, 257), float(sys.argv[1]), int(sys.argv[2])
def repeated(k, function):
    def run(x):
        for _ in range(k + 1):
            x = function(x)
        return x
    return run
functions = [lambda x: np.sqrt(x * x + 0.75), lambda x: x / (x * x).sum() - 0.25, lambda x: np.cumsum(x) * 0.125]
if len(sys.argv) > 3:
    print("ready", flush=True)
while time.time() < begin:
    pass
total = {"compiles": 0, "cache_hits": 0, "cache_misses": 0}
for turn in range(kinds):
    for k in range(4):
        f = repeated(k, functions[turn])
        fused = jf.fuse(f)
        np.testing.assert_allclose(fused(x), f(x), rtol=1e-12, atol=1e-12)
        stats = fused.stats()
        assert stats["fallbacks"] == 0
        for name in total:
            total[name] += stats[name]
from jitfuse.compile.interface import native_runtime, totals
native_runtime()
print(json.dumps({**total, "compiles": totals().compiles}))
"""


def start(folder: Path, begin: float, kinds: int, *more: str, said: str = "error") -> subprocess.Popen[str]:
    environment = {
        **os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder), "JITFUSE_NUM_THREADS": "1",
        "PYTHONPATH": os.path.dirname(package_root()), "PYTHONHASHSEED": "random",
    }
    command = [sys.executable, "-W", said, "-c", COLD, str(begin), str(kinds), *more]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_cold(folder: Path, processes: int, kinds: int = 3, said: str = "error") -> list[dict[str, int]]:
    """Run the programs in processes that start at once; return their counts."""
    begin = time.time() + (0.0 if processes == 1 else 1.0 + 0.1 * processes)
    running = [start(folder, begin, kinds, said=said) for _ in range(processes)]
    found = []
    for process in running:
        out, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        found.append(json.loads(out))
    return found


@pytest.mark.full
def test_many_processes_cold_on_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by" / "all"
    found = run_cold(folder, min(32, drawn(4, least=3)))
    assert all(counts["cache_hits"] + counts["cache_misses"] == 12 for counts in found)
    assert sum(counts["compiles"] for counts in found) >= 13
    report = verify(Store(Layers((), str(folder))))
    assert report.damaged == () and report.checked in (25, 26)  # 12 of two kinds, the runtime, the sources
    assert not list(folder.glob(".jfc-*")), "temporary files are left"
    (warm,) = run_cold(folder, 1)
    assert warm == {"compiles": 0, "cache_hits": 12, "cache_misses": 0}


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill")
def test_compiling_processes_killed_at_random_moments(tmp_path: Path) -> None:
    folder, dice = tmp_path / "cache", random.Random(5)
    run_cold(folder, 1, kinds=0)  # the runtime, so that the killed ones get to their kernels
    for _ in range(drawn(3)):
        process = start(folder, 0.0, 3, "say when")
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(dice.random() * 0.5)
        process.kill()
        process.communicate()
        assert verify(Store(Layers((), str(folder)))).damaged == ()
        for path in random.Random(dice.random()).sample(entries(folder), min(3, len(entries(folder)))):
            if b'"function":"jitfuse runtime"' not in path.read_bytes():
                path.unlink()  # so that there is something to write again
    (after,) = run_cold(folder, 1)
    assert after["cache_hits"] + after["cache_misses"] == 12
