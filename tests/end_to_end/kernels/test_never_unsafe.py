"""The cache is never unsafe: folders and files that others could have written are not used, and nothing in an entry
is unpickled or evaluated.

The rules one by one, for any user, are in tests/cache/test_location.py. Here root plays several users for real:
processes of one user on folders and files of another.
"""
from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from amount import PATIENCE

from jitfuse.cache import default_store, location
from jitfuse.cache.sources import package_root
from jitfuse.cli import main

pytestmark = pytest.mark.skipif(location.owners() is None, reason="the rules are about user ids")
ALICE, MALLORY = 54_321, 54_322
RunAs = Callable[..., dict[str, Any]]
PROGRAM = """
import json, os, sys, warnings
import numpy as np
import jitfuse as jf
from jitfuse.cache import default_store, usage
from jitfuse.compile.interface import native_runtime
from jitfuse.compile.objects.objects import _objects

def run():
    x = np.linspace(0, 1, 9)
    counts = {"compiles": 0, "cache_hits": 0}
    for _ in range(2):
        for f in (lambda x: np.sqrt(x) * 0.75, lambda x: x / 3.5):
            fused = jf.fuse(f)
            np.testing.assert_allclose(fused(x), f(x), rtol=1e-15)
            for name in counts:
                counts[name] += fused.stats()[name]
    return counts

user, environment = int(sys.argv[1]), json.loads(sys.argv[2])
os.environ["JITFUSE_CACHE_DIR"] = sys.argv[3]  # everything is imported as root, for others may not read it
native_runtime()
run()
from jitfuse.backends.llvm import jit
jit.compile_text("define void @k() { ret void }")
default_store().flush()
del os.environ["JITFUSE_CACHE_DIR"]
_objects.clear()
os.setgroups([])
os.setgid(user)
os.setuid(user)
os.environ.update(environment)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    counts = run()
    layers = default_store().layers
print(json.dumps({**counts, "said": [str(w.message) for w in said], "read": layers.read, "write": layers.write}))
"""
ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user reaches, as a machine's root folder is."""
    path = Path(tempfile.mkdtemp(prefix="jitfuse-users-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def run_as(tmp_path_factory: pytest.TempPathFactory) -> RunAs:
    """Run the programs twice each as a user; the results must be right, and nothing may be raised."""
    roots_own = str(tmp_path_factory.mktemp("warm"))  # what processes do before they become another user is done once

    def run(user: int, home: Path, **environment: str) -> dict[str, Any]:
        if any(not path.stat().st_mode & 0o001 for path in Path(package_root()).parents):
            pytest.skip("other users cannot read this checkout")
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("JITFUSE_", "XDG_"))}
        changes = json.dumps({"HOME": str(home), **environment})
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(user), changes, roots_own], capture_output=True, text=True,
            timeout=PATIENCE, env={**variables, "PYTHONPATH": os.path.dirname(package_root())}, cwd="/", check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def home_of(place: Path, user: int, mode: int = 0o700) -> Path:
    home = place / str(user)
    home.mkdir()
    os.chown(home, user, user)
    home.chmod(mode)
    return home


