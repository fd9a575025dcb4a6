"""Other users put links, folders, files and pipes on the way to the cache, in every order of events.

A victim's processes are real processes of another user, so only root can run these tests; elsewhere they are skipped.
The rules one by one, for any user, are in test_location.py; whole programs of several users are in
tests/end_to_end/kernels/test_never_unsafe.py.
"""
from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest

from jitfuse.cache import Store
from jitfuse.cache import folder as files
from jitfuse.cache.location import resolve_layers
from tests.cache.other_users import (
    ATTACKER,
    KINDS,
    LEVELS,
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
    spot_at,
    use,
    victim_uses,
)

pytestmark = ROOT_ONLY


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
