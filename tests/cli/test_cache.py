"""``jitfuse cache`` as its users run it: on what functions left there, across processes, machines and images."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from amount import PATIENCE

from jitfuse.cache import Entry, cache_key, default_store
from jitfuse.cache.archive import write_archive
from jitfuse.cache.inspect import SORTINGS, find
from jitfuse.cache.parts import describe, recorded_parts
from jitfuse.cli import main
from jitfuse.cli.cache import _SORTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def printed(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> str:
    assert main(command) == code
    return capsys.readouterr().out


MODEL = """
import numpy as np, jitfuse as jf
f = jf.fuse(lambda x, s: np.exp(-x) * s, name="decay")
g = jf.fuse(lambda x: np.sum(x * x, axis=1), name="model.energy")
f(np.ones(4), 2.0), f(np.ones(4, np.float32), 2.0), g(np.ones((3, 4)))
for fused in (f, g): fused.warm(np.ones((3, 4)), *([2.0] if fused is f else []))
print(f.stats()["compiles"] + g.stats()["compiles"], f.stats()["cache_misses"] + g.stats()["cache_misses"])
"""


def run_model(folder: Path, **environment: str) -> list[int]:
    """Run functions in a new process; return how many modules it compiled and how many objects it missed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MODEL], capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "JITFUSE_CACHE_DIR": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.fixture(scope="module")
def once_used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder after two processes that ran functions, the second of which compiled nothing."""
    folder = tmp_path_factory.mktemp("used") / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JITFUSE_CACHE_PATH", raising=False)
        assert run_model(folder)[0] >= 3
        assert run_model(folder) == [0, 0]
    return folder


@pytest.fixture
def used(folder: Path, once_used: Path) -> Path:
    """This test's folder, with what those two processes left."""
    shutil.copytree(once_used, folder)
    return folder


@pytest.mark.full
def test_filters_sorting_and_hits(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(printed(capsys, "cache", "list", "--json", *options))
        return found

    everything = listed()
    assert {e["function"] for e in everything} == {"decay", "model.energy", "jitfuse runtime"}
    assert all(e["hits"] == 1 for e in everything if e["function"] != "jitfuse runtime")
    assert {e["function"] for e in listed("--function", "decay")} == {"decay"}
    assert {e["function"] for e in listed("--function", "energy")} == {"model.energy"}
    assert {e["function"] for e in listed("--function", "*e*y")} == {"decay", "model.energy"}
    assert listed("--backend", "wgsl") == [] == listed("--source", "nowhere.py") == listed("--older-than", "1h")
    assert len(listed("--backend", "llvm", "--source", "<string>:3")) >= 1
    assert len(listed("--limit", "2")) == 2 and listed("--target", "no such processor") == []
    for column in ("key", "function", "source", "target", "backend"):
        ordered = [e[column] for e in listed("--sort", column)]
        assert ordered == sorted(ordered) == [e[column] for e in listed("--sort", column, "--reverse")][::-1]
    for column, name in (("size", "size"), ("hits", "hits"), ("compile", "compile_ms"), ("age", "created")):
        ordered = [e[name] for e in listed("--sort", column)]
        assert ordered == sorted(ordered, reverse=True)
    table = printed(capsys, "cache", "list", "--function", "decay")
    for part in ("key", "file:line", "hits", "compile ms", "<string>:3", "decay", f"of {len(everything)} entries"):
        assert part in table
    assert "model.energy" not in table


def test_sortings_of_the_command_are_those_of_the_cache() -> None:
    assert set(SORTINGS) == set(_SORTS)


@pytest.mark.full
def test_show_of_a_kernel(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = json.loads(printed(capsys, "cache", "list", "--json", "--function", "energy"))[0]["key"]
    text = printed(capsys, "cache", "show", key[:12])
    for part in ("model.energy", "<string>:4", "key: machine", "= sum(", "kernel over", "define i64 @k0", "ret"):
        assert part in text
    only = printed(capsys, "cache", "show", key, "--only", "forms")
    assert "kernel over" in only and "define" not in only and "key: machine" not in only
    document = json.loads(printed(capsys, "cache", "show", key, "--json"))
    assert document["asm"] and "define i64" in document["ir"] and document["key_parts"]["backend"] == "llvm"
    assert list(json.loads(printed(capsys, "cache", "show", key, "--json", "--only", "ir"))) == ["ir"]


@pytest.mark.full
def test_show_in_a_terminal_has_colours(used: Path) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "JITFUSE_CACHE_DIR": str(used)}
    entries = json.loads(subprocess.run(
        [sys.executable, "-m", "jitfuse", "cache", "list", "--json"], env=environment, capture_output=True, text=True,
        check=True,
    ).stdout)
    key = next(e["key"] for e in entries if e["function"] == "decay")
    done = subprocess.run(
        [sys.executable, "-m", "jitfuse", "cache", "show", key], env=environment, capture_output=True, text=True,
        check=True,
    )
    assert "\x1b[" in done.stdout and "\x1b[" in done.stdout[done.stdout.rindex("machine code"):]


@pytest.mark.full
def test_show_without_objdump(
    used: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = json.loads(printed(capsys, "cache", "list", "--json", "--function", "decay"))[0]["key"]
    monkeypatch.setenv("PATH", "")
    text = printed(capsys, "cache", "show", key, "--only", "asm")
    assert "ret" in text and "binutils" in text


@pytest.mark.full
def test_diff_says_why(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "cache", "list", "--json", "--function", "decay"))
    a, b = found[0]["key"], found[1]["key"]
    text = printed(capsys, "cache", "diff", a[:12], b)
    assert "forms" in text and "the same in both: backend" in text and "float32" in text and "\n+" in text
    document = json.loads(printed(capsys, "cache", "diff", a, b, "--json"))
    assert [d["part"] for d in document["differences"]] == ["forms"] and document["forms"]
    assert "the keys are equal" in printed(capsys, "cache", "diff", a, a)
    assert main(["cache", "diff", a, "../../etc/passwd"]) == 1
    assert "no cache key" in capsys.readouterr().err


@pytest.mark.full
def test_stats_say_what_was_saved(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "cache", "stats", "--json"))
    assert document["loads"] >= 3 and document["saved_ms"] > 0 and document["functions"] == 3
    assert "saved by hits" in printed(capsys, "cache", "stats")