@ROOT_ONLY
class TestUsers:
    """One user's processes on another's folders."""

    @pytest.mark.full
    def test_a_home_of_ones_own(self, place: Path, run_as: RunAs) -> None:
        home = home_of(place, ALICE)
        first, second = (run_as(ALICE, home) for _ in range(2))
        assert first["said"] == second["said"] == []
        assert first["write"] == str(home / ".cache" / "jitfuse") and second["compiles"] == 0
        assert stat.S_IMODE((home / ".cache" / "jitfuse").stat().st_mode) == 0o700

    @pytest.mark.full
    @pytest.mark.parametrize(("owner", "mode", "reason"), [
        (MALLORY, 0o700, "belongs to user"), (MALLORY, 0o777, "belongs to user"), (0, 0o755, "belongs to user id 0"),
        (ALICE, 0o770, "others may write"), (ALICE, 0o777, "others may write"), (ALICE, 0o1777, "others may write"),
    ])
    def test_a_folder_that_is_not_ones_own_alone(
        self, place: Path, run_as: RunAs, owner: int, mode: int, reason: str,
    ) -> None:
        folder = place / "cache"
        folder.mkdir()
        os.chown(folder, owner, owner)
        folder.chmod(mode)
        found = run_as(ALICE, home_of(place, ALICE), JITFUSE_CACHE_DIR=str(folder))
        (said,) = found["said"]
        assert reason in said and found["write"] is None and list(folder.iterdir()) == []

    @pytest.mark.full
    def test_below_a_folder_of_another_user(self, place: Path, run_as: RunAs) -> None:
        mallory = home_of(place, MALLORY, 0o777)
        found = run_as(ALICE, home_of(place, ALICE), JITFUSE_CACHE_DIR=str(mallory / "cache"))
        assert len(found["said"]) == 1 and f"belongs to user id {MALLORY}, who could replace it" in found["said"][0]
        assert list(mallory.iterdir()) == []

    @pytest.mark.full
    def test_prepared_in_a_sticky_folder_before_the_user_came(self, place: Path, run_as: RunAs) -> None:
        shared = place / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        (shared / "alice").mkdir(0o700)
        os.chown(shared / "alice", MALLORY, MALLORY)
        home = home_of(place, ALICE)
        assert "belongs to user id" in run_as(ALICE, home, JITFUSE_CACHE_DIR=str(shared / "alice"))["said"][0]
        assert run_as(ALICE, home, JITFUSE_CACHE_DIR=str(shared / "own"))["said"] == []

    @pytest.mark.full
    def test_a_link_of_another_user_leads_to_a_folder_of_his(self, place: Path, run_as: RunAs) -> None:
        shared = place / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        mallory = home_of(place, MALLORY)
        (shared / "link").symlink_to(mallory)
        os.chown(shared / "link", MALLORY, MALLORY, follow_symlinks=False)
        found = run_as(ALICE, home_of(place, ALICE), JITFUSE_CACHE_DIR=str(shared / "link"))
        assert found["write"] is None and len(found["said"]) == 1

    @pytest.mark.full
    def test_a_home_behind_a_symbolic_link(self, place: Path, run_as: RunAs) -> None:
        disk = place / "disk"
        disk.mkdir()
        home = home_of(disk, ALICE)
        (place / "home").symlink_to(disk)
        found = run_as(ALICE, place / "home" / str(ALICE))
        assert found["said"] == [] and found["write"] == str(home / ".cache" / "jitfuse")

    @pytest.mark.full
    def test_a_read_only_layer_of_root_serves_everyone_and_is_left_alone(self, place: Path, run_as: RunAs) -> None:
        layer = place / "image"
        assert run_as(0, place, JITFUSE_CACHE_DIR=str(layer))["said"] == []
        subprocess.run(["chmod", "-R", "go=rX", str(layer)], check=True)
        before = {path.name: path.stat().st_mtime_ns for path in layer.iterdir()}
        home = home_of(place, ALICE)
        for path in (f"{layer}:{home}/cache", f"{layer}:"):
            found = run_as(ALICE, home, JITFUSE_CACHE_PATH=path)
            assert found["said"] == [] and found["read"] == [str(layer)]
            assert found["compiles"] == 0 and found["cache_hits"] == 4, path
        assert {path.name: path.stat().st_mtime_ns for path in layer.iterdir()} == before

    @pytest.mark.full
    def test_files_of_others_in_a_trusted_folder_are_misses(self, place: Path, run_as: RunAs) -> None:
        home = home_of(place, ALICE)
        run_as(ALICE, home)
        entries = sorted((home / ".cache" / "jitfuse").glob("*.jfc"))
        for path in entries:
            os.chown(path, MALLORY, MALLORY)
            path.chmod(0o644)
        found = run_as(ALICE, home)
        assert found["compiles"] == 2 and len(found["said"]) == 1 and str(MALLORY) in found["said"][0]
        assert {path.stat().st_uid for path in entries} == {ALICE}, "written anew"

    @pytest.mark.full
    def test_a_user_without_rights_on_his_own_folder(self, place: Path, run_as: RunAs) -> None:
        home = home_of(place, ALICE)
        run_as(ALICE, home)
        folder = home / ".cache" / "jitfuse"
        folder.chmod(0o500)  # read-only: loads still work
        found = run_as(ALICE, home)
        assert found["compiles"] == 0 and found["said"] == []
        for path in folder.iterdir():
            path.unlink()
        assert len(run_as(ALICE, home)["said"]) == 1
        folder.chmod(0o000)
        assert len(run_as(ALICE, home)["said"]) <= 2  # reading and writing are two causes


