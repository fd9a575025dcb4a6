"""Imports go one way: the imports of all modules, compared with the published order of the folders.

Every import counts that a run of the program may carry out: at the top of a file, in a function, and by `Later("...")`.
Imports for the type checker alone do not. `layering_violations.txt` lists the imports that went against the order when
the folders were made. The list may only become shorter: a new one fails, and so does one that is listed and gone.
``python tests/test_layering.py`` takes those that are gone from the list.
"""
from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LISTED = Path(__file__).with_name("layering_violations.txt")
SOURCES = {
    "jitfuse": ROOT / "jitfuse", "jitfuse.tracing": ROOT / "tracing", "jitfuse.backends": ROOT / "backends",
    "jitfuse.cache": ROOT / "cache",
}
_ORDER = """
version base reasons errors budget dtypes
ir.statuses ir.schema ir.rules ir.semirings ir.semantics ir.decompositions ir.operators ir.formats ir.analysis
ir.program ir.kernels
tracing.abstract tracing.program_builder gradients tracing.rewrite tracing.interception tracing.record tracing.numbers
tracing.tensor tracing.scalars tracing.observe tracing.results tracing.schedule tracing.control.carried_numbers
tracing.control.loop_ranges
tracing.control.vectorise tracing.control.reroll tracing.control tracing.generators tracing.library_functions
tracing.numpy_like tracing.torch_like tracing.known_libraries tracing.trace tracing.subgraph tracing.hooks
tracing.tracer tracing.interruption
passes.array passes.complex passes plans
backends.interpreter backends.llvm.load backends.llvm backends.llvm.text backends.llvm.math backends.llvm.semirings
backends.llvm.codegen.elements backends.llvm.codegen backends.llvm.runtime backends.wgsl.math backends.wgsl.library
backends.wgsl.codegen backends.wgsl.runtime
cache
compile.debugging compile.call_plans compile.objects compile.guards compile.bind compile.run compile.planning
compile.gpu compile
exporting
arrays
random_state graph_breaks function reports fuse gpu
control array_api own_derivatives random nn linalg fft derivatives optim axes einops
factors.structure factors.work factors.ir factors.rewrites factors.orders factors.formats factors
cli __main__
"""
ORDER = _ORDER.split()
"""The folders, and the files that stand in none, in the order of imports: each may import from itself and from those
before it. A file belongs to the longest name here that its own begins with."""
STRANGERS = [
    ({"passes", "plans"}, {"backends", "cache"}), ({"backends"}, {"passes", "plans", "cache"}),
    ({"cache"}, {"ir", "tracing", "passes", "plans", "backends"}),
    ({"exporting"}, {"tracing", "passes", "plans", "backends", "cache", "compile"}),
]
"""Parts, and those before them that they know nothing of all the same: `compile` puts these together."""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module's dotted name and file; the symlinks are not followed."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            if any(part.is_symlink() for part in (path, *path.parents) if part != folder.parent):
                continue
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *parts]).removesuffix(".__init__"), path


MODULES = dict(modules())


