"""What holds for every function: bits independent of the vector, objects that need no library."""
from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from amount import crossed

from jitfuse.backends.llvm.math import FUNCTIONS, emit, emit_many
from jitfuse.backends.llvm.text.builder import Module

DTYPES = [np.float32, np.float64]


def mixed_operands(dtype: type, seed: int, n: int = 3072) -> np.ndarray:
    """Return ordinary numbers with the odd huge, tiny, infinite one or NaN between them."""
    rng = np.random.default_rng(seed)
    integer = np.uint32 if dtype == np.float32 else np.uint64
    x = rng.normal(0, 3, n).astype(dtype)
    odd = rng.random(n) < 0.05
    x[odd] = rng.integers(0, np.iinfo(integer).max, odd.sum(), dtype=integer).view(dtype)
    return x


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_bits_depend_on_the_operands_alone(name, dtype, target, kernel):
    """The same for every vector length, for several vectors together, and in any order."""
    arity = kernel(name, dtype, target=target).arity
    operands = [mixed_operands(dtype, seed) for seed in range(arity)]
    integer = np.uint32 if dtype == np.float32 else np.uint64
    expected = kernel(name, dtype, 1, target)(*operands)
    numbers = ~np.isnan(expected)
    shuffle = np.random.default_rng(9).permutation(expected.size)
    on_host = target == "host"
    results = [kernel(name, dtype, n, target)(*operands) for n in ((2, 3, 4, 8, 16, 32) if on_host else (4, 8))]
    results += [kernel(name, dtype, 8, target, together)(*operands) for together in ((3, 6) if on_host else ())]
    shuffled = kernel(name, dtype, target=target)(*[np.ascontiguousarray(x[shuffle]) for x in operands])
    unshuffled = np.empty_like(expected)
    unshuffled[shuffle] = shuffled
    for result in (*results, unshuffled):
        np.testing.assert_array_equal(np.isnan(result), ~numbers)
        np.testing.assert_array_equal(result[numbers].view(integer), expected[numbers].view(integer))


@pytest.mark.parametrize(("name", "target"), crossed(
    2, sorted(FUNCTIONS), ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"]))
def test_objects_leave_nothing_to_the_linker(name, target, object_symbols):
    for dtype, lanes in ((np.float32, 8), (np.float64, 4), (np.float64, 1)):
        assert object_symbols(name, dtype, lanes, target) == []


def test_several_uses_share_one_function_for_rare_lanes():
    module = Module()
    f = module.function("f", "<8 x double>", [("x", "<8 x double>")])
    y = emit(f, "cos", [emit(f, "sin", f.args)])
    f.ret(y)
    text = module.text()
    llvm.parse_assembly(text).verify()
    assert text.count("define internal") == 1
    assert text.count("alloca") == 4  # nor does the stack grow with each use


def test_emit_is_emit_many_of_one():
    texts = []
    for several in (False, True):
        module = Module()
        f = module.function("f", "<4 x float>", [("x", "<4 x float>")])
        f.ret(emit_many(f, "erf", [f.args])[0] if several else emit(f, "erf", f.args))
        texts.append(module.text())
    assert texts[0] == texts[1]
