"""Other users of the machine attack the cache: a victim's process runs as one user on what another has put there.

The processes are real, so only root can run these tests; elsewhere they are skipped. The rules one by one, for any
user, are in test_location.py; whole programs of several users are in tests/end_to_end/test_never_unsafe.py.
"""
from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jitfuse.cache import Entry, Store, inspect, notices, usage
from jitfuse.cache import folder as files
from jitfuse.cache.entry import encode
from jitfuse.cache.keys import cache_key
from jitfuse.cache.location import resolve_layers

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)
ATTACKER, VICTIM, ROOT = 54_321, 54_322, 0
Action = Callable[[], None]
PLANTED, OWN, LATER = (Entry(cache_key({"of": name}), {}, name.encode(), b"code") for name in ("them", "us", "later"))


# ---------------------------------------------------------------------- several users
def as_user(user: int, act: Callable[[Action], Any], between: Action = lambda: None) -> Any:
    """Run `act` in a process of this user and return its result; where it pauses, root runs `between`."""
    ours, theirs = multiprocessing.Pipe()

    def pause() -> None:
        theirs.send(("pause", None))
        theirs.recv()

    child = os.fork()
    if child == 0:
        ours.close()
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(0o022)
            notices.forget()
            for name in [name for name in os.environ if name.startswith("JITFUSE_CACHE")]:
                del os.environ[name]
            theirs.send(("result", act(pause)))
        except BaseException:
            theirs.send(("error", traceback.format_exc()))
        finally:
            os._exit(0)
    theirs.close()
    try:
        while (message := ours.recv())[0] == "pause":
            between()
            ours.send(None)
    finally:
        ours.close()  # a child that waits for an answer ends, too
        os.waitpid(child, 0)
    assert message[0] == "result", message[1]
    return message[1]


class Outcome(NamedTuple):
    """What a process came to: was an entry of others, or its own, found; what was said; which folder is written to."""

    planted: bool
    own: bool
    said: list[str]
    write: str | None