@cache
def room(module: str) -> str | None:
    """Return the name in the order that a module belongs to; None for packages of rooms, and `jitfuse` itself.

    Names of the namespace (`jitfuse.asarray`) belong to `array_api`.
    """
    package, *parts = module.split(".")
    if package != "jitfuse":
        return None
    if len(parts) == 1 and module not in MODULES:
        return "array_api"
    for count in range(len(parts), 0, -1):
        if (name := ".".join(parts[:count])) in ORDER:
            return name
    return None


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of all imports of a file that a run may carry out, those by `Later` too."""
    yield from _imports(ast.parse(path.read_text(encoding="utf-8")), path)


def _imports(node: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for other in node.orelse:
            yield from _imports(other, path)
        return
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, f"{path}:{node.lineno}: a relative import"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield node.lineno, inner if inner in MODULES or node.module == "jitfuse" else node.module
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Later" and node.args:
        name = node.args[0]
        assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: Later takes the name itself"
        yield node.lineno, str(name.value)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, path)


def forbidden(module: str, imported: str) -> str | None:
    """Return why `module` must not import `imported`, or None."""
    if imported.split(".")[0] in ("tracing", "backends", "cache"):
        return "source folders are imported through jitfuse"
    here, there = room(module), room(imported)
    if here is None or there is None:
        return None
    for part, unknown in STRANGERS:
        if here.split(".")[0] in part and there.split(".")[0] in unknown:
            return f"{here} knows nothing of {there}"
    return f"{here} comes before {there}" if ORDER.index(here) < ORDER.index(there) else None


@cache
def violations() -> dict[str, str]:
    """Return the imports that the order forbids, as ``importing -> imported``, each with where and why."""
    found = {}
    for module, path in MODULES.items():
        for line, imported in imports(path):
            if why := forbidden(module, imported):
                found[f"{module} -> {imported}"] = f"{path.relative_to(ROOT)}:{line}: imports {imported}: {why}"
    return found


def circle() -> list[str]:
    """Return the modules of a circle of imports, deferred ones included, the first again at the end; [] without any."""
    graph = {module: {_file_of(name) for _, name in imports(path)} - {None, module, "jitfuse"}
             for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _file_of(name: str) -> str | None:
    """Return the module that an imported name is, or is in."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def listed() -> list[str]:
    """Return the violations of the published list."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_folder_has_a_place_in_the_order() -> None:
    assert [m for m in MODULES if room(m) is None and m not in ("jitfuse", "jitfuse.ir", "jitfuse.tracing",
                                                               "jitfuse.backends", "jitfuse.backends.wgsl")] == []
    used = {room(m) for m in MODULES}
    assert [name for name in ORDER if name not in used] == [], "the order names a folder that is not there"
    assert len(set(ORDER)) == len(ORDER)


def test_no_folder_holds_more_files_than_a_reader_can_survey() -> None:
    counts: dict[Path, int] = {}
    for path in MODULES.values():
        counts[path.parent] = counts.get(path.parent, 0) + 1
    assert {str(folder.relative_to(ROOT)): n for folder, n in counts.items() if n > 36} == {}


def test_every_package_says_what_it_owns() -> None:
    inits = [path for path in MODULES.values() if path.name == "__init__.py"]
    assert [str(path) for path in inits if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []


def test_imports_go_one_way() -> None:
    known = set(listed())
    assert [where for pair, where in violations().items() if pair not in known] == []


def test_the_list_of_violations_only_becomes_shorter() -> None:
    assert len(listed()) == len(set(listed()))
    gone = [pair for pair in listed() if pair not in violations()]
    assert gone == [], "these are gone; run: python tests/test_layering.py"


def test_no_file_imports_itself_through_others() -> None:
    assert circle() == []


@pytest.mark.parametrize(("module", "imported", "allowed"), [
    ("jitfuse.cache.store", "jitfuse.ir.program", False),
    ("jitfuse.plans.body", "jitfuse.backends.llvm.jit", False),
    ("jitfuse.backends.llvm.jit", "jitfuse.cache", False),
    ("jitfuse.backends.wgsl.codegen.kernel", "jitfuse.plans.launch", False),
    ("jitfuse.exporting.module", "jitfuse.tracing.tracer", False),
    ("jitfuse.ir.operators.ops", "jitfuse.tracing.abstract", False),
    ("jitfuse.ir.rules.shape_rules", "jitfuse.ir.operators.ops", False),
    ("jitfuse.tracing.tracer", "jitfuse.fuse", False),
    ("jitfuse.tracing.tracer", "jitfuse.asarray", False),
    ("jitfuse.tracing.record.memory", "jitfuse.tracing.numpy_like.shapes", False),
    ("jitfuse.fuse", "jitfuse.cli.demo", False),
    ("jitfuse.errors", "jitfuse.dtypes", False),
    ("jitfuse.fuse", "tracing.tracer", False),
    ("jitfuse.tracing.numpy_like.shapes", "jitfuse.tracing.record.memory", True),
    ("jitfuse.passes.array.mode", "jitfuse.ir.operators.ops", True),
    ("jitfuse.compile.pipeline", "jitfuse.backends.llvm.jit", True),
    ("jitfuse.cli.demo", "jitfuse.fuse", True),
    ("jitfuse.nn", "jitfuse.compile.pipeline", True),
])
def test_the_check_itself(module: str, imported: str, allowed: bool) -> None:
    assert (forbidden(module, imported) is None) == allowed


def test_late_imports_count_and_imports_for_types_do_not(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("if TYPE_CHECKING:\n    from jitfuse.fuse import fuse\nelse:\n    nn = Later('jitfuse.nn')\n"
                      "def f():\n    import jitfuse.errors\n")
    assert list(imports(source)) == [(4, "jitfuse.nn"), (6, "jitfuse.errors")]


if __name__ == "__main__":
    left = [pair for pair in listed() if pair in violations()]
    remarks = [line for line in LISTED.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    LISTED.write_text("\n".join([*remarks, *left, ""]), encoding="utf-8")
    sys.exit(f"{len(left)} left")
