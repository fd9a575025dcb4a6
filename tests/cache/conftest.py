from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitfuse.cache import Entry, Store, notices
from jitfuse.cache.keys import cache_key
from jitfuse.cache.location import Layers
from tests.cache.other_users import ATTACKER, ROOT, VICTIM, Scene, fill, folder_of

MakeStore = Callable[..., Store]
MakeEntry = Callable[..., Entry]


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    notices.forget()
    yield
    notices.forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A write layer's folder."""
    path = tmp_path / "cache"
    path.mkdir(0o700)
    return path


@pytest.fixture
def store(folder: Path) -> Store:
    return Store(Layers((), str(folder)))


@pytest.fixture
def make_entry() -> MakeEntry:
    def make(number: int = 0, size: int = 100, **metadata: object) -> Entry:
        canonical = f"form {number}".encode()
        code = bytes([number % 251]) * size
        return Entry(cache_key({"form": canonical}), {"function": f"f{number}", **metadata}, canonical, code)

    return make


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user reaches, as a machine's root folder is."""
    path = Path(tempfile.mkdtemp(prefix="jitfuse-users-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def scene(place: Path) -> Scene:
    home = folder_of(VICTIM, place / "home")
    return Scene(
        folder_of(ROOT, place / "tmp", 0o1777), home, fill(home / "unpacked", VICTIM), fill(place / "theirs", ATTACKER)
    )
