"""Whatever is added in one place and forgotten in another: each check names the entry, and the file that lacks it."""
from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from surface import numpy_examples

from jitfuse import reasons
from jitfuse.backends.llvm import codegen, math
from jitfuse.backends.llvm.codegen import body
from jitfuse.backends.llvm.codegen.elements import elementwise
from jitfuse.graph_breaks import limits
from jitfuse.ir.kernels import stages, verify_stages
from jitfuse.ir.operators import families, op, ops
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics import reference_functions
from jitfuse.passes import pipeline
from jitfuse.tracing.numpy_like import all_functions
from jitfuse.tracing.numpy_like import protocol as numpy_protocol

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MAKE_PAGES = "run: python tests/surface/make_pages.py"
BEFORE_KERNELS = {"real", "imag", "conj", "make_complex", "python_number"}
"""Elementwise operators that passes and plans resolve: no kernel has them."""
IN_KERNELS = [
    row for row in ops.table() if row.kind == ops.ELEMENTWISE and not row.decompose and row.name not in BEFORE_KERNELS
]


def place(module: ModuleType) -> str:
    """Return a module's file, from the root of the project."""
    assert module.__file__ is not None
    return str(Path(module.__file__).resolve().relative_to(ROOT))


def named(path: Path) -> set[str]:
    """Return what the first column of a page's tables names."""
    return set(re.findall(r"^\| `?(.+?)`? \|", path.read_text(encoding="utf-8"), re.MULTILINE))


