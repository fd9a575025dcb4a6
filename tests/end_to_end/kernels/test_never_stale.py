"""The cache is never stale: what changes a result changes it, and only what changes code changes keys.

Programs run in processes of their own on one folder, so that what one process left is what the next one finds.
"""
from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf
from jitfuse.backends.llvm import target
from jitfuse.backends.llvm.loader import OWN_LOADER
from jitfuse.cache import Entry, default_store, keys
from jitfuse.cache.sources import list_sources, package_root
from jitfuse.compile.objects import keys as compile_keys
from jitfuse.compile.objects.keys import object_key

SCALE_FACTOR = 2.5


def key_of(fused: Any) -> str:
    """Return the key of the one object that the last signature of a function runs."""
    key: str = fused.parts.specs[0].plans[False].kernels.objects[0].key
    return key


# ---------------------------------------------------------------------- one process: state of the program
def plus(x: Any) -> Any:
    return x + 0.75


def minus(x: Any) -> Any:
    return x - 0.75


helper = plus


def test_another_number_in_a_global_is_another_result_of_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = jf.fuse(lambda x: np.cos(x) * SCALE_FACTOR - x)
    x = np.linspace(0, 3, 17)
    found = set()
    for value in (2.5, -1.25, 7.0):
        monkeypatch.setitem(globals(), "SCALE_FACTOR", value)
        np.testing.assert_allclose(fused(x), np.cos(x) * value - x, rtol=1e-14)
        found.add(key_of(fused))
    assert len(found) == 1


def test_another_helper_is_another_key_and_the_first_one_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = jf.fuse(lambda x: helper(np.sin(x)) * 3.0)
    x = np.linspace(0, 3, 17)
    for function in (plus, minus, plus):
        monkeypatch.setitem(globals(), "helper", function)
        np.testing.assert_allclose(fused(x), function(np.sin(x)) * 3.0, rtol=1e-14, atol=1e-15)
    assert len({spec.plans[False].kernels.objects[0].key for spec in fused.parts.specs}) == 2


def test_another_default_argument_is_another_result() -> None:
    def plain(x: Any, factor: Any = 2.0, *, offset: Any = 1) -> Any:
        return np.sqrt(x) * factor + offset

    fused, x = jf.fuse(plain), np.linspace(1, 3, 9)
    for defaults, keywords in (((2.0,), {"offset": 1}), ((-3.0,), {"offset": 1}), ((2.0,), {"offset": 40}),
                               ((np.arange(9.0),), {"offset": 0.5})):
        plain.__defaults__, plain.__kwdefaults__ = defaults, keywords
        np.testing.assert_allclose(fused(x), plain(x), rtol=1e-14)


def test_the_code_of_a_helper_exchanged_in_place() -> None:
    def inner(x: Any) -> Any:
        return x * 2.0

    def other(x: Any) -> Any:
        return x / 8.0

    fused = jf.fuse(lambda x: inner(x) + 1.0)
    x = np.linspace(1, 3, 9)
    np.testing.assert_array_equal(fused(x), x * 2.0 + 1.0)
    inner.__code__ = other.__code__
    np.testing.assert_array_equal(fused(x), x / 8.0 + 1.0)


def load_module(path: Path, text: str) -> ModuleType:
    """Write a module's text and import it anew under the name of its file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(path.stem, importlib.util.module_from_spec(spec))
    exec(compile(text, str(path), "exec"), module.__dict__)  # as importlib.reload, without its cached bytecode
    return module


def test_a_helper_in_another_file_is_edited_and_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "helpers_of_a_stale_test.py"
    monkeypatch.setitem(sys.modules, path.stem, ModuleType(path.stem))
    module = load_module(path, "import numpy as np\ndef g(x):\n    return np.sin(x) + 1\n")
    fused = jf.fuse(lambda x: module.g(x) * 2.0)
    x = np.linspace(0, 1, 5)
    np.testing.assert_allclose(fused(x), (np.sin(x) + 1) * 2.0, rtol=1e-14)
    load_module(path, "import numpy as np\ndef g(x):\n    return np.cos(x) - 1\n")
    np.testing.assert_allclose(fused(x), (np.cos(x) - 1) * 2.0, rtol=1e-13, atol=1e-15)


# ---------------------------------------------------------------------- many processes: places, names, seeds, sources
PROGRAM = """
import json, sys
import numpy as np
import jitfuse as jf
import {helper}

