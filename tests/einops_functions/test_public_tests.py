"""einops' own public tests, from its wheel, run with our functions in place of its: each is a test here."""
from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jitfuse.einops as ours

pytest.importorskip("torch")
theirs = pytest.importorskip("einops")
os.environ["EINOPS_TEST_BACKENDS"] = "numpy,torch"
importlib.import_module("einops.layers.torch")
our_layers = importlib.import_module("jitfuse.einops.layers.torch")

FUNCTIONS = ("rearrange", "reduce", "repeat", "einsum", "parse_shape", "asnumpy", "pack", "unpack")
EACH_SHAPE = "test_other.test_torch_compile_for_functions"
"""Goes through nine pairs of patterns and shapes. Under torch.compile einops' sizes are symbols, ours are constants:
each shape is compiled on its own, one more than torch does before it gives up."""
SYMBOLIC = {"test_other.test_parse_shape_symbolic", "test_other.test_parse_shape_symbolic_ellipsis"}
"""Tests of symbols of a graph that einops makes with PyTensor, the only library that they know. Its arrays are refused
here, as those of all libraries but NumPy, torch and jitfuse are (docs/einops.md), so that there is nothing to run."""
SLOW = {EACH_SHAPE, "test_other.test_torch_compile_for_layers", "test_ops.test_torch_compile_with_dynamic_shape",
        "test_other.test_einops_threading", "test_layers.test_torch_layers_scripting",
        "test_layers.test_reduce_imperative"}
Patch = Callable[[Any, str, Any], None]


def patch(put: Patch) -> None:
    """Put our functions where einops' are; tests take either error."""
    put(theirs, "EinopsError", (theirs.EinopsError, ours.EinopsError))
    for module in (theirs, importlib.import_module("einops.einops"), importlib.import_module("einops.packing")):
        for name in FUNCTIONS:
            if hasattr(module, name):
                put(module, name, getattr(ours, name))
    layers = importlib.import_module("einops.layers.torch")
    for name in ("Rearrange", "Reduce", "EinMix"):
        put(layers, name, getattr(our_layers, name))


def found_tests() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield einops' tests. Their modules are imported while our functions are in place."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as place:
        patch(place.setattr)
        place.setattr(sys.modules["einops.einops"], "EinopsError", theirs.EinopsError)
        modules = [importlib.import_module(f"einops.tests.{found.name}")
                   for found in pkgutil.iter_modules(importlib.import_module("einops.tests").__path__)
                   if found.name.startswith("test_")]
    for module in modules:
        for name, function in vars(module).items():
            if name.startswith("test_") and inspect.isfunction(function) and function.__module__ == module.__name__:
                yield f"{module.__name__.rpartition('.')[2]}.{name}", function
    for name in set(sys.modules) - before:
        if name.startswith("einops.tests."):
            del sys.modules[name]


def recompiled(times: int) -> contextlib.AbstractContextManager[None]:
    """Let torch.compile compile a function so many times."""
    made: contextlib.AbstractContextManager[None] = importlib.import_module("torch._dynamo").config.patch(
        recompile_limit=times)
    return made


TESTS = dict(found_tests())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.full] if name in SLOW else []) for name in TESTS if name not in SYMBOLIC
])
def test_public(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch.setattr)
    with recompiled(9) if name == EACH_SHAPE else contextlib.nullcontext():
        TESTS[name]()


def test_all_of_einops_tests_are_here() -> None:
    assert len(TESTS) >= 62
    assert TESTS.keys() >= SYMBOLIC | SLOW
