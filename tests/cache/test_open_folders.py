"""Cache folders that other users may write to, or could for a while, and what JITFUSE_CACHE_TRUST gives up.

As test_other_users.py, for root alone.
"""
from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import pytest

from jitfuse.cache import Store, inspect, usage
from jitfuse.cache import folder as files
from jitfuse.cache.location import resolve_layers
from tests.cache.other_users import (
    ATTACKER,
    LATER,
    NAMES,
    OWN,
    PLANTED,
    PLANTS,
    ROOT,
    ROOT_ONLY,
    VICTIM,
    Action,
    Outcome,
    Scene,
    as_user,
    everything,
    folder_of,
    link_of,
    owned,
    spot_at,
    use,
    victim_uses,
)

pytestmark = ROOT_ONLY


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
