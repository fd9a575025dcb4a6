"""The command line: what it prints, its exit codes, and that looking at the cache starts neither LLVM nor rich."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jitfuse
from jitfuse.cache import Entry, cache_key, compress_text, default_store
from jitfuse.cli import main

KEY = cache_key({"test": "cli"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def filled(folder: Path) -> Path:
    """The folder with one entry in it."""
    metadata = {
        "function": "module.brighten", "source": "module.py:7", "backend": "llvm", "target": "znver5",
        "created": 1_700_000_000.0, "compile_ms": 3.25, "kernels": ["k0"], "program": compress_text("program 1 {}"),
        "ir": compress_text("define i64 @k0()"),
    }
    assert default_store().store(Entry(KEY, metadata, b"canonical", b"code"))
    return folder


def printed(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> str:
    assert main(command) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["--help"]])
def test_alone_it_prints_what_it_can_do(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "jitfuse", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr
    for name in ("demo", "cache", "doctor", "devices"):
        assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in done.stdout.splitlines()), name
    assert "example:" in done.stdout and "jitfuse cache list" in done.stdout


def test_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "cache", "path") == f"{folder}\n"
    assert json.loads(printed(capsys, "cache", "path", "--json")) == {"read": [], "write": str(folder)}


def test_path_says_when_no_folder_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITFUSE_CACHE_PATH", f"{folder}{os.pathsep}")
    assert "stay in memory" in printed(capsys, "cache", "path", code=1)


def test_list_of_an_empty_cache(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "cache", "list") == f"no kernels in {folder}\n"
    assert json.loads(printed(capsys, "cache", "list", "--json")) == []


def test_list(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "cache", "list")
    for part in (KEY[:12], "module.brighten", "module.py:7", "1 entry", str(filled)):
        assert part in text
    (entry,) = json.loads(printed(capsys, "cache", "list", "--json"))
    assert (entry["key"], entry["function"], entry["compile_ms"]) == (KEY, "module.brighten", 3.25)


def test_show(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "cache", "show", KEY[:10].upper())
    assert KEY in text and "define i64 @k0()" in text
    document = json.loads(printed(capsys, "cache", "show", KEY[:10], "--json"))
    assert document["program"] == "program 1 {}" and document["key"] == KEY


@pytest.mark.parametrize(("key", "words"), [("zz", "no cache key"), ("0" * 64, "no cache entry begins with")])
def test_show_of_a_wrong_key(filled: Path, capsys: pytest.CaptureFixture[str], key: str, words: str) -> None:
    assert main(["cache", "show", key]) == 1
    message = capsys.readouterr().err
    assert message.startswith("jitfuse: ") and words in message and "cache list" in message


def test_verify_finds_damage(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 checked" in printed(capsys, "cache", "verify")
    (file,) = filled.glob("*.jfc")
    file.write_bytes(file.read_bytes()[:-1])
    assert KEY[:16] in printed(capsys, "cache", "verify", code=1)
    report = json.loads(printed(capsys, "cache", "verify", "--json", code=1))
    assert [entry["key"] for entry in report["damaged"]] == [KEY]


def test_clear(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "cache", "clear", "--older-than", "1h").startswith("0 removed")
    assert printed(capsys, "cache", "clear", "--function", "darken").startswith("0 removed")
    assert json.loads(printed(capsys, "cache", "clear", "--function", "brighten", "--json"))["removed"] == 1
    assert list(filled.glob("*.jfc")) == []


def test_stats(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "files    1 of" in printed(capsys, "cache", "stats")
    assert json.loads(printed(capsys, "cache", "stats", "--json"))["files"] == 1


@pytest.mark.parametrize(("command", "words"), [
    (["cache"], "required: action"),
    (["cache", "clear", "--older-than", "soon"], "not a time such as 90s"),
    (["demo", "--frames", "0"], "not a whole number from 1 up"),
    (["cash"], "invalid choice: 'cash'"),
])
def test_a_misspelt_command_is_exit_code_2(
    command: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(command)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_devices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device, *gpus = json.loads(printed(capsys, "devices", "--json"))
    assert device["device"] == "cpu" and device["threads"] >= 1 and device["vector_bits"] in (128, 256, 512)
    assert all(d["name"] in printed(capsys, "devices") for d in (device, *gpus))


def test_doctor_compiles_and_checks_a_kernel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = json.loads(printed(capsys, "doctor", "--json"))
    assert [f for f in findings if f["state"] == "problem"] == []
    (kernel,) = [f for f in findings if f["topic"] == "kernel"]
    assert "compiled" in kernel["text"] and "agrees with NumPy" in kernel["text"]
    text = printed(capsys, "doctor")
    assert str(folder) in text and "agrees with NumPy" in text


def test_doctor_says_why_a_folder_is_not_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    notes = [f["text"] for f in findings if f["topic"] == "cache" and f["state"] == "note"]
    assert any("chmod go-w" in note for note in notes)


def test_doctor_notes_that_everyone_is_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def notes() -> list[str]:
        findings = json.loads(printed(capsys, "doctor", "--json"))
        return [f["text"] for f in findings if f["topic"] == "cache" and f["state"] == "note"]

    assert notes() == []
    monkeypatch.setenv("JITFUSE_CACHE_TRUST", "everyone")
    (note,) = notes()
    assert note.startswith("JITFUSE_CACHE_TRUST=everyone: ")


def test_doctor_without_kernels(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    findings = json.loads(printed(capsys, "doctor", "--json"))
    assert {"topic": "kernel", "state": "note", "text": "not checked: JITFUSE_DISABLE is set"} in findings


def test_doctor_finds_a_wrong_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Wrong:
        def __init__(self, function: object) -> None:
            del function

        def __call__(self, x: Any, b: float) -> Any:
            return x

    monkeypatch.setattr(jitfuse, "fuse", Wrong)
    findings = json.loads(printed(capsys, "doctor", "--json", code=1))
    assert [f["topic"] for f in findings if f["state"] == "problem"] == ["kernel"]


def test_looking_at_the_cache_starts_neither_llvm_nor_rich(tmp_path: Path) -> None:
    code = (
        "import sys; from jitfuse.cli import main\n"
        "for command in ('path', 'stats', 'list --json', 'verify --json'):\n"
        "    assert main(['cache', *command.split()]) == 0\n"
        "print([name for name in ('llvmlite', 'rich', 'torch', 'sklearn', 'bytecode') if name in sys.modules])"
    )
    environment = {**os.environ, "JITFUSE_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_no_failure(filled: Path) -> None:
    command = f"{sys.executable} -m jitfuse cache list --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
