"""The digest of the sources: changes with every content and name, and is never remembered for other files."""
from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from jitfuse.cache import Entry, Store, sources
from jitfuse.cache.sources import SourceFile, digest_of, list_sources, state_of


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package laid out as a checkout: one of the folders is a symbolic link."""
    root = tmp_path / "jitfuse"
    for folder in ("ir", "passes", "plans"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").write_text(f"# {folder}\n")
    backend = tmp_path / "backends" / "llvm"
    backend.mkdir(parents=True)
    (backend / "lower.py").write_text("one = 1\n")
    (root / "backends").symlink_to("../backends")
    (root / "dtypes.py").write_text("\n")
    return root


def digest(root: Path) -> str:
    made = digest_of(list_sources(str(root)))
    assert made is not None
    return made


def remembered_digest(root: str, found: tuple[SourceFile, ...], store: Store) -> str | None:
    return sources.remembered_digest(root, found, state_of(found), store)


def test_names_are_relative_and_sorted(package: Path) -> None:
    names = [source[0] for source in list_sources(str(package))]
    packages = [f"{folder}/__init__.py" for folder in ("ir", "passes", "plans")]
    assert names == ["backends/llvm/lower.py", "dtypes.py", *packages]


def test_the_real_package_is_found() -> None:
    names = {source[0] for source in list_sources(sources.package_root())}
    assert {"ir/__init__.py", "backends/__init__.py", "backends/llvm/text/builder.py", "dtypes.py"} <= names
    assert {"compile/objects/objects.py", "compile/gpu/kernels.py", "base/records.py"} <= names
    assert {*sources._FILES} <= names, "a file that is listed by name has moved"


def test_any_change_changes_the_digest(package: Path) -> None:
    seen = {digest(package)}
    lower = package / "backends" / "llvm" / "lower.py"
    lower.write_text("one = 2\n")
    seen.add(digest(package))
    lower.rename(lower.with_name("raise.py"))
    seen.add(digest(package))
    (package / "ir" / "new.py").write_text("")
    seen.add(digest(package))
    (package / "ir" / "new.py").unlink()
    (package / "dtypes.py").write_text("changed = 1\n")
    seen.add(digest(package))
    assert len(seen) == 5


def test_place_and_times_and_caches_do_not(package: Path, tmp_path: Path) -> None:
    before = digest(package)
    shutil.copytree(package, tmp_path / "installed" / "jitfuse")  # links become folders, as in a wheel
    installed = tmp_path / "installed" / "jitfuse"
    os.utime(installed / "dtypes.py", (1, 1))
    (installed / "ir" / "__pycache__").mkdir()
    (installed / "ir" / "__pycache__" / "x.py").write_text("compiled")
    (installed / "ir" / "notes.txt").write_text("prose")
    assert digest(installed) == before


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be old enough to be remembered."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3_000_000_000)


@pytest.mark.usefixtures("settled")
def test_a_remembered_digest_is_not_computed_again(
    package: Path, store: Store, monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = list_sources(str(package))
    first = remembered_digest(str(package), found, store)
    monkeypatch.setattr(sources, "digest_of", lambda _: pytest.fail("computed again"))
    assert remembered_digest(str(package), found, Store(store.layers)) == first == digest_of(found)
    assert store.stats().hits == store.stats().misses == store.stats().stored == 0


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("keep_times", [False, True])
def test_a_changed_file_of_equal_size_is_noticed(package: Path, store: Store, keep_times: bool) -> None:
    lower = package / "backends" / "llvm" / "lower.py"
    before = lower.stat()
    first = remembered_digest(str(package), list_sources(str(package)), store)
    time.sleep(0.02)  # beyond the resolution of a change time
    lower.write_text("one = 2\n")
    if keep_times:
        os.utime(lower, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = remembered_digest(str(package), list_sources(str(package)), store)
    assert changed == digest(package) != first


def test_young_files_are_not_remembered(package: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    last = (package / "dtypes.py").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: last)  # else they might grow old meanwhile
    remembered_digest(str(package), list_sources(str(package)), store)
    assert store.stats().files == 0


@pytest.mark.usefixtures("settled")
def test_images_that_keep_no_change_times_are_not_remembered(package: Path, store: Store) -> None:
    expected, identity = digest(package), sources._identity
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_identity", lambda status: (*identity(status)[:2], 10**18, identity(status)[3]))
        found = tuple((name, path, *sources._identity(os.stat(path))) for name, path, *_ in list_sources(str(package)))
        assert remembered_digest(str(package), found, store) == expected
    assert store.stats().files == 0


def test_files_that_change_while_they_are_read(
    package: Path, store: Store, monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = list_sources(str(package))

    whole = sources._whole

    def change(file: int, size: int) -> bytes:
        (package / "ir" / "__init__.py").write_text("# edited meanwhile\n")
        return whole(file, size)

    monkeypatch.setattr(sources, "_whole", change)
    assert remembered_digest(str(package), found, store) is None


@pytest.fixture
def process(package: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has just imported `package`."""
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(folder))
    monkeypatch.setattr(sources, "package_root", lambda: str(package))
    monkeypatch.setattr(sources, "_at_import", list_sources(str(package)))
    monkeypatch.setattr(sources, "_state_at_import", state_of(list_sources(str(package))))
    monkeypatch.setattr(sources, "_digest", None)
    monkeypatch.setattr(sources, "_seen", None)
    return package


