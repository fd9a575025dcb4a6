"""Looking at the cache: what lists, finds, clears and verifies, and what is drawn of it."""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from jitfuse.cache import Entry, Store, compress_text
from jitfuse.cache.inspect import clear, find, list_entries, verify
from jitfuse.cache.location import Layers
from jitfuse.cache.render import entries_table, format_age, format_bytes, show_entry
from jitfuse.errors import ArgumentError, JitfuseError

MakeEntry = Callable[..., Entry]
FULL = {
    "function": "model.step", "source": "train.py:12", "backend": "llvm", "target": "x86_64 znver4",
    "compile_ms": 12.25, "kernels": ["sin_mul", "sum"], "created": 1_700_000_000,
    "program": "%2 = sin(%0)", "ir": compress_text("define void @k() { ret void }"),
    "versions": {"llvm": "22", "jitfuse": "0.1.0"},
}


def drawn(renderable: object) -> str:
    console = Console(width=140, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def age(store: Store, entry: Entry, seconds: float) -> None:
    os.utime(f"{store.layers.write}/{entry.key}.jfc", (time.time() - seconds,) * 2)


def damage(store: Store, entry: Entry) -> None:
    Path(f"{store.layers.write}/{entry.key}.jfc").write_bytes(b"JITFUSE\0 and then nonsense")


def test_list_shows_metadata_and_order_of_use(store: Store, make_entry: MakeEntry) -> None:
    old, new = make_entry(1, **FULL), make_entry(2)
    store.store(old)
    store.store(new)
    age(store, old, 5000)
    second, first = reversed(list_entries(store))
    assert (first.key, second.key) == (new.key, old.key)
    assert (second.function, second.source, second.backend) == ("model.step", "train.py:12", "llvm")
    assert (second.compile_ms, second.kernels, second.created) == (12.25, ("sin_mul", "sum"), 1.7e9)
    assert second.damaged is None and second.layer == store.layers.write


def test_the_caches_own_records_are_not_listed(store: Store, make_entry: MakeEntry) -> None:
    store.store(make_entry(1, kind="sources"))
    assert list_entries(store) == []


@pytest.mark.parametrize("value", [None, 3, "text", [1], {"a": 1}, 1e300, float("nan"), float("inf"), True])
def test_metadata_of_the_wrong_type_does_not_matter(
    store: Store, make_entry: MakeEntry, value: object,
) -> None:
    wrong = dict.fromkeys(FULL, value)
    store.store(make_entry(1, **wrong))
    (info,) = list_entries(store)
    assert drawn(entries_table([info])) and drawn(show_entry(*find(store, info.key)))


def test_find_by_an_unambiguous_prefix(store: Store, make_entry: MakeEntry) -> None:
    entries = [make_entry(number) for number in range(40)]
    for entry in entries:
        store.store(entry)
    wanted = entries[0]
    info, entry = find(store, wanted.key[:12].upper())
    assert entry == wanted and info.key == wanted.key
    first = {entry.key[0] for entry in entries}
    shared = next(digit for digit in first if sum(entry.key[0] == digit for entry in entries) > 1)
    with pytest.raises(JitfuseError, match="give more digits"):
        find(store, shared)


def test_find_nothing(store: Store) -> None:
    with pytest.raises(JitfuseError, match="no cache entry begins with abc"):
        find(store, "abc")


@pytest.mark.parametrize("prefix", ["", "../../../etc/passwd", "a/b", "a" * 65, "xyz", "a\0", "*", "é"])
def test_what_is_no_key_is_refused(store: Store, prefix: str) -> None:
    with pytest.raises(ArgumentError, match="no cache key"):
        find(store, prefix)


def test_find_a_damaged_entry(store: Store, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    damage(store, entry)
    with pytest.raises(JitfuseError, match="is damaged: truncated"):
        find(store, entry.key[:8])


def test_find_skips_damage_below_a_whole_entry(store: Store, tmp_path: Path, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    upper = tmp_path / "upper"
    upper.mkdir()
    layered = Store(Layers((str(store.layers.write),), str(upper)))
    store.store(entry)
    layered.store(entry)
    damage(store, entry)
    assert find(layered, entry.key)[0].layer == str(upper)


def test_verify_names_what_is_damaged(store: Store, make_entry: MakeEntry) -> None:
    good, bad = make_entry(1), make_entry(2)
    store.store(good)
    store.store(bad)
    damage(store, bad)
    report = verify(store)
    assert report.checked == 2 and [info.key for info in report.damaged] == [bad.key]
    assert "damaged" in drawn(entries_table(report.damaged))
    assert Path(f"{store.layers.write}/{bad.key}.jfc").exists()


def test_clear_everything_of_ours(store: Store, folder: Path, make_entry: MakeEntry) -> None:
    for number in range(5):
        store.store(make_entry(number))
    damage(store, make_entry(2))
    store.memory.put(make_entry(9))
    (folder / "notes.txt").write_text("mine")
    assert clear(store).removed == 5
    assert os.listdir(folder) == ["notes.txt"] and len(store.memory) == 0 and store.stats().files == 0


def test_clear_what_was_not_used_for_long(store: Store, make_entry: MakeEntry) -> None:
    old, new = make_entry(1), make_entry(2)
    store.store(old)
    store.store(new)
    age(store, old, 8 * 86_400)
    assert clear(store, older_than=7 * 86_400).removed == 1
    assert [info.key for info in list_entries(store)] == [new.key]


def test_clear_what_a_function_made(store: Store, make_entry: MakeEntry) -> None:
    for number, name in enumerate(["model.step", "other.step2", "step", "model.Net.step"]):
        store.store(make_entry(number, function=name))
    assert clear(store, function="model.step").removed == 1
    assert clear(store, function="step").removed == 2
    assert [info.function for info in list_entries(store)] == ["other.step2"]


def test_clear_leaves_read_layers_alone(store: Store, make_entry: MakeEntry) -> None:
    store.store(make_entry(1))
    assert clear(Store(Layers((str(store.layers.write),), None))).removed == 0
    assert len(list_entries(store)) == 1


def test_table_and_details(store: Store, make_entry: MakeEntry) -> None:
    store.store(make_entry(1, **FULL))
    (info,) = list_entries(store)
    table = drawn(entries_table([info], now=1_700_000_000 + 3 * 86_400))
    for text in (info.key[:12], "model.step", "train.py:12", "llvm", "3 d", "12.2"):
        assert text in table
    details = drawn(show_entry(*find(store, info.key)))
    for text in (info.key, "sin_mul, sum", "%2 = sin(%0)", "define void @k()", "jitfuse 0.1.0, llvm 22"):
        assert text in details


def test_texts_cannot_command_the_terminal(store: Store, make_entry: MakeEntry) -> None:
    evil = "\x1b]0;owned\x07[red]f[/red]\x9b31m\u202e"
    store.store(make_entry(1, function=evil, program=evil, note=evil))
    (info,) = list_entries(store)
    for text in (drawn(entries_table([info])), drawn(show_entry(*find(store, info.key)))):
        assert "[red]f[/red]" in text
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)


@pytest.mark.parametrize("size, text", [
    (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (10_500, "10.3 KiB"), (1 << 30, "1.0 GiB"),
    (1 << 42, "4096.0 GiB"),
])
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize("seconds, text", [
    (-5, "now"), (0.5, "now"), (59, "59 s"), (3600, "1 h"), (9e4, "1 d"),
])
def test_ages_for_people(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
