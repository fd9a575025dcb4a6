"""Kernels give the same bits through this project's loader and through LLVM's."""
from __future__ import annotations

from typing import Any

import harness
import numpy as np
import pytest
from elementwise_forms import cases, elementwise_form
from evaluate import memory
from harness import filled, launch
from test_rows import softmax_form, whole_form

from jitfuse.backends.llvm import jit, loader
from jitfuse.backends.llvm.load import elf
from jitfuse.ir.kernels.form import KernelForm

pytestmark = pytest.mark.skipif(not loader.OWN_LOADER, reason="this system loads through LLVM")


def check_both(monkeypatch: pytest.MonkeyPatch, form: KernelForm, arrays: list[np.ndarray[Any, Any]]) -> None:
    """Run a kernel over all of its first array, loaded in both ways; the last array is the result."""
    results = []
    for load in (jit.load, loader.load):
        monkeypatch.setattr(harness, "load", load)
        harness.compiled.cache_clear()
        arrays[-1].fill(0)
        launch(form, arrays[0].shape, [memory(x) for x in arrays])
        results.append(arrays[-1].tobytes())
    harness.compiled.cache_clear()
    assert results[0] == results[1]
    assert np.any(arrays[-1] != 0) or arrays[-1].dtype == bool


@pytest.mark.full
def test_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for op, inputs, result in cases()[::6]:
        arrays = [filled(d, (333,), seed=k, special=True) for k, d in enumerate(inputs)]
        if op == "power" and inputs[1].startswith("int"):
            arrays[1] = np.abs(arrays[1] % 70)
        check_both(monkeypatch, elementwise_form(op, inputs, result), [*arrays, np.empty(333, result)])


@pytest.mark.parametrize("op", ["sin", "cos", "exp", "log", "tanh"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rare_lanes(monkeypatch: pytest.MonkeyPatch, op: str, dtype: str) -> None:
    """Huge arguments call a function inside of the object, which looks into tables."""
    x = np.concatenate([filled(dtype, (100,)), np.array([1e9, -3e15, 1e30, np.inf, np.nan, 0, -0.0, 1e-40], dtype)])
    check_both(monkeypatch, elementwise_form(op, (dtype,), dtype), [x, np.empty(x.shape, dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    check_both(monkeypatch, softmax_form(dtype), [filled(dtype, (7, 130)), np.empty((7, 130), dtype)])
    check_both(monkeypatch, whole_form("sum", dtype), [filled(dtype, (130,)), np.empty((), dtype)])


def test_kernels_need_nothing_from_outside() -> None:
    aligned = 0
    for form in (elementwise_form("sin", ("float32",), "float32"), softmax_form("float64")):
        code = jit.compile_text(harness.compiled_text(form, 64))
        assert elf.object_symbols(code).undefined == frozenset()
        aligned = max(aligned, *(s.alignment for s in elf.ObjectFile(code).sections if "rodata" in s.name))
        assert "kernel" in loader.load(code).names
    assert aligned == 64
