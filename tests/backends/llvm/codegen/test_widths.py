"""The same bits for every vector width; the text for other machines compiles without calls to libraries."""
from __future__ import annotations

import itertools
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from amount import extended
from elementwise_forms import cases, elementwise_form
from evaluate import memory
from harness import Builder, check, compiled_text, filled, launch
from test_columns import column_form, placed
from test_rows import REDUCTIONS, scalar, softmax_form, whole_form

from jitfuse.backends.llvm.load.elf import object_symbols
from jitfuse.dtypes import KINDS
from jitfuse.ir.kernels.form import KernelForm, Operand

WIDTHS = (16, 32, 64)
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
MACHINES = {
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64", 16),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", 32),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", 16),
}


@pytest.mark.parametrize(("op", "inputs", "result"), cases()[::3])
def test_operators(op: str, inputs: tuple[str, ...], result: str) -> None:
    form = elementwise_form(op, inputs, result)
    arrays = [filled(d, (333,), seed=k, special=True) for k, d in enumerate(inputs)]
    if op == "power" and inputs[1].startswith("int"):
        arrays[1] = np.abs(arrays[1] % 70)
    results = []
    for width in WIDTHS:
        out = np.zeros(333, result)
        launch(form, (333,), [memory(x) for x in [*arrays, out]], vector_bytes=width)
        results.append(out)
    for other in results[1:]:
        assert np.array_equal(results[0], other, equal_nan=results[0].dtype.kind == "f")


@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_reductions(combine: str, dtype: str, width: int) -> None:
    size = np.dtype(dtype).itemsize
    for n in (1, 37, 1300):
        x = filled(dtype, (n,), n)
        check(whole_form(combine, dtype), (n,), [memory(x), scalar(dtype)], vector_bytes=width)
        wide = filled(dtype, (n, 21), n)
        operands = [placed(wide, size, 21 * size), placed(np.zeros(21, dtype), size, 0)]
        check(column_form(combine, dtype), (21, n), operands, vector_bytes=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_strides_masks_and_streams(width: int) -> None:
    x, out = filled("float32", (9, 333)), np.zeros((333, 9), "f4").T
    b = Builder()
    on = b.add("less", "bool", b.add("index", "int64", imm=1), b.add("param", "int64", imm=0))
    b.store(1, "float32", b.add("negative", "float32", b.load(0, "float32", mask=on)))
    b.stage("map")
    for lane_axis, target in itertools.product((0, 1), (out, np.zeros((9, 333), "f4"))):
        form = b.form(2, 0, lane_axis, [memory(x).operand(), memory(target).operand(True)], ("int64",))
        check(form, x.shape, [memory(x), memory(target)], [100], vector_bytes=width, flags=1, pieces=2)


def compile_for(machine: str, form: KernelForm) -> frozenset[str]:
    triple, cpu, width = MACHINES[machine]
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features="", opt=1, reloc="pic", codemodel="small", jit=True
    )
    header = f'target triple = "{triple}"\ntarget datalayout = "{target.target_data}"\n'
    module = llvm.parse_assembly(header + compiled_text(form, width, cpu != "x86-64"), context=llvm.create_context())
    return object_symbols(target.emit_object(module)).undefined


def forms() -> dict[str, Any]:
    result: dict[str, Any] = {f"{op} {' '.join(i)}": elementwise_form(op, i, r) for op, i, r in cases()}
    result |= {f"{c} {d}": whole_form(c, d) for c, d in REDUCTIONS}
    result |= {f"columns {c} {d}": column_form(c, d) for c, d in REDUCTIONS}
    result["softmax"] = softmax_form("float32")
    for source, target in itertools.permutations([d for d, k in KINDS.items() if k != "complex"], 2):
        result[f"{source} to {target}"] = elementwise_form("astype", (source,), target)
    for dtype in ("float16", "bfloat16"):
        result[f"nextafter {dtype}"] = elementwise_form("nextafter", (dtype, dtype), dtype)
    b = Builder()
    args = [b.add("param", "int64", imm=k) for k in range(3)]
    b.store(0, "float32", b.add("random", "float32", *args, b.add("index", "int64", imm=0)))
    b.stage("map")
    result["random"] = b.form(1, 0, 0, [Operand("float32", ("1",), True)], ("int64",) * 3)
    return result


@pytest.mark.full
@pytest.mark.parametrize("machine", MACHINES)
def test_no_machine_needs_a_library(machine: str) -> None:
    first = list(MACHINES).index(machine)
    for name, form in list(forms().items())[first :: 1 if extended() else 4]:
        assert compile_for(machine, form) == frozenset(), name