@jf.fuse
def {function}({argument}, weight):
    total = np.sum({argument} * weight, axis=0)
    names = {{"one": 1.5, "two": 2.5, "three": -0.5}}
    return {{name: {helper}.shift(total, value) for name, value in names.items()}}

x = np.linspace(-2, 2, 60).reshape(12, 5)
got = {function}(x, 0.25)
plain = {function}.__wrapped__(x, 0.25)
for name in plain:
    np.testing.assert_allclose(got[name], plain[name], rtol=1e-13, atol=1e-13)
print(json.dumps([{{"keys": sorted(k.key for k in {function}.kernels), **{function}.stats()}}, jf.__file__]))
"""
HELPER = "import numpy as np\ndef shift(value, by):\n    return np.exp(value * 0.125) {operator} by\n"


def run_program(
    place: Path, folder: Path, *, package: Path | None = None, operator: str = "+", seed: str = "random",
    helper: str = "tools", function: str = "f", argument: str = "x",
) -> dict[str, Any]:
    """Run the program from files of its own in `place`; return its keys and counts."""
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{helper}.py").write_text(HELPER.format(operator=operator))
    main = place / f"{function}_main.py"
    main.write_text(PROGRAM.format(helper=helper, function=function, argument=argument))
    environment = {
        **os.environ, "PYTHONHASHSEED": seed, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.path.dirname(package or package_root()),
    }
    command = [sys.executable, "-W", "error", str(main)]
    done = subprocess.run(
        command, env=environment, cwd=place, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    result, file = json.loads(done.stdout)
    assert os.path.dirname(file) == str(package or package_root())
    found: dict[str, Any] = result
    return found


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package at another path, as a wheel installs it."""
    package = tmp_path_factory.mktemp("elsewhere") / "lib" / "jitfuse"
    shutil.copytree(package_root(), package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.mark.full
@pytest.mark.skipif(not OWN_LOADER, reason="the runtime of other systems is compiled before the first call ends")
def test_names_places_seeds_and_checkouts_share_keys_and_sources_do_not(tmp_path: Path, checkout: Path) -> None:
    folder = tmp_path / "cache"
    first = run_program(tmp_path / "one", folder, seed="0")
    assert first["compiles"] == 1 and first["cache_hits"] == 0
    for changes in (
        {"seed": "1"}, {"helper": "moved_tools"}, {"function": "renamed", "argument": "values"}, {"package": checkout},
    ):
        other = run_program(tmp_path / "two" / "three", folder, **changes)  # type: ignore[arg-type]
        assert other["keys"] == first["keys"] and other["compiles"] == 0, changes
    edited = run_program(tmp_path / "one", folder, operator="-")
    assert edited["compiles"] == 1 and not set(edited["keys"]) & set(first["keys"])
    append(checkout / "cli" / "output.py", "# no code is generated here\n")
    assert run_program(tmp_path / "one", folder, package=checkout)["compiles"] == 0
    append(checkout / "backends" / "llvm" / "codegen" / "kernel.py", "# here it is\n")
    changed = run_program(tmp_path / "one", folder, package=checkout)
    assert changed["compiles"] == 1 and not set(changed["keys"]) & set(first["keys"])
    again = run_program(tmp_path / "one", folder, package=checkout)
    assert again["compiles"] == 0 and again["keys"] == changed["keys"]


# ---------------------------------------------------------------------- the key of an object
@pytest.fixture
def fresh_keys() -> Iterator[Callable[[], str]]:
    """Make the key of one form as a new process would."""
    def clear() -> None:
        compile_keys.environment.cache_clear()
        target.machine_identity.cache_clear()

    def key() -> str:
        clear()
        return object_key(b"a form")

    yield key
    clear()


def test_options_and_versions_are_in_the_key(fresh_keys: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {fresh_keys()}
    for module, name, value in (
        (compile_keys, "LEVEL", 3), (keys, "__version__", "99.0"), (keys, "FORMAT_VERSION", 99),
        (keys, "sources_digest", lambda: "other sources"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            seen.add(fresh_keys())
    assert len(seen) == 5 and fresh_keys() in seen


@pytest.mark.skipif(not OWN_LOADER, reason="other systems ask LLVM for the processor")
def test_every_word_of_the_processor_is_in_the_key(
    fresh_keys: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = target._processor()
    assert any(word.startswith("cpuid:") for word in words)
    seen = {fresh_keys()}
    for k, word in enumerate(words):
        with monkeypatch.context() as patch:
            patch.setattr(target, "_processor", lambda k=k, word=word: (*words[:k], word + "0", *words[k + 1:]))
            seen.add(fresh_keys())
    assert len(seen) == 1 + len(words)


def test_the_build_of_llvm_is_in_the_key(
    tmp_path: Path, fresh_keys: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "binding").mkdir()
    library, versions = tmp_path / "binding" / "libllvmlite.so", tmp_path / "_version.py"
    monkeypatch.setattr(target, "_llvmlite_folder", lambda: str(tmp_path))
    seen = set()
    for version, size in (("0.50.0", 10), ("0.51.0", 10), ("0.50.0", 11)):
        versions.write_text(f"version_version = '{version}'\nversion_full = 'abc'\n")
        library.write_bytes(bytes(size))
        seen.add(fresh_keys())
    assert len(seen) == 3


def test_adapter_driver_and_wgpu_are_in_the_key_of_a_shader(monkeypatch: pytest.MonkeyPatch) -> None:
    from jitfuse.backends.wgsl.runtime.device import AdapterInfo, Device

    def identity(version: str, rewrites: bool, features: frozenset[str], *info: str) -> tuple[str, ...]:
        monkeypatch.setitem(sys.modules, "wgpu", SimpleNamespace(__version__=version))  # type: ignore[arg-type]
        pretended = SimpleNamespace(
            info=AdapterInfo(*info, ()), facts=SimpleNamespace(rewrites=rewrites), features=features
        )
        return Device.identity(pretended)  # type: ignore[arg-type]

    nothing: frozenset[str] = frozenset()
    both = frozenset({"shader-f64", "shader-int64"})
    pretended = [
        ("0.32.0", False, nothing, "card", "discrete", "vulkan", "mesa 22"),
        ("0.33.0", False, nothing, "card", "discrete", "vulkan", "mesa 22"),
        ("0.32.0", True, nothing, "card", "discrete", "vulkan", "mesa 22"),
        ("0.32.0", False, both, "card", "discrete", "vulkan", "mesa 22"),
        ("0.32.0", False, nothing, "other", "discrete", "vulkan", "mesa 22"),
        ("0.32.0", False, nothing, "card", "integrated", "vulkan", "mesa 22"),
        ("0.32.0", False, nothing, "card", "discrete", "metal", "mesa 22"),
        ("0.32.0", False, nothing, "card", "discrete", "vulkan", "mesa 23"),
    ]
    assert len({identity(*words) for words in pretended}) == len(pretended)


def test_another_form_under_the_same_key_is_a_miss() -> None:
    store, key = default_store(), object_key(b"the form of this test")
    store.memory.put(Entry(key, {}, b"another form", b"code"))
    assert store.load(key, b"the form of this test") is None
    store.memory.discard(key)


@pytest.mark.full
def test_everything_that_makes_code_is_in_the_digest_of_the_sources() -> None:
    """Follows the imports of the code generators: each module they reach is a source, or makes no code."""
    root = Path(package_root())
    covered = {source[0] for source in list_sources(str(root))}
    todo = [
        "backends.llvm.codegen.kernel", "backends.llvm.jit", "backends.llvm.text.builder",
        "backends.llvm.runtime.native",
        "backends.wgsl.codegen.kernel", "compile.objects.objects", "compile.gpu.kernels", "passes.pipeline", "plans",
        "compile.call_plans.call_plan",
    ]
    seen: set[str] = set()
    while todo:
        module = todo.pop()
        if module in seen or module == "errors" or module.split(".")[0] == "cache":
            continue
        seen.add(module)
        path = root / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert path.relative_to(root).as_posix() in covered, f"{module} is no source of the digest"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jitfuse."):
                base = str(node.module).removeprefix("jitfuse.")
                todo.append(base)
                todo += [inner for alias in node.names if _is_module(root, inner := f"{base}.{alias.name}")]
    assert len(seen) > 60


def _is_module(root: Path, name: str) -> bool:
    path = root / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or path.is_dir()
