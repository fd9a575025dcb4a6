"""The source folders install under one name: checkout, wheel, source archive and editable install agree."""
from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINKS = {"tracing": "../tracing", "backends": "../backends", "cache": "../cache"}
HEAVY = ("llvmlite", "torch", "wgpu", "rich", "platformdirs", "bytecode", "scipy", "sklearn", "PIL", "highspy",
         "opt_einsum")
NEEDS_SETUPTOOLS = pytest.mark.skipif(
    int(importlib.metadata.version("setuptools").split(".")[0]) < 77 if importlib.util.find_spec("setuptools")
    else True,
    reason="building without the network needs setuptools>=77 (the extra `test` brings it)",
)
PROBE = """
import importlib, os, sys
import jitfuse
for name in {modules}:
    module = importlib.import_module(name)
    assert module.__name__ == name
    print(os.path.realpath(module.__file__))
"""


def configuration() -> dict[str, object]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        setuptools: dict[str, object] = tomllib.load(file)["tool"]["setuptools"]
    return setuptools


def source_packages() -> dict[str, Path]:
    """Return every folder of Python files under the four source folders by its dotted name."""
    found = {}
    for top in ("jitfuse", *LINKS):
        name = top if top == "jitfuse" else f"jitfuse.{top}"
        for folder, folders, files in os.walk(ROOT / top):
            folders[:] = [f for f in folders if f != "__pycache__" and not Path(folder, f).is_symlink()]
            if any(file.endswith(".py") for file in files):
                inner = Path(folder).relative_to(ROOT / top).parts
                found[".".join([name, *inner])] = Path(folder)
    return found


def source_files() -> set[str]:
    """Return what a wheel must hold, as paths inside it."""
    return {
        str(Path(*name.split("."), file.name))
        for name, folder in source_packages().items() for file in folder.iterdir()
        if file.suffix == ".py" or file.name == "py.typed"
    }


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command away from this checkout's paths and return its output; fail with what it said."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JITFUSE_"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**plain, **(environment or {})}, capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree that builds may write into."""
    target = tmp_path_factory.mktemp("source") / "checkout"
    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    for name in ("jitfuse", *LINKS):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, tmp_path_factory.mktemp("wheel"))


def build(source: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q",
        "-w", target, source, cwd=target)
    (built,) = target.glob("*.whl")
    return built


def fresh_python(folder: Path) -> Path:
    """Make an environment that has this one's libraries, but no jitfuse."""
    venv.create(folder, with_pip=False)
    libraries = folder / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "jitfuse" not in entry.name and entry.suffix != ".pth":
            (libraries / entry.name).symlink_to(entry)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "libraries.pth").write_text(f"{libraries}\n")
    return folder / "bin" / "python"


def locations(python: Path, cwd: Path, environment: dict[str, str] | None = None) -> set[Path]:
    """Return the real files of all packages as another Python imports them."""
    code = PROBE.format(modules=sorted(source_packages()))
    return {Path(line) for line in run(python, "-c", code, cwd=cwd, environment=environment).split("\n") if line}


def test_the_package_list_is_complete() -> None:
    packages = configuration()["packages"]
    assert isinstance(packages, list)
    assert sorted(packages) == sorted(source_packages())
    assert len(set(packages)) == len(packages)


def test_every_package_has_an_init_file() -> None:
    assert [name for name, folder in source_packages().items() if not (folder / "__init__.py").exists()] == []


def test_the_links_are_right() -> None:
    assert {name: os.readlink(ROOT / "jitfuse" / name) for name in LINKS} == LINKS
    mapping = {f"jitfuse.{name}": name for name in LINKS} | {"jitfuse": "jitfuse"}
    assert configuration()["package-dir"] == mapping


def test_git_keeps_the_links_as_links() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", "-s", *[f"jitfuse/{name}" for name in LINKS], cwd=ROOT)
    assert [line.split()[0] for line in listed.splitlines()] == ["120000"] * 3


def test_import_loads_no_heavy_library(tmp_path: Path) -> None:
    code = f"import jitfuse, sys; print([n for n in {HEAVY} if n in sys.modules])"
    assert run(sys.executable, "-c", code, cwd=tmp_path, environment={"PYTHONPATH": str(ROOT)}) == "[]\n"


@pytest.mark.full
def test_tests_are_collected_without_optional_packages() -> None:
    """The extra `test` brings none of these: modules that need them skip."""
    optional = {"torch", "wgpu", "dask"}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            found = {name.partition(".")[0] for name in names} & optional
            assert not found, f"{path.name}:{node.lineno} imports {found}: use pytest.importorskip"


def test_a_plain_checkout_resolves_through_the_links(tmp_path: Path) -> None:
    found = locations(Path(sys.executable), tmp_path, {"PYTHONPATH": str(ROOT)})
    assert found == {folder / "__init__.py" for folder in source_packages().values()}


@pytest.mark.full
@NEEDS_SETUPTOOLS
def test_the_wheel_holds_every_source_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == source_files()
    assert [name for name in names if name.endswith("licenses/LICENSE")]


@pytest.mark.full
@NEEDS_SETUPTOOLS
def test_the_source_archive_makes_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    code = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, tmp_path, cwd=checkout)
    (archive,) = tmp_path.glob("*.tar.gz")
    again = build(archive, tmp_path / "wheel")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.full
@NEEDS_SETUPTOOLS
def test_the_installed_wheel_works_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    python = fresh_python(tmp_path / "env")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel,
        cwd=tmp_path)
    found = locations(python, tmp_path)
    assert len(found) == len(source_packages())
    assert all(path.is_relative_to((tmp_path / "env").resolve()) for path in found)
    folder = {"JITFUSE_CACHE_DIR": str(tmp_path / "kernels")}
    for command in ([python, "-m", "jitfuse"], [python.parent / "jitfuse"]):
        printed = run(*command, "cache", "path", cwd=tmp_path, environment=folder)
        assert printed.strip() == str((tmp_path / "kernels").resolve())
    assert "agrees with NumPy" in run(python.parent / "jitfuse", "doctor", cwd=tmp_path, environment=folder)


@pytest.mark.full
@NEEDS_SETUPTOOLS
def test_the_editable_install_resolves_to_the_checkout(checkout: Path, tmp_path: Path) -> None:
    python = fresh_python(tmp_path / "env")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index",
        "--no-build-isolation", "-e", checkout, cwd=tmp_path)
    found = locations(python, tmp_path)
    assert len(found) == len(source_packages())
    assert all(path.is_relative_to(checkout.resolve()) for path in found)


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed (extra `dev`)")
def test_the_type_checker_resolves_the_links(tmp_path: Path) -> None:
    code = "from jitfuse.backends.llvm.text.builder import Module\nfrom jitfuse.cache.entry import is_key\n" \
           "from jitfuse.tracing.record.graph import ProcessGraph\n" \
           "reveal_type(Module)\nreveal_type(is_key)\nreveal_type(ProcessGraph)\n"
    (tmp_path / "probe.py").write_text(code)
    modules = ("jitfuse.backends.llvm.text.builder", "jitfuse.cache.entry", "jitfuse.tracing.record.graph")
    printed = run(
        sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", tmp_path / "types", "-m", "probe",
        *(part for name in modules for part in ("-m", name)), cwd=tmp_path, environment={"MYPYPATH": f"{ROOT}"},
    )
    for name in ("backends.llvm.text.builder.Module", "def (text: str) -> bool", "tracing.record.graph.ProcessGraph"):
        assert name in printed
