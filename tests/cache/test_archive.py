"""Archives: what is written is read back; what was tampered with is named; nothing of it decides on a path."""
from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from jitfuse.cache import Entry
from jitfuse.cache.archive import read_archive, write_archive
from jitfuse.errors import ArgumentError, JitfuseError

MakeEntry = Callable[..., Entry]


@pytest.fixture
def written(tmp_path: Path, make_entry: MakeEntry) -> tuple[Path, list[Entry]]:
    entries = [make_entry(number, size=50 * number) for number in range(4)]
    path = tmp_path / "kernels.jfa"
    assert write_archive(str(path), entries) == path.stat().st_size
    return path, entries


def test_entries_come_back_in_order(written: tuple[Path, list[Entry]]) -> None:
    path, entries = written
    assert list(read_archive(str(path), owned=True)) == entries


def test_an_archive_of_nothing(tmp_path: Path) -> None:
    write_archive(str(tmp_path / "empty"), [])
    assert list(read_archive(str(tmp_path / "empty"))) == []


def test_every_truncation_is_named(written: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, entries = written
    data, cut = path.read_bytes(), tmp_path / "cut"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        if length < 16:
            with pytest.raises(JitfuseError, match="no cache archive"):
                list(read_archive(str(cut)))
            continue
        *whole, last = read_archive(str(cut))
        assert whole == entries[: len(whole)] and isinstance(last, str)


def test_flipped_bytes_give_no_other_entry(written: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, entries = written
    data, flipped = path.read_bytes(), tmp_path / "flipped"
    draw = random.Random(1)
    for _ in range(300):
        at = draw.randrange(16, len(data))
        flipped.write_bytes(data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :])
        found = list(read_archive(str(flipped)))
        assert any(isinstance(item, str) for item in found)
        assert all(item in entries for item in found if isinstance(item, Entry))


def test_what_is_no_archive(tmp_path: Path) -> None:
    for content in (b"", b"PK\3\4" * 10, b"JITFUSEA" + b"\xff" * 8):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(JitfuseError, match="archive"):
            list(read_archive(str(tmp_path / "file")))
    with pytest.raises(JitfuseError, match="cannot be read"):
        list(read_archive(str(tmp_path / "absent")))
    with pytest.raises(JitfuseError, match=r"cannot be read|not a regular file"):
        list(read_archive(str(tmp_path)))


def test_what_follows_is_named(written: tuple[Path, list[Entry]]) -> None:
    path, entries = written
    with open(path, "ab") as file:
        file.write(b"more")
    assert list(read_archive(str(path))) == [*entries, "something follows the 4 entries"]


def test_other_files_are_not_overwritten(tmp_path: Path, make_entry: MakeEntry) -> None:
    (tmp_path / "train.py").write_text("mine")
    with pytest.raises(ArgumentError, match="--force"):
        write_archive(str(tmp_path / "train.py"), [make_entry(1)])
    assert (tmp_path / "train.py").read_text() == "mine" and os.listdir(tmp_path) == ["train.py"]
    write_archive(str(tmp_path / "train.py"), [make_entry(1)], replace=True)
    write_archive(str(tmp_path / "train.py"), [make_entry(2)])
    assert list(read_archive(str(tmp_path / "train.py"))) == [make_entry(2)]
    with pytest.raises(JitfuseError, match="cannot be written"):
        write_archive(str(tmp_path / "absent" / "file"), [])


def test_archives_that_others_could_write(written: tuple[Path, list[Entry]]) -> None:
    path, entries = written
    path.chmod(0o666)
    assert list(read_archive(str(path))) == entries
    with pytest.raises(JitfuseError, match="written by others"):
        list(read_archive(str(path), owned=True))


@pytest.mark.parametrize("name", ["", ".", "/", "missing/archive", "file/archive", "n" * 300])
def test_places_that_cannot_be_written(tmp_path: Path, make_entry: MakeEntry, name: str) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    target = name if name == "/" else f"{tmp_path}/{name}" if name else ""
    with pytest.raises(JitfuseError):
        write_archive(target, [make_entry()], replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_keeps_nobody_waiting(tmp_path: Path, make_entry: MakeEntry) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(JitfuseError, match="not a regular file"):
        list(read_archive(str(path)))
    with pytest.raises(ArgumentError, match="no cache archive"):
        write_archive(str(path), [make_entry()])