def compared(function: object) -> set[str]:
    """Return the texts that a function or class compares something with: the operations that it knows."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))  # type: ignore[arg-type]
    texts = [n for c in ast.walk(tree) if isinstance(c, ast.Compare) for n in ast.walk(c)]
    return {n.value for n in texts if isinstance(n, ast.Constant) and isinstance(n.value, str)}


# ---------------------------------------------------------------- operators
def test_a_listed_operator_without_a_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op, "_NAMES", (*op._NAMES, "forgotten"))
    monkeypatch.setitem(op._FILES, "forgotten", "elementwise")
    with pytest.raises(LookupError, match=r"forgotten has no row: add it to jitfuse\.ir\.operators\.elementwise"):
        list(ops.table())


def test_a_row_of_an_operator_that_is_not_listed_is_named() -> None:
    row = op.Op("forgotten", 1, ops.ELEMENTWISE, {}, lambda metas, attrs: Meta((), "bool"), np.sign)
    with pytest.raises(LookupError, match=rf"forgotten .*add its name to FAMILIES in {families.__name__}"):
        op.add(row)


def test_an_operator_without_a_reference_is_named() -> None:
    from jitfuse.ir.semantics import reference

    with pytest.raises(LookupError, match=rf"forgotten has no reference: .* {reference_functions.__name__}"):
        reference.ufunc("forgotten")


def test_operators_that_are_rounded_have_costs() -> None:
    missing = [row.name for row in IN_KERNELS if row.ulps and row.cost is None]
    assert not missing, f"operator {missing[0]} has no cost: add cost=... to its row in jitfuse/ir/operators"


def test_elementwise_operators_have_code() -> None:
    known = elementwise.OPERATORS | compared(body.KernelBody._make)
    missing = [row.name for row in IN_KERNELS if row.name not in known]
    assert not missing, (
        f"operator {missing[0]} has no lowering: add it to OPERATORS in a file beside {place(math)} where it is a "
        f"function of floats, else to the tables in {place(elementwise)}"
    )


def test_mathematics_is_of_operators() -> None:
    missing = sorted(math.FUNCTIONS - set(ops.names()))
    assert not missing, f"{place(math)} has {missing[0]}, which is no operator: add it to {place(families)}"


def test_rounded_operators_have_exact_functions() -> None:
    pytest.importorskip("mpmath")
    from exact_functions import accuracy_tool

    for row in ops.table():
        if row.kind == ops.ELEMENTWISE and row.ulps:
            accuracy_tool().exact(row.name)  # raises a LookupError that says where to add it


def test_operators_have_rows_in_the_pages() -> None:
    for row in ops.table():
        pages = ["operators.md", *(["accuracy.md"] if row.kind == ops.ELEMENTWISE and row.ulps else [])]
        for page in pages:
            assert row.name in named(DOCS / page), f"operator {row.name} has no row in docs/{page}; {MAKE_PAGES}"


# ---------------------------------------------------------------- functions of NumPy's and of torch's
def _entering(folder: Path, call: str) -> Iterator[str]:
    """Yield the modules of a folder that enter functions into a table."""
    for path in sorted(folder.glob("*.py")):
        if re.search(rf"^@?(?:{call})\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path.stem


def test_files_of_numpys_functions_are_imported() -> None:
    own = Path(place(all_functions))
    loaded = set(re.findall(r"import (\w+)", (ROOT / own).read_text(encoding="utf-8"))) | {"numpy_functions"}
    loaded |= {name.rpartition(".")[2] for names in numpy_protocol._EXTENSIONS.values() for name in names}
    for module in _entering(ROOT / own.parent, "implements"):
        assert module in loaded, f"{own.parent}/{module}.py enters functions that nobody imports: add it to {own}"


def test_functions_of_numpys_have_examples_and_rows() -> None:
    names = {name for section in numpy_examples.functions().values() for name in section}
    listed = {operator.attrgetter(name)(np) for name in names if not name.startswith("ufunc.")}
    for function in all_functions.FUNCTIONS:
        if function not in listed and function.__name__ not in ("amin", "amax", "around"):  # min, max, round
            pytest.fail(f"np.{function.__name__} has no example: add a line to {place(numpy_examples)}")
    for name in names - named(DOCS / "numpy.md"):
        pytest.fail(f"np.{name} has no row in docs/numpy.md; {MAKE_PAGES}")


def test_names_of_numpys_functions_are_numpys() -> None:
    for path in sorted((ROOT / Path(place(all_functions)).parent).glob("*.py")):
        for names in re.findall(r"^@implements\((.*?)\)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for name in re.findall(r'"([\w.]+)"', names):
                assert _has(np, name), f"{path.relative_to(ROOT)} enters np.{name}, which NumPy has not"


def test_functions_of_torchs_are_imported_and_have_rows() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from surface import torch_examples

    from jitfuse.tracing.torch_like import table

    own = Path(place(table))
    for module in _entering(ROOT / own.parent, "implements|method|of_floats"):
        assert module in table._MODULES, (
            f"{own.parent}/{module}.py enters functions that nobody imports: add it to _MODULES in {own}")
    table.loaded()
    holders = (torch, torch.nn.functional, torch.special, torch.Tensor)
    for name in table.FUNCTIONS:
        assert any(operator.attrgetter(name)(h) for h in holders if _has(h, name)), f"torch has no function {name}"
    names = {name for section in torch_examples.functions().values() for name in section}
    for name in names - named(DOCS / "torch.md"):
        pytest.fail(f"torch's {name} has no row in docs/torch.md; {MAKE_PAGES}")


def _has(holder: object, name: str) -> bool:
    try:
        operator.attrgetter(name)(holder)
    except AttributeError:
        return False
    return True


# ---------------------------------------------------------------- reasons, passes, kernels
def _sources(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def test_reasons_are_given_somewhere() -> None:
    sources = _sources(ROOT / "jitfuse") + _sources(ROOT / "tracing")
    for name, reason in vars(reasons).items():
        assert not isinstance(reason, reasons.Reason) or re.search(rf"(reasons\.|import .*){name}\b", sources), (
            f"the reason {name} of {place(reasons)} is given nowhere")
    own = (ROOT / place(limits)).read_text(encoding="utf-8")
    others = _sources(ROOT / "jitfuse").replace(own, "")
    for name, method in vars(limits.Limits).items():
        if inspect.isfunction(method) and not name.startswith("_") and f".{name}(" not in own:
            assert f".{name}(" in others, f"Limits.{name} is called nowhere: call it where what it counts happens"


def test_passes_are_in_the_pipeline() -> None:
    folder = ROOT / Path(place(pipeline)).parent
    known = {step.__name__ for step in pipeline.PIPELINE}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
                continue
            if ast.unparse(node.returns) == "FusedProgram" and [a.arg for a in node.args.args] == ["program"]:
                assert node.name in known, (
                    f"{path.relative_to(ROOT)} has the pass {node.name}, which is not run: add it to PIPELINE in "
                    f"{place(pipeline)}")


def test_instructions_of_kernels_are_described_and_written() -> None:
    lines = re.findall(r"^  (\w.*)$", stages.__doc__ or "", re.MULTILINE)
    words = {part.split()[0] for line in lines for part in line.split(" / ")}
    written = compared(body.KernelBody._make) | compared(body.KernelBody._write)
    for name in verify_stages._RULES:
        assert name in words, f"the instruction {name} is not described in the docstring of {place(stages)}"
        assert name in written, f"the instruction {name} has no code: add it to {place(body)} ({codegen.__name__})"
