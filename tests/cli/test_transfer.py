"""``jitfuse cache`` on archives and entries that somebody made to deceive or to exhaust; and on any terminal."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.cache import Entry, cache_key, compress_text, default_store
from jitfuse.cache.archive import read_archive, write_archive
from jitfuse.cache.inspect import find, walk
from jitfuse.cache.metadata import MOST_SHOWN, claimed
from jitfuse.cache.parts import describe, recorded_parts
from jitfuse.cli import main

FOREIGN_IR = 'define i64 @owned() { ret i64 7 }\nmodule asm "not from here"'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """An entry of this process, which is in no folder that a test looks at."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "elsewhere"))
        fused = jf.fuse(lambda x: np.sin(x) * 0.25 + x, name="model.wave")
        fused.warm(np.ones(5))
        (kernel,) = fused.kernels
        return kernel.entry


def printed(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> str:
    assert main(["cache", *command]) == code
    return capsys.readouterr().out


def imported(entry: Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    write_archive(str(tmp_path / "archive"), [entry], replace=True)
    assert main(["cache", "import", str(tmp_path / "archive"), "--json", *options]) in (0, 1)
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def said(entry: Entry, **changes: Any) -> Entry:
    return entry._replace(metadata={**entry.metadata, **changes})


# ---------------------------------------------------------------- archives
def test_listings_are_made_here_and_claims_are_marked(
    folder: Path, good: Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = said(
        good, ir=compress_text(FOREIGN_IR), forms="no such form", target="elsewhere", features="+none", compile_ms=-7,
        function="torch.load\x1b[2J", source="/etc/passwd:1", program="x" * (1 << 20), more="not asked for",
        versions={"llvm": "1"}, created=10**17,
    )
    assert imported(evil, tmp_path, capsys)["imported"] == 1
    info, held = find(default_store(), good.key)
    for name in ("ir", "forms", "target", "features", "versions", "kernels", "key_parts", "backend"):
        assert held.metadata[name] == good.metadata[name], name
    assert info.claimed == ("function", "program", "source") and info.compile_ms > 0 and "more" not in held.metadata
    assert abs(info.created - time.time()) < 600
    text = printed(capsys, "show", good.key)
    assert "torch.load\N{REPLACEMENT CHARACTER}[2J (says the archive)" in text
    assert "/etc/passwd:1 (says the archive)" in text and "for (says the archive)" in text
    assert "owned" not in text and "no such form" not in text and "(says the archive)" in printed(capsys, "list")
    assert len(text) < 200_000


def test_machine_code_never_comes_from_a_text(
    folder: Path, good: Entry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    default_store().store(said(good, ir=compress_text(FOREIGN_IR)))
    monkeypatch.setenv("PATH", "")
    text = printed(capsys, "show", good.key, "--only", "asm")
    assert "k0" in text and "kernel forms compile to" in text and "owned" not in text and "not from here" not in text
    held = find(default_store(), good.key)[1]
    from jitfuse.compile.rebuild import assembly

    assert "owned" not in assembly(held.canonical)


def test_what_is_believed_without_a_check_is_all_claims(
    folder: Path, good: Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(said(good, claimed=7), tmp_path, capsys, "--unchecked")["imported"] == 1
    text = printed(capsys, "show", good.key)
    assert text.count("(says the archive)") >= 8 and "LLVM IR (says the archive)" in text


@pytest.mark.parametrize(("old", "new", "rule"), [
    (b"'sin'", b"'system'", "rule 8"), (b"'float64', '1'", b"'float64', '1n1'", "rule 3"),
    (b"[None], 'inner'", b"[3000000], 'inner'", "rule 2"), (b"'lane_axis': 0", b"'lane_axis': 5", "rule 2"),
    (b"'sin', 'float64', [0]", b"'sin', 'float64', [77]", "rule 7"),
])
def test_forms_are_verified_before_llvm_sees_them(
    folder: Path, good: Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    old: bytes, new: bytes, rule: str,
) -> None:
    canonical = good.canonical.replace(old, new)
    assert canonical != good.canonical
    parts = {**(recorded_parts(good.metadata) or {}), "forms": canonical}
    evil = Entry(cache_key(parts), {**good.metadata, **describe(parts, "forms")}, canonical, good.code)
    monkeypatch.setattr("jitfuse.backends.llvm.jit.compile_text", None)
    report = imported(evil, tmp_path, capsys)
    assert report["imported"] == 0 and rule in report["refused"][0]


def test_a_key_that_says_another_part_is_its_form_is_refused(
    folder: Path, good: Entry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {**(recorded_parts(good.metadata) or {}), "more": good.canonical}
    evil = Entry(cache_key(parts), {**good.metadata, **describe(parts, "more")}, good.canonical, good.code)
    assert "not that of its content" in imported(evil, tmp_path, capsys)["refused"][0]


# ---------------------------------------------------------------- texts
@pytest.mark.parametrize("value", [
    None, True, -1, 10**4000, -1e300, float("nan"), float("inf"), 1 << 62, "x" * 100_000, "\x1b]0;t\x07", "\ud800",
    [[]], [1, None], {"zlib": "!"}, {"zlib": 7}, {"a": {"b": 1}}, compress_text("<" * (1 << 27)),
    compress_text("bool[" * 9_000),
])
def test_any_metadata_is_shown(
    folder: Path, good: Entry, capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    names = [*good.metadata, "claimed", "more"]
    for name in names:
        if name not in ("key_parts", "key_canonical"):
            default_store().store(said(good, **{name: value}))
            printed(capsys, "list")
    default_store().store(good._replace(metadata=dict.fromkeys(names, value)))
    begin = time.process_time()
    for command in (["list"], ["show", good.key], ["diff", good.key, good.key], ["stats"]):
        text = printed(capsys, *command)
        assert "\x1b" not in text and len(text) < 2 * MOST_SHOWN
    json.loads(printed(capsys, "show", good.key, "--json"), parse_constant=lambda name: pytest.fail(name))
    assert time.process_time() - begin < 60


def test_what_is_unpacked_is_bounded_and_said_to_be_cut(
    folder: Path, good: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    bomb = compress_text("<" * (1 << 26))
    default_store().store(said(good, ir=bomb, forms=bomb, program=bomb, wgsl=bomb))
    begin = time.process_time()
    text = printed(capsys, "show", good.key)
    assert MOST_SHOWN < len(text) < MOST_SHOWN + 100_000 and "(cut: more than 4,194,304 characters" in text
    document = json.loads(printed(capsys, "show", good.key, "--json"))
    assert set(document["cut"]) >= {"program", "forms", "ir", "wgsl"} and len(document["program"]) == MOST_SHOWN
    assert time.process_time() - begin < 30


# ---------------------------------------------------------------- compiled again
def test_verify_compiles_again(folder: Path, good: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {**(recorded_parts(good.metadata) or {}), "machine": ("elsewhere",), "forms": good.canonical}
    foreign = Entry(cache_key(parts), {**good.metadata, **describe(parts, "forms")}, good.canonical, good.code)
    for entry in (good, foreign):
        default_store().store(entry)
    assert "1 compiled again with the same code, 0 with another, 1 left out" in printed(capsys, "verify", "--recompile")
    default_store().store(good._replace(code=good.code[:-1] + b"\x90"))
    assert "0 damaged" in printed(capsys, "verify")
    text = printed(capsys, "verify", "--recompile", code=1)
    assert "1 with another" in text and "not what its kernel form compiles to" in text and good.key[:16] in text
    report = json.loads(printed(capsys, "verify", "--recompile", "--json", code=1))["recompiled"]
    assert (report["same"], report["foreign"], [row["key"] for row in report["different"]]) == (0, 1, [good.key])


# ---------------------------------------------------------------- terminals
ENCODINGS = (
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "utf-8"},
)


@pytest.mark.full
@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda e: next(iter(e.values())))
def test_every_encoding_takes_what_commands_print(
    tmp_path: Path, good: Entry, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + "/кэш-".encode() + b"\xff")
    monkeypatch.setenv("JITFUSE_CACHE_DIR", path)
    odd = said(good, function="модель.été\ud800", source="/tmp/\udcff.py:1", program="名前 = 1")
    default_store().store(odd)
    commands = (
        "cache list", "cache list --json", f"cache show {good.key}", "cache path", "cache stats", "cache verify",
        "cache path --json", f"cache diff {good.key} {good.key}", "cache show é", f"cache export {path}-é",
        f"cache import {path}-é", f"cache import {path}-no", "cache list --function été*", "cache clear --older-than é",
        "--help", "cache clear",
    )
    script = "import sys\nfrom jitfuse.cli import main\nfor command in sys.argv[1:]:\n" \
        "    try: print(main(command.split()))\n    except SystemExit as left: print(left.code)\n"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(os.fsencode, commands)], check=False, env={**os.environ, **environment},
        capture_output=True, timeout=PATIENCE,
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert b"list" in done.stdout


def test_references_to_imported_kernels_mark_what_the_archive_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "elsewhere"))
        fused = jf.fuse(lambda x, y: (np.sort(x * 0.375).sum(), np.cumsum(y) * 0.625 + y.max()), name="model.two")
        fused.warm(np.ones(7), np.ones((3, 5)))
        entry = max((kernel.entry for kernel in fused.kernels), key=lambda entry: entry.canonical.count(b"\0"))
    assert entry.canonical.count(b"\0")  # an object of several kernels
    assert imported(entry, tmp_path, capsys)["imported"] == 1
    found = [e for _, e in walk(default_store()) if e is not None and e.metadata.get("kind") == "reference"]
    assert found and all({"function", "source"} <= claimed(e.metadata) for e in found)
    assert "model.two (says the archive)" in printed(capsys, "show", found[0].key)


@pytest.mark.parametrize("metadata", [{f"!{k:05}": k for k in range(1001)}, {"x": "é" * (4 << 20)}])
def test_metadata_that_could_not_be_read_back_is_not_believed(
    folder: Path, tmp_path: Path, good: Entry, capsys: pytest.CaptureFixture[str], metadata: dict[str, Any]
) -> None:
    report = imported(said(good, **metadata), tmp_path, capsys, "--unchecked")
    assert report["imported"] == 0 and len(report["refused"]) == 1


def test_export_takes_what_the_filters_leave_of_all_folders(
    folder: Path, tmp_path: Path, good: Entry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(good, tmp_path, capsys)["imported"] == 1
    monkeypatch.setenv("JITFUSE_CACHE_PATH", f"{folder}:{tmp_path / 'other'}")
    assert imported(good, tmp_path, capsys)["present"] == 1
    assert main(["cache", "export", "--json", "--function", "model.*", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["keys"] == [good.key]
    assert [e.key for e in read_archive(str(tmp_path / "out")) if isinstance(e, Entry)] == [good.key]