# ---------------------------------------------------------------------- what loading does
AUDITED = """
import sys
import numpy as np
import jitfuse as jf
from jitfuse.base import background
from jitfuse.compile.interface import native_runtime
from jitfuse.compile.objects.objects import _homes, _objects, find_object
from jitfuse.compile.objects.stored_plans import find_plan, plan_name
f = jf.fuse(lambda x: np.cos(x) * 0.75)
f(np.linspace(0, 1, 9))
native_runtime()
background.wait()  # else it stores beside what is watched
(spec,) = f.parts.specs
made, origin = spec.plans[False], f.parts.definition.origin
name = plan_name(spec.trace, False, "slack")
(whole,) = made.kernels.objects
key, canonical = whole.key, whole.entry.canonical

def load():
    _objects.clear()
    _homes.clear()
    found = find_object(lambda: key, canonical, origin)
    assert found[0].from_cache and find_plan(name, origin).kernels.members == (found,)
    found[0].address(0)

load()  # what is imported once
seen = []
sys.addaudithook(lambda event, details: seen.append((event, str(details))))
load()
events = sorted({event for event, _ in seen})
forbidden = ("pickle", "exec", "code.__new__", "compile", "import", "subprocess", "os.system", "socket", "shutil",
             "os.rename", "os.remove", "os.utime", "os.listdir", "os.scandir", "os.mkdir", "os.chmod")
print([event for event in events if event.startswith(forbidden)])
opened = {details for event, details in seen if event == "open"}
print(len(opened))
"""


def test_loading_neither_unpickles_nor_evaluates_nor_writes(tmp_path: Path) -> None:
    environment = {
        **os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.path.dirname(package_root()),
    }
    done = subprocess.run(
        [sys.executable, "-c", AUDITED], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == "[]\n2\n", (done.stdout, done.stderr)


# ---------------------------------------------------------------------- keys that are paths
@pytest.mark.parametrize("key", [
    "../../etc/passwd", "/etc/passwd", "..", "a/b", "abc\0", "%2e%2e", "~", "*", "", "C:\\x",
])
@pytest.mark.parametrize("command", [["show"], ["diff", "00"], ["diff"]])
def test_paths_are_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], key: str,
) -> None:
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "cache"))
    default_store()  # the one before writes down what it was used for
    real = os.open

    def watched(path: str, *more: Any, **keywords: Any) -> int:
        assert str(path).startswith(str(tmp_path)), f"opened {path!r}"
        return real(path, *more, **keywords)

    monkeypatch.setattr(os, "open", watched)
    assert main(["cache", *command, key, *(["00"] if command == ["diff"] else [])]) == 1
    assert ("no cache key" in capsys.readouterr().err) or command == ["diff", "00"]


@pytest.mark.parametrize("name", ["../*", "/etc/passwd", "..", "*/../*"])
def test_names_of_functions_are_no_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "kept.jfc").write_text("mine")
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["cache", "clear", "--function", name]) == 0
    assert (tmp_path / "kept.jfc").read_text() == "mine" and "0 removed" in capsys.readouterr().out