def test_the_digest_is_that_of_the_files(process: Path) -> None:
    assert sources.sources_digest() == digest(process)


def test_sources_edited_after_the_import_serve_no_other_process(process: Path) -> None:
    """What was compiled before is found; what is compiled from now on stays in memory."""
    before = sources.sources_digest()
    sources.publish(Entry("a" * 64, {}, b"made before", b"code"))
    (process / "ir" / "__init__.py").write_text("# edited after the import\n")
    sources.publish(Entry("b" * 64, {}, b"made after", b"code"))
    assert sources.sources_digest() == before != digest(process)
    assert not sources.unchanged_since_import()
    elsewhere = Store(sources.default_store().layers)
    assert elsewhere.load("a" * 64, b"made before") is not None
    assert elsewhere.load("b" * 64, b"made after") is None
    assert sources.default_store().load("b" * 64, b"made after") is not None


def test_unreadable_or_absent_sources_serve_no_other_process(
    process: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.rmtree(process)
    assert sources.sources_digest().startswith("process ")
    monkeypatch.setattr(sources, "_digest", None)
    monkeypatch.setattr(sources, "_at_import", ())
    assert sources.sources_digest().startswith("process ")


def test_a_source_that_cannot_be_read_is_not_fatal(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sources, "digest_of", fail)
    assert sources.sources_digest().startswith("process ")


def test_an_empty_cache_is_asked_for_no_key(process: Path) -> None:
    def refuse() -> str:
        raise AssertionError("the key was made")

    store = sources.default_store()
    assert sources.nothing_stored(sources.default_store()) and sources.find_entry(refuse, b"form") is None
    assert store.stats().misses == 1
    key = "c" * 64
    store.memory.put(Entry(key, {}, b"form", b"code"))
    assert sources.find_entry(lambda: key, b"form") is not None
    store.memory.discard(key)
    Store(store.layers).store(Entry(key, {}, b"form", b"code"))  # another process
    assert sources.find_entry(lambda: key, b"form") is not None


def test_modules_that_came_after_the_look_ask_for_another(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = sources.sources_now()
    (process / "ir" / "__init__.py").write_text("# edited after the look\n")
    sources.publish(Entry("a" * 64, {}, b"made before", b"code"), now=now)
    monkeypatch.setitem(sys.modules, "jitfuse.pretended", sys)
    sources.publish(Entry("b" * 64, {}, b"made of what?", b"code"), now=now)
    elsewhere = Store(sources.default_store().layers)
    assert elsewhere.load("a" * 64, b"made before") is not None
    assert elsewhere.load("b" * 64, b"made of what?") is None


def test_the_sources_are_looked_at_once_as_long_as_no_module_comes(
    process: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = sources.sources_now()
    (process / "ir" / "__init__.py").write_text("# edited after the look: nothing that runs came of it\n")
    assert sources.sources_now() is now and now.unchanged
    monkeypatch.setitem(sys.modules, "jitfuse.pretended", sys)
    assert not sources.sources_now().unchanged
