"""Imports go one way: reads every module's imports and compares them with the published order."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "jitfuse": ROOT / "jitfuse", "jitfuse.tracing": ROOT / "tracing", "jitfuse.backends": ROOT / "backends",
    "jitfuse.cache": ROOT / "cache",
}
BASE = {
    "behind", "beside", "collecting", "digests", "dtypes", "errors", "forks", "later", "lazy", "records", "version",
}
PASSES = {"passes", "plans"}
BACKENDS = {"backends"}
CACHE = {"cache"}
UP_TO_TRACING = BASE | {"ir", "tracing"}
UP_TO_COMPILE = UP_TO_TRACING | PASSES | BACKENDS | CACHE | {"compile"}
PARTS = BASE | PASSES | BACKENDS | CACHE | {"ir", "tracing", "compile", "exporting"}
TOP = {"__main__", "cli", "demo"}
FUNCTION = UP_TO_COMPILE | {
    "argument_leaves", "drawing", "explain", "explain_html", "exporting", "fallback", "files", "frameworks", "function",
    "function_export", "function_limits", "gpu", "misses", "options", "random", "splitting",
}
# what users call ("fuse", "nn", the namespace) is everything that has no row here
MAY_IMPORT = {
    "errors": {"records"},
    "dtypes": {"errors"},
    "forks": set(),
    "behind": {"forks"},
    "beside": {"forks"},
    "collecting": {"forks"},
    "digests": set(),
    "later": set(),
    "records": set(),
    "version": set(),
    "lazy": set(),
    "ir": BASE | {"ir"},
    "tracing": UP_TO_TRACING,
    "passes": UP_TO_TRACING | PASSES,
    "plans": UP_TO_TRACING | PASSES,
    "backends": UP_TO_TRACING | BACKENDS,
    "cache": BASE | CACHE,
    "compile": UP_TO_COMPILE,
    "exporting": BASE | {"ir", "exporting"},
    "splitting": FUNCTION,
    "function": FUNCTION,
}


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module's dotted name and file; the symlinks are not followed."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            if any(part.is_symlink() for part in (path, *path.parents) if part != folder.parent):
                continue
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *parts]).removesuffix(".__init__"), path


MODULES = dict(modules())


def part(module: str) -> str:
    """Return the row of the order that a module belongs to: the name behind ``jitfuse.``."""
    return (module.split(".") + [""])[1]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of all imports of a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in MODULES or node.module == "jitfuse" else node.module


def forbidden(module: str, imported: str) -> str | None:
    """Return why `module` must not import `imported`, or None."""
    here, there = part(module), part(imported)
    if imported.split(".")[0] in ("tracing", "backends", "cache"):
        return "source folders are imported through jitfuse"
    if imported.split(".")[0] != "jitfuse" or imported == "jitfuse":
        return None
    if here in MAY_IMPORT:
        return None if there in MAY_IMPORT[here] else f"{here} comes before {there}"
    if there in TOP and here not in TOP:
        return f"{there} is the last layer"
    return None


def test_every_source_file_is_seen() -> None:
    assert {part(m) for m in MODULES} >= PARTS - {"compile"}
    assert len(MODULES) > 60


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    path = MODULES[module]
    found = [(line, name, forbidden(module, name)) for line, name in imports(path)]
    assert not [f"{path}:{line}: imports {name}: {why}" for line, name, why in found if why]


@pytest.mark.parametrize(("module", "imported", "allowed"), [
    ("jitfuse.cache.store", "jitfuse.ir.program", False),
    ("jitfuse.plans.body", "jitfuse.backends.llvm.jit", False),
    ("jitfuse.backends.llvm.jit", "jitfuse.cache", False),
    ("jitfuse.ir.ops", "jitfuse.tracing.abstract", False),
    ("jitfuse.tracing.tracer", "jitfuse.fuse", False),
    ("jitfuse.fuse", "jitfuse.demo", False),
    ("jitfuse.errors", "jitfuse.dtypes", False),
    ("jitfuse.fuse", "tracing.tracer", False),
    ("jitfuse.function.pipeline", "jitfuse.fuse", False),
    ("jitfuse.tracing.tracer", "jitfuse.asarray", False),
    ("jitfuse.passes.mode", "jitfuse.ir.ops", True),
    ("jitfuse.compile", "jitfuse.backends.llvm.jit", True),
    ("jitfuse.demo", "jitfuse.fuse", True),
    ("jitfuse.nn", "jitfuse.compile", True),
    ("jitfuse.fuse", "jitfuse.function.pipeline", True),
])
def test_the_check_itself(module: str, imported: str, allowed: bool) -> None:
    assert (forbidden(module, imported) is None) == allowed
