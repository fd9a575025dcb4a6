"""Several users in one test: processes of a victim, and what an attacker puts in their way. For root alone."""
from __future__ import annotations

import multiprocessing
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jitfuse.cache import Entry, Store, inspect, notices
from jitfuse.cache import folder as files
from jitfuse.cache.entry import encode
from jitfuse.cache.keys import cache_key
from jitfuse.cache.location import resolve_layers

ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)
ATTACKER, VICTIM, ROOT = 54_321, 54_322, 0
Action = Callable[[], None]
PLANTED, OWN, LATER = (Entry(cache_key({"of": name}), {}, name.encode(), b"code") for name in ("them", "us", "later"))


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
