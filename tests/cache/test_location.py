"""Where the cache lies, and the rules of trust: each rule broken once, each time said once and not used."""
from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from jitfuse.cache import location, notices
from jitfuse.cache.location import Layers, read_layer, resolve_layers, write_layer
from jitfuse.errors import CacheWarning

pytestmark = pytest.mark.skipif(location.owners() is None, reason="the rules are about user ids")
FOREIGNER = 54321
Pretend = Callable[..., None]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Let a path look as if it had another owner or mode, for any user who runs the tests."""
    real = os.lstat
    changes: dict[str, dict[str, int]] = {}

    def lstat(path: str | Path, **keywords: int) -> os.stat_result:
        status = real(path, **keywords)
        change = changes.get(os.fspath(path), {})
        fields = list(status)
        fields[stat.ST_UID] = change.get("owner", status.st_uid)
        fields[stat.ST_MODE] = stat.S_IFMT(status.st_mode) | change.get("mode", stat.S_IMODE(status.st_mode))
        return os.stat_result(fields)

    def set_change(path: Path, **change: int) -> None:
        changes[str(path)] = change
        monkeypatch.setattr(os, "lstat", lstat)

    return set_change


def refused(resolve: Callable[[str], str | None], path: Path, reason: str) -> None:
    """Check that `path` is refused with `reason`, and that a second attempt says nothing more."""
    notices.forget()
    with pytest.warns(CacheWarning, match=reason):
        assert resolve(str(path)) is None
    assert resolve(str(path)) is None


def test_created_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        target = tmp_path / "a" / "b" / "cache"
        assert write_layer(str(target)) == str(target)
    finally:
        os.umask(before)
    for made in (target, target.parent, target.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_write_layer_of_a_foreign_owner(folder: Path, pretend: Pretend) -> None:
    pretend(folder, owner=FOREIGNER)
    refused(write_layer, folder, f"belongs to user id {FOREIGNER}")
    refused(read_layer, folder, f"belongs to user id {FOREIGNER}")


def test_write_layer_of_root_is_not_ours(
    folder: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGNER)
    pretend(folder, owner=0)
    for parent in folder.parents:
        pretend(parent, owner=0, mode=0o755)
    refused(write_layer, folder, "belongs to user id 0, not to")


def test_read_layer_of_root_is_fine(folder: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGNER)
    pretend(folder, owner=0, mode=0o755)
    for parent in folder.parents:
        pretend(parent, owner=0, mode=0o755)
    assert read_layer(str(folder)) == str(folder)


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o707, 0o702, 0o1777])
def test_folder_writable_by_group_or_others(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    refused(write_layer, folder, "others may write to it")
    refused(read_layer, folder, "others may write to it")


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500, 0o2750])
def test_folder_that_only_its_owner_writes_to(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert write_layer(str(folder)) == read_layer(str(folder)) == str(folder)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o770])
def test_unsafe_parent(tmp_path: Path, mode: int) -> None:
    parent = tmp_path / "parent"
    (parent / "inner" / "cache").mkdir(0o700, parents=True)
    parent.chmod(mode)
    refused(write_layer, parent / "inner" / "cache", "others may write to .*parent.* above it")
    refused(read_layer, parent / "inner" / "cache", "others may write to .*parent.* above it")
    refused(write_layer, parent / "inner" / "new", "above it")
    assert not (parent / "inner" / "new").exists()


@pytest.mark.parametrize("mode", [0o1777, 0o1775])
def test_sticky_parent(tmp_path: Path, mode: int) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(mode)
    assert write_layer(str(parent / "cache")) == str(parent / "cache")


def test_parent_of_a_foreign_owner(tmp_path: Path, pretend: Pretend) -> None:
    (tmp_path / "home" / "cache").mkdir(0o700, parents=True)
    pretend(tmp_path / "home", owner=FOREIGNER)
    refused(write_layer, tmp_path / "home" / "cache", f"belongs to user id {FOREIGNER}, who could replace it")


def test_symbolic_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "disk" / "home").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk/home")
    assert write_layer(str(tmp_path / "home" / "cache")) == str(tmp_path / "disk" / "home" / "cache")


def test_the_rules_hold_behind_a_symbolic_link(tmp_path: Path) -> None:
    unsafe = tmp_path / "unsafe"
    (unsafe / "cache").mkdir(parents=True)
    unsafe.chmod(0o777)
    (tmp_path / "link").symlink_to(unsafe / "cache")
    refused(write_layer, tmp_path / "link", "others may write to .*unsafe")


def test_files_and_circles_are_no_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    refused(write_layer, tmp_path / "file", "not a folder")
    refused(write_layer, tmp_path / "file" / "below", "Not a directory")
    refused(write_layer, tmp_path / "circle", "Too many levels of symbolic links")


def test_folder_that_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", mkdir)
    refused(write_layer, tmp_path / "cache", "cannot be created .Read-only file system")


def test_a_link_of_a_foreign_owner(tmp_path: Path, folder: Path, pretend: Pretend) -> None:
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "own").symlink_to("link")
    pretend(tmp_path / "link", owner=FOREIGNER)
    for path in (tmp_path / "link", tmp_path / "link" / "new", tmp_path / "own"):
        for resolve in (write_layer, read_layer):
            refused(resolve, path, f"the link .*link' belongs to user id {FOREIGNER}")
    assert list(folder.iterdir()) == []


def test_a_link_in_a_folder_that_others_may_write_to(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(folder)
    (tmp_path / "open").chmod(0o777)
    refused(write_layer, tmp_path / "open" / "link", "others may write to .*open' above it")


@pytest.mark.parametrize("path", [
    "link/../cache", "./link/./", "link//", "one/two/../../cache", "link/../../{base}/cache", "chain",
    "round/round/cache",
])
def test_real_paths(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """As the system resolves them, from the working folder too."""
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "link").symlink_to("cache")
    (tmp_path / "chain").symlink_to("one/two/back/link")
    (tmp_path / "one" / "two" / "back").symlink_to("../..")
    (tmp_path / "round").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = path.format(base=tmp_path.name)
    for named in (path, f"{tmp_path}/{path}"):
        assert write_layer(named) == read_layer(named) == os.path.realpath(named) == str(folder)


@pytest.mark.parametrize("path", ["new", "link/../new", "dangling", "dangling/below", "absent/../new"])
def test_created_behind_links(tmp_path: Path, folder: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("cache")
    (tmp_path / "dangling").symlink_to("to/be/made")
    real = write_layer(str(tmp_path / path))
    assert real is not None and real == os.path.realpath(tmp_path / path)
    assert os.path.isdir(real) and stat.S_IMODE(os.stat(real).st_mode) == 0o700 and list(folder.iterdir()) == []


def test_folder_that_is_always_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "mkdir", lambda *_: None)
    refused(write_layer, tmp_path / "cache", "removed again and again")


def test_a_folder_that_was_replaced_is_walked_to_again(tmp_path: Path, folder: Path) -> None:
    trusted = location.trusted_folder(str(folder))
    assert trusted is not None and location.is_still(str(folder), trusted)
    folder.rename(tmp_path / "old")
    folder.mkdir(0o700)
    assert not location.is_still(str(folder), trusted)
    renewed = location.trusted_folder(str(folder))
    assert renewed not in (None, trusted) and location.trusted_folder(str(folder)) == renewed
    folder.rmdir()
    assert location.trusted_folder(str(folder)) is None and not location.is_still(str(folder), trusted)
    folder.symlink_to("old")
    assert location.trusted_folder(str(folder)) is None, "it lies elsewhere now"


class TestTrust:
    """JITFUSE_CACHE_TRUST."""

    def test_everyone_is_trusted(self, folder: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
        pretend(folder, owner=FOREIGNER, mode=0o777)
        pretend(folder.parent, owner=FOREIGNER, mode=0o777)
        refused(write_layer, folder, "JITFUSE_CACHE_TRUST=everyone leaves this check out")
        monkeypatch.setenv("JITFUSE_CACHE_TRUST", "everyone")
        assert write_layer(str(folder)) == read_layer(str(folder)) == str(folder)
        assert location.trusted_folder(str(folder)) is not None and location.owners() is None
        monkeypatch.delenv("JITFUSE_CACHE_TRUST")
        notices.forget()
        with pytest.warns(CacheWarning):
            assert location.trusted_folder(str(folder)) is None, "what was walked for everyone was not checked"

    def test_what_trust_does_not_mend(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "file").touch()
        for trust in ("", "everyone"):
            monkeypatch.setenv("JITFUSE_CACHE_TRUST", trust)
            refused(write_layer, folder / "file", "not a folder.*in JITFUSE_CACHE_DIR.$")

    @pytest.mark.parametrize("value", ["Everyone", "all", "1", " everyone", "no" * 1000])
    def test_other_values_are_said_once(self, folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(folder))
        monkeypatch.setenv("JITFUSE_CACHE_TRUST", value)
        with pytest.warns(CacheWarning) as said:
            resolve_layers()
            resolve_layers()
        (message,) = [str(warning.message) for warning in said]
        assert message.startswith(f"JITFUSE_CACHE_TRUST={value[:80]!r} ") and "JITFUSE_CACHE_TRUST=everyone" in message
        assert location.owners() is not None and len(message) < 250

    def test_it_is_watched(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = location.environment()
        monkeypatch.setenv("JITFUSE_CACHE_TRUST", "everyone")
        assert location.environment() != before


def test_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(write_layer, Path("~no-such-user/cache"), "no home folder")
    assert list(tmp_path.iterdir()) == []


class TestEnvironment:
    """Which folders the variables name."""

    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("JITFUSE_CACHE_PATH", "JITFUSE_CACHE_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))

    def test_default(self, tmp_path: Path) -> None:
        layers = resolve_layers()
        assert layers.read == () and layers.write is not None
        assert layers.write.startswith(str(tmp_path)) and "jitfuse" in layers.write

    def test_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "named"))
        assert resolve_layers() == Layers((), str(tmp_path / "named"))

    def test_empty_variables_count_as_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        default = resolve_layers()
        monkeypatch.setenv("JITFUSE_CACHE_PATH", "")
        monkeypatch.setenv("JITFUSE_CACHE_DIR", "")
        assert resolve_layers() == default

    def test_path_wins_and_ends_in_the_write_layer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        one, two, absent, write = (tmp_path / name for name in ("one", "two", "absent", "write"))
        one.mkdir(0o755)
        two.mkdir(0o755)
        monkeypatch.setenv("JITFUSE_CACHE_PATH", os.pathsep.join(map(str, (one, two, absent, write))))
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "loser"))
        assert resolve_layers() == Layers((str(one), str(two)), str(write))
        assert not (tmp_path / "loser").exists() and not absent.exists()

    def test_path_without_a_write_layer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_PATH", f"{tmp_path}{os.pathsep}")
        assert resolve_layers() == Layers((str(tmp_path),), None)

    def test_an_unsafe_layer_does_not_take_the_others_along(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        bad, good = tmp_path / "bad", tmp_path / "good"
        bad.mkdir()
        bad.chmod(0o777)
        monkeypatch.setenv("JITFUSE_CACHE_PATH", f"{bad}{os.pathsep}{good}")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert resolve_layers() == resolve_layers() == Layers((), str(good))
        assert len(said) == 1 and str(bad) in str(said[0].message)


@pytest.mark.parametrize("path", ["relative", "relative/cache", "."])
def test_relative_paths_in_a_working_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str,
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused(write_layer, Path(path), "the working folder is gone")
    assert read_layer(path) is None