def test_verify_makes_keys_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Entry("f" * 64, describe({"backend": "llvm"}, "forms"), b"canonical", b"code")
    assert default_store().store(wrong)
    assert "not made of its parts" in printed(capsys, "cache", "verify", code=1)


@pytest.mark.full
def test_export_and_import(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "kernels.jfa", tmp_path / "other"
    assert "exported" in printed(capsys, "cache", "export", str(file))
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(other))
    report = json.loads(printed(capsys, "cache", "import", str(file), "--json"))
    assert report["imported"] >= 4 and (report["present"], report["skipped"], report["refused"]) == (0, 0, [])
    assert "0 imported" in printed(capsys, "cache", "import", str(file))
    assert run_model(other) == [0, 0]
    assert "0 damaged" in printed(capsys, "cache", "verify")


SHARED = """
import sys, numpy as np, jitfuse as jf
f = jf.fuse(lambda x: (np.cumsum(x * 1.5, axis=1), np.sin(x).max(axis=0)))
g = jf.fuse(lambda x: (np.sin(x).max(axis=0), np.cumprod(x + 0.25, axis=1)))
h = jf.fuse(lambda x: np.sin(x).max(axis=0))
for name in sys.argv[1:]:
    globals()[name](np.ones((3, 4)))
    globals()[name].warm(np.ones((3, 4)))
print(sum(fused.stats()["compiles"] for fused in (f, g, h)))
"""


def compiles_of(folder: Path, *names: str) -> int:
    """Return how many modules functions that share a kernel compile in a new process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SHARED, *names], capture_output=True, text=True, timeout=PATIENCE,
        check=True, env={**os.environ, "JITFUSE_CACHE_DIR": str(folder)},
    )
    return int(done.stdout)


@pytest.mark.full
def test_kernels_of_imported_objects_are_found_one_by_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = str(tmp_path / "kernels.jfa"), tmp_path / "other"
    assert [compiles_of(folder, "f"), compiles_of(folder, "g")] == [1, 1]
    printed(capsys, "cache", "export", file)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(other))
    printed(capsys, "cache", "import", file)
    assert compiles_of(other, "g") == compiles_of(other, "f") == 0


@pytest.mark.full
def test_an_imported_object_takes_the_place_of_a_reference(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = str(tmp_path / "kernels.jfa"), tmp_path / "other"
    assert compiles_of(folder, "g") == 1  # both kernels
    whole = json.loads(printed(capsys, "cache", "list", "--json", "--function", "<lambda>"))
    assert compiles_of(other, "h") == 1  # the first of them
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(other))
    printed(capsys, "cache", "export", file, "--function", "<lambda>")
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(folder))
    (folder / f"{whole[0]['key']}.jfc").unlink()
    assert "1 imported" in printed(capsys, "cache", "import", file)
    assert compiles_of(folder, "h") == 0


@pytest.mark.full
def test_import_refuses_what_it_cannot_make_again(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = json.loads(printed(capsys, "cache", "list", "--json", "--function", "energy"))[0]["key"]
    _, good = find(default_store(), key)
    parts = {**(recorded_parts(good.metadata) or {}), "machine": ("elsewhere",), "forms": good.canonical}
    foreign = Entry(cache_key(parts), {**good.metadata, **describe(parts, "forms")}, good.canonical, good.code)
    evil = good._replace(code=good.code[:-1] + b"\x90")
    file, other = str(tmp_path / "kernels.jfa"), tmp_path / "other"
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(other))
    write_archive(file, [evil, foreign, good])
    text = printed(capsys, "cache", "import", file, code=1)
    assert "1 imported" in text and "1 skipped" in text and "not what its kernel form compiles to" in text
    held = default_store().load(key, good.canonical)
    assert held is not None and (held.code, held.metadata["ir"]) == (good.code, good.metadata["ir"])
    report = json.loads(printed(capsys, "cache", "import", file, "--unchecked", "--json"))
    assert (report["imported"], report["present"]) == (1, 2)
    os.chmod(file, 0o666)
    assert main(["cache", "import", file, "--unchecked"]) == 1
    assert "written by others" in capsys.readouterr().err


@pytest.mark.full
def test_export_does_not_overwrite_other_files(
    used: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("mine")
    assert main(["cache", "export", str(tmp_path / "mine.py")]) == 1
    assert "--force" in capsys.readouterr().err and (tmp_path / "mine.py").read_text() == "mine"


@pytest.mark.full
@pytest.mark.parametrize("writes", [True, False])
def test_an_image_with_a_read_layer_compiles_nothing(tmp_path: Path, writes: bool) -> None:
    image, mine = tmp_path / "image", tmp_path / "mine"
    assert run_model(image)[0] >= 3
    for path in (*image.iterdir(), image):
        path.chmod(0o555 if path.is_dir() else 0o444)
    layers = {"JITFUSE_CACHE_PATH": f"{image}{os.pathsep}{mine if writes else ''}"}
    before = sorted(os.listdir(image))
    assert run_model(mine, **layers) == [0, 0]
    assert sorted(os.listdir(image)) == before
    made = list(mine.glob("*.jfc")) if writes else []
    assert all(b'"kind":"sources"' in path.read_bytes() for path in made)