def use(pause: Action = lambda: None) -> Outcome:
    """Use the cache that the variables name in every way, with a pause after the first store."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        store = Store(resolve_layers(), memory_bytes=0)
        store.store(OWN)
        own = store.load(OWN.key, OWN.canonical) == OWN
        pause()
        found = [store.load(PLANTED.key, PLANTED.canonical)]
        store.unwritten_hits[OWN.key] = 1
        store.store(LATER)
        store.flush()
        found.append(store.load(PLANTED.key, PLANTED.canonical))
        inspect.clear(store, function="nobody's")
        inspect.clear(store)
    return Outcome(any(found), own, [str(w.message) for w in said], store.layers.write)


def victim_uses(between: Action = lambda: None, **variables: str) -> Outcome:
    """Let the victim use the cache under these variables."""
    def act(pause: Action) -> Outcome:
        os.environ.update(variables)
        return use(pause)

    return Outcome(*as_user(VICTIM, act, between))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user reaches, as a machine's root folder is."""
    path = Path(tempfile.mkdtemp(prefix="jitfuse-users-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def owned(path: Path, user: int) -> Path:
    os.chown(path, user, user, follow_symlinks=False)
    return path


def folder_of(user: int, path: Path, mode: int = 0o755) -> Path:
    path.mkdir(exist_ok=True)
    owned(path, user).chmod(mode)
    return path


def link_of(user: int, path: Path, target: Path | str) -> None:
    path.symlink_to(target)
    owned(path, user)


def everything(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that lies below a folder: owner, mode, and content or target."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (status.st_uid, status.st_mode, content)
    return found


# ---------------------------------------------------------------------- links and folders on the way
NAMES = ("a", "b", "cache")
"""The victim's folder, below a folder as /tmp is."""


class Scene(NamedTuple):
    """The machine: `shared` is as /tmp, `unpacked` an archive of the attacker's that the victim unpacked at home,
    `theirs` a folder of the attacker's. Both hold the folders `NAMES`, with an entry at the end."""

    shared: Path
    home: Path
    unpacked: Path
    theirs: Path


def fill(root: Path, user: int, names: tuple[str, ...] = NAMES, mode: int = 0o755) -> Path:
    """Make a folder and `names` below it, with the planted entry at the end, all of one user."""
    folder = folder_of(user, root, mode)
    for name in names:
        folder = folder_of(user, folder / name)
    path = Path(files.entry_path(str(folder), PLANTED.key))
    path.write_bytes(encode(PLANTED))
    owned(path, user).chmod(0o644)
    return root


@pytest.fixture
def scene(place: Path) -> Scene:
    home = folder_of(VICTIM, place / "home")
    return Scene(
        folder_of(ROOT, place / "tmp", 0o1777), home, fill(home / "unpacked", VICTIM), fill(place / "theirs", ATTACKER)
    )


def put_link_to_a_link(scene: Scene, spot: Path, below: tuple[str, ...], user: int) -> None:
    link_of(VICTIM, scene.home / "mine", scene.unpacked)
    link_of(user, spot, (scene.home / "mine").joinpath(*below))


PLANTS: dict[str, Callable[[Scene, Path, tuple[str, ...], int], object]] = {
    "link": lambda scene, spot, below, user: link_of(user, spot, scene.unpacked.joinpath(*below)),
    "relative link": lambda scene, spot, below, user: link_of(
        user, spot, os.path.relpath(scene.unpacked.joinpath(*below), spot.parent)
    ),
    "link to a link": put_link_to_a_link,
    "link to theirs": lambda scene, spot, below, user: link_of(user, spot, scene.theirs.joinpath(*below)),
    "link to nothing": lambda scene, spot, below, user: link_of(user, spot, scene.home / "nothing"),
    "circle": lambda scene, spot, below, user: link_of(user, spot, spot),
    "folder": lambda scene, spot, below, user: fill(spot, user, NAMES[len(below):], 0o755),
    "open folder": lambda scene, spot, below, user: fill(spot, user, NAMES[len(below):], 0o777),
    "file": lambda scene, spot, below, user: (spot.write_bytes(encode(PLANTED)), owned(spot, user)),
    "pipe": lambda scene, spot, below, user: (os.mkfifo(spot), owned(spot, user)),
}
LEVELS = pytest.mark.parametrize("level", range(len(NAMES)))
KINDS = pytest.mark.parametrize("kind", PLANTS)


def spot_at(scene: Scene, level: int) -> tuple[Path, tuple[str, ...]]:
    """Return the path at a level of `NAMES`, and its names; all above it are folders as /tmp is."""
    spot = scene.shared
    for name in NAMES[:level]:
        spot = folder_of(ROOT, spot / name, 0o1777)
    return spot / NAMES[level], NAMES[:level + 1]


@KINDS
@LEVELS
@pytest.mark.parametrize("variable", ["JITFUSE_CACHE_DIR", "JITFUSE_CACHE_PATH"])
def test_the_attacker_is_first(scene: Scene, place: Path, kind: str, level: int, variable: str) -> None:
    spot, below = spot_at(scene, level)
    PLANTS[kind](scene, spot, below, ATTACKER)
    before = everything(place)
    path = str(scene.shared.joinpath(*NAMES))
    found = victim_uses(**{variable: path if variable.endswith("DIR") else f"{path}{os.pathsep}"})
    assert not found.planted and not found.own and found.write is None
    assert len(found.said) == 1 and "not used" in found.said[0]
    assert everything(place) == before, "nothing was written, and nothing removed"


@KINDS
@LEVELS
def test_the_attacker_comes_between_looking_and_creating(scene: Scene, place: Path, kind: str, level: int) -> None:
    spot, below = spot_at(scene, level)
    before: dict[str, object] = {}

    def plant() -> None:
        PLANTS[kind](scene, spot, below, ATTACKER)
        before.update(everything(place))

    def act(pause: Action) -> Outcome:
        mkdir = os.mkdir

        def slow_mkdir(path: str, mode: int) -> None:
            if path == str(spot):
                pause()
            mkdir(path, mode)

        os.mkdir = slow_mkdir  # type: ignore[assignment]
        os.environ["JITFUSE_CACHE_DIR"] = str(scene.shared.joinpath(*NAMES))
        return use()

    found = Outcome(*as_user(VICTIM, act, plant))
    assert before, "the attacker came"
    assert not found.planted and not found.own and found.write is None and len(found.said) == 1
    assert everything(place) == before


@KINDS
@LEVELS
@pytest.mark.parametrize("layer", ["write", "read"])
def test_the_victim_is_first_and_what_it_made_is_removed_while_it_runs(
    scene: Scene, place: Path, kind: str, level: int, layer: str,
) -> None:
    """As programs do that clean /tmp: they leave the name to whoever comes next."""
    spot, below = spot_at(scene, level)
    path = scene.shared.joinpath(*NAMES)
    before: dict[str, object] = {}
    if layer == "read":
        for parent in [*reversed(path.parents), path]:
            if not parent.exists():
                folder_of(VICTIM, parent)

    def replace() -> None:
        shutil.rmtree(spot)
        PLANTS[kind](scene, spot, below, ATTACKER)
        before.update(everything(place))

    variables = {"JITFUSE_CACHE_DIR": str(path)} if layer == "write" else {"JITFUSE_CACHE_PATH": f"{path}{os.pathsep}"}
    found = victim_uses(replace, **variables)
    assert before and not found.planted and found.own == (layer == "write")
    assert len(found.said) == 1
    assert everything(place) == before


@LEVELS
@pytest.mark.parametrize("kind", ["link", "relative link", "link to a link"])
@pytest.mark.parametrize("back", [False, True])
def test_the_attacker_comes_between_looking_and_reading(scene: Scene, level: int, kind: str, back: bool) -> None:
    """Also where the attacker goes again, and leaves the name to a folder of the victim's."""
    spot, below = spot_at(scene, level)
    path = scene.shared.joinpath(*NAMES)

    def replace() -> None:
        shutil.rmtree(spot)
        PLANTS[kind](scene, spot, below, ATTACKER)

    def go() -> None:
        spot.unlink()
        for folder in [*reversed(path.parents), path]:
            if not folder.exists():
                folder_of(VICTIM, folder)

    steps = iter([replace, go])

    def act(pause: Action) -> bool:
        read = files.read
        os.environ["JITFUSE_CACHE_DIR"] = str(path)

        def slow_read(name: str) -> tuple[bytes, float]:
            pause()
            data = read(name)
            if back:
                pause()
            return data

        store = Store(resolve_layers(), memory_bytes=0)
        assert store.store(OWN)
        files.read = slow_read
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return store.load(PLANTED.key, PLANTED.canonical) is None

    assert as_user(VICTIM, act, lambda: next(steps)())
    assert next(steps, None) is (None if back else go), "the attacker came"


@LEVELS
@pytest.mark.parametrize("kind", ["link", "relative link", "link to a link"])
@pytest.mark.parametrize("user", [VICTIM, ROOT])
def test_the_same_links_of_ones_own_or_of_root_serve(scene: Scene, kind: str, level: int, user: int) -> None:
    spot, below = spot_at(scene, level)
    PLANTS[kind](scene, spot, below, user)
    found = victim_uses(JITFUSE_CACHE_DIR=str(scene.shared.joinpath(*NAMES)))
    assert found.planted and found.own and found.said == []
    assert found.write == str(scene.unpacked.joinpath(*NAMES))


@pytest.mark.parametrize("target", ["theirs/../home/unpacked", "tmp/link", "tmp/../theirs/back", "group/link"])
def test_a_link_of_ones_own_that_leads_past_others(scene: Scene, place: Path, target: str) -> None:
    link_of(ATTACKER, scene.shared / "link", scene.unpacked)
    link_of(VICTIM, scene.theirs / "back", scene.unpacked)
    link_of(ROOT, folder_of(ROOT, place / "group", 0o2775) / "link", scene.unpacked)
    link_of(VICTIM, scene.home / "mine", place / target)
    before = everything(place)
    found = victim_uses(JITFUSE_CACHE_DIR=str((scene.home / "mine").joinpath(*NAMES)))
    assert not found.planted and found.write is None and len(found.said) == 1
    assert everything(place) == before


def test_a_chain_of_links_has_an_end(scene: Scene, place: Path) -> None:
    link_of(VICTIM, scene.home / "0", scene.unpacked.joinpath(*NAMES))
    for number in range(1, 41):
        link_of(VICTIM, scene.home / str(number), str(number - 1))
    assert victim_uses(JITFUSE_CACHE_DIR=str(scene.home / "39")).planted
    (said,) = victim_uses(JITFUSE_CACHE_DIR=str(scene.home / "40")).said
    assert "Too many levels of symbolic links" in said


# ---------------------------------------------------------------------- homes and working folders of others
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_home_of_another_user(place: Path, mode: int) -> None:
    home = folder_of(ATTACKER, place / "home", mode)
    found = victim_uses(HOME=str(home), XDG_CACHE_HOME="")
    assert found.write is None and len(found.said) == 1 and f"user id {ATTACKER}" in found.said[0]
    assert everything(home) == {}


@pytest.mark.parametrize("home", ["", None, "relative"])
def test_no_home(place: Path, home: str | None) -> None:
    work = folder_of(ROOT, place / "work")

    def act(_: Action) -> Outcome:
        os.chdir(work)
        os.environ.pop("XDG_CACHE_HOME", None)
        os.environ.pop("HOME", None)
        os.environ.update({} if home is None else {"HOME": home})
        return use()

    found = Outcome(*as_user(VICTIM, act))
    assert found.write is None and len(found.said) == 1 and everything(work) == {}


def test_a_relative_path_in_a_working_folder_of_another_user(scene: Scene) -> None:
    def act(_: Action) -> Outcome:
        os.chdir(scene.theirs)
        os.environ["JITFUSE_CACHE_DIR"] = os.path.join(*NAMES)
        return use()

    found = Outcome(*as_user(VICTIM, act))
    assert not found.planted and found.write is None and f"user id {ATTACKER}" in found.said[0]


# ---------------------------------------------------------------------- folders for groups, and JITFUSE_CACHE_TRUST
OPEN_FOLDERS = pytest.mark.parametrize("mode", [0o777, 0o2777, 0o2775])


def open_folder(place: Path, mode: int) -> Path:
    """Return root's folder that a group of the victim's may write to, as volumes of containers are."""
    data = folder_of(ROOT, place / "data", mode)
    os.chown(data, ROOT, VICTIM)
    data.chmod(mode)
    return data


@OPEN_FOLDERS
@pytest.mark.parametrize("made", [False, True])
def test_a_private_folder_in_a_folder_for_all_is_not_used(place: Path, mode: int, made: bool) -> None:
    data = open_folder(place, mode)
    if made:
        folder_of(VICTIM, data / "cache", 0o700)
    before = everything(place)
    found = victim_uses(JITFUSE_CACHE_DIR=str(data / "cache"))
    assert found.write is None and not found.own and everything(place) == before
    assert len(found.said) == 1 and "JITFUSE_CACHE_TRUST=everyone" in found.said[0] and str(data) in found.said[0]


@OPEN_FOLDERS
@pytest.mark.parametrize("below", ["", "cache", "of/many"])
def test_it_is_used_where_everyone_is_trusted(place: Path, mode: int, below: str) -> None:
    path = str(open_folder(place, mode) / below).rstrip("/")
    found = victim_uses(JITFUSE_CACHE_DIR=path, JITFUSE_CACHE_TRUST="everyone")
    assert found == Outcome(False, True, [], path)


def test_links_folders_and_files_of_others_serve_where_everyone_is_trusted(scene: Scene) -> None:
    spot, below = spot_at(scene, 1)
    PLANTS["link to theirs"](scene, spot, below, ATTACKER)
    path = str(scene.shared.joinpath(*NAMES))
    found = victim_uses(JITFUSE_CACHE_PATH=f"{path}{os.pathsep}", JITFUSE_CACHE_TRUST="everyone")
    assert found.planted and found.said == []


def test_links_and_pipes_are_no_entries_even_where_everyone_is_trusted(scene: Scene, place: Path) -> None:
    data = open_folder(place, 0o2777)
    link_of(ATTACKER, Path(files.entry_path(str(data), PLANTED.key)), files.entry_path(
        str(scene.unpacked.joinpath(*NAMES)), PLANTED.key
    ))
    os.mkfifo(files.entry_path(str(data), LATER.key))
    found = victim_uses(JITFUSE_CACHE_DIR=str(data), JITFUSE_CACHE_TRUST="everyone")
    assert not found.planted and found.own and len(found.said) == 1


@pytest.mark.parametrize("real", [(ATTACKER, VICTIM), (VICTIM, ATTACKER), (ATTACKER, ATTACKER)])
def test_a_set_user_id_program_trusts_nobody_for_its_callers_variable(scene: Scene, real: tuple[int, int]) -> None:
    spot, below = spot_at(scene, 0)
    PLANTS["link"](scene, spot, below, ATTACKER)

    def act(_: Action) -> Outcome:
        os.setresgid(real[1], VICTIM, VICTIM)
        os.setresuid(real[0], VICTIM, VICTIM)
        os.environ["JITFUSE_CACHE_DIR"] = str(scene.shared.joinpath(*NAMES))
        os.environ["JITFUSE_CACHE_TRUST"] = "everyone"
        return use()

    found = Outcome(*as_user(ROOT, act))
    assert not found.planted and found.write is None
    assert [("set-user-id" in said, "the link" in said) for said in found.said] == [(True, False), (False, True)]


# ---------------------------------------------------------------------- what is left of a time when the folder was open
def plant_in_folder(kind: str, folder: Path, precious: Path) -> None:
    """Put under the cache's own names what the attacker could, while the folder was open to all."""
    log, entry = folder / usage.NAME, Path(files.entry_path(str(folder), PLANTED.key))
    partial = folder / ".jfc-0123"
    path = {"log": log, "entry": entry, "partial": partial}[kind.split()[0]]
    if kind.endswith(" link"):
        link_of(ATTACKER, path, precious)
    elif kind.endswith(" hard-link"):
        os.link(precious, path)
    elif kind.endswith(" pipe"):
        os.mkfifo(path, 0o666)
    elif kind.endswith(" folder"):
        (folder_of(ATTACKER, path) / "full").touch()
    elif kind.endswith(" huge file"):
        with open(path, "wb") as file:
            file.truncate(1 << 40)
        owned(path, ATTACKER).chmod(0o666)
    old = time.time() - 1e6
    os.utime(path, (old, old), follow_symlinks=False)


@pytest.mark.parametrize("kind", [
    f"{name} {kind}" for name in ("log", "entry", "partial")
    for kind in ("link", "hard-link", "pipe", "folder", "huge file")
])
def test_names_of_the_cache_that_the_attacker_used(place: Path, kind: str) -> None:
    """No more is done to them than to remove the name: what a link leads to stays as it is."""
    home = folder_of(VICTIM, place / "home")
    folder, precious = folder_of(VICTIM, home / "cache"), home / "precious"
    precious.write_text("mine")
    owned(precious, VICTIM)
    plant_in_folder(kind, folder, precious)

    def act(_: Action) -> tuple[bool, list[str]]:
        os.environ["JITFUSE_CACHE_DIR"] = str(folder)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            store = Store(resolve_layers(), memory_bytes=0)
            found = store.load(PLANTED.key, PLANTED.canonical)
            assert store.store(OWN) and store.load(OWN.key, OWN.canonical) == OWN
            store.flush()
            usage.fold(str(folder))
            files.evict(str(folder), 1 << 20, 100, OWN.key)
            assert store.load(OWN.key, OWN.canonical) == OWN, "what is planted takes no place"
            inspect.clear(store)
        return found is not None, [str(w.message) for w in said]

    found, said = as_user(VICTIM, act)
    assert not found and len(said) == kind.startswith("entry")
    assert precious.read_text() == "mine"
    left = [path.name for path in folder.iterdir()]
    assert len(left) == kind.endswith("folder"), "a folder that is not empty is all that cannot be removed"
