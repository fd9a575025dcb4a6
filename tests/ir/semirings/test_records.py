"""Sums of products as records of native code, beside NumPy: all carriers, axes in any order, every kind of loop."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.compile.objects.semiring_object import parallel_address, semiring_function
from jitfuse.ir.semirings import words as r
from jitfuse.ir.semirings.loops import (
    CHUNK,
    MOST_OFFSETS,
    THREADED,
    Operand,
    extremes,
    extremes_of_parts,
    record_of,
    sum_of_products,
)
from jitfuse.ir.semirings.words import CARRIERS, MODULUS_LIMIT, PAIRS, SPLAT, STRIDED, SUM_PAIRS, SUM_SPLAT

PRIME = MODULUS_LIMIT - 139
"""Any modulus below the limit will do for one product and its sums."""
ONES = {"sum_product": 1.0, "max_product": 1.0, "modular": 1.0}
GUARD = 8
"""Elements around the result, which nothing may write."""
Random = np.random.Generator


def operand(memory: int, axes: str, order: str, sizes: dict[str, int]) -> Operand:
    """Return a contiguous tensor with axes as they are named, with a stride for each axis of `order`."""
    strides, step = dict.fromkeys(order, 0), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= sizes[axis]
    return Operand(memory, GUARD if memory == r.WORKSPACE else 0, tuple([strides[axis] for axis in order]))


def records_of(out: str, a: str, b: str, sizes: dict[str, int]) -> tuple[list[np.ndarray], int]:
    """Return the records of a sum, and how many elements of the workspace these take behind the result and its guard.
    """
    order = out + "".join(sorted({*a, *b} - {*out}))
    behind = GUARD + prod([sizes[axis] for axis in out]) + GUARD
    size = 0

    def new(count: int) -> tuple[int, int]:
        nonlocal size
        size += count
        return r.WORKSPACE, behind + size - count

    records = sum_of_products(operand(r.WORKSPACE, out, order, sizes), operand(r.STACKS, a, order, sizes),
                              operand(r.STACKS + 1, b, order, sizes), [sizes[axis] for axis in order], new)
    return records, size


def run(
    carrier: str, records: Sequence[np.ndarray], memories: Sequence[np.ndarray], parallel: bool = False,
    function: Any = None,
) -> None:
    """Run records over memories, the workspace and the least number first; `function`: not by the host's code."""
    workspace, least, *stacks = memories
    held = [workspace, np.full(1, ONES.get(carrier, 0.0), workspace.dtype), least, np.empty(0), *stacks]
    addresses = np.array([m.ctypes.data for m in held], np.int64)
    code = np.concatenate(records)
    (function or semiring_function(carrier, workspace.dtype.name))(
        code.ctypes.data, len(records), addresses.ctypes.data, float(PRIME), parallel_address() if parallel else 0)


def contracted(
    carrier: str, out: str, a: str, b: str, values: tuple[np.ndarray, np.ndarray], parallel: bool = False
) -> np.ndarray:
    """Return native code's sum of products."""
    sizes = dict(zip(a + b, values[0].shape + values[1].shape))
    shape, dtype = [sizes[axis] for axis in out], values[0].dtype
    records, between = records_of(out, a, b, sizes)
    whole = np.full(prod(shape) + 3 * GUARD + between, 7.5, dtype)
    workspace = whole[: len(whole) - GUARD]
    run(carrier, records, [workspace, np.full(1, np.inf, dtype), *values], parallel)
    assert (whole[:GUARD] == 7.5).all() and (whole[GUARD + prod(shape):][:GUARD] == 7.5).all()
    assert (whole[-GUARD:] == 7.5).all()
    return workspace[GUARD : GUARD + prod(shape)].reshape(shape)


def expected(carrier: str, out: str, a: str, b: str, values: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the same by NumPy, in the precision of `precise`."""
    order = out + "".join(sorted({*a, *b} - {*out}))
    left, right = (spread(precise(carrier, x), axes, order) for x, axes in zip(values, (a, b)))
    summed = tuple(range(len(out), len(order)))
    with np.errstate(all="ignore"):
        if carrier in ("max_sum", "min_sum", "max_product"):
            terms = left * right if carrier == "max_product" else left + right
            return terms.min(axis=summed) if carrier == "min_sum" else terms.max(axis=summed)
        if carrier == "log":
            terms = left + right
            top = terms.max(axis=summed, keepdims=True)
            top = np.where(np.isfinite(top), top, 0)
            return np.log(np.exp(terms - top).sum(axis=summed)) + top.reshape(terms.shape[: len(out)])
        total = np.add.reduce(left * right, axis=summed)
    return np.asarray(total % PRIME, float) if carrier == "modular" else total


def precise(carrier: str, x: np.ndarray) -> Any:
    if carrier == "modular":
        return np.vectorize(int, otypes=[object])(x)
    return x if carrier in ("max_sum", "min_sum", "max_product") else x.astype(np.longdouble)


def spread(x: np.ndarray, axes: str, order: str) -> np.ndarray:
    """Return an array with an axis for each of `order`."""
    x = x.transpose([axes.index(axis) for axis in order if axis in axes])
    return x[tuple([slice(None) if axis in axes else None for axis in order])]


def same(carrier: str, found: np.ndarray, wanted: Any, values: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether a result is right: to the bit where nothing is rounded but products, else to what sums may lose."""
    if carrier not in ("sum_product", "log"):
        return np.array_equal(found, wanted)
    info = np.finfo(found.dtype)
    terms = max(1, values[0].size * values[1].size // max(1, found.size))
    if carrier == "sum_product":
        slack = float(info.eps) * (8 + math.sqrt(terms)) * wanted + terms * float(info.smallest_subnormal)
        near = np.abs(found.astype(np.longdouble) - wanted) <= slack
    else:
        size = sum(float(np.max(np.abs(x), where=np.isfinite(x), initial=0)) for x in values)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - wanted) <= float(info.eps) * (size + 8 + math.sqrt(terms))
    return bool(np.all(near | (found == wanted)))


def drawn(carrier: str, shape: Sequence[int], dtype: Any, draw: Random) -> np.ndarray:
    """Return values that the carrier has: also zeros of the semiring, denormals and what is far apart."""
    if carrier == "modular":
        return np.asarray(np.where(draw.random(shape) < 0.2, PRIME - 1, draw.integers(PRIME, size=shape)), dtype)
    info, kind = np.finfo(dtype), int(draw.integers(4))
    if carrier in ("sum_product", "max_product"):
        x = draw.random(shape)
        if kind == 1:
            x = x * (draw.random(shape) < 0.5)
        elif kind == 2:
            x = x * float(info.smallest_normal) * draw.choice([1e-3, 1.0, 1e3, 1e20], shape)
        elif kind == 3:
            x = 10.0 ** (draw.uniform(-0.45, 0.45, shape) * math.log10(float(info.max)))
        return np.asarray(x, dtype)
    zero = math.inf if carrier == "min_sum" else -math.inf
    x = draw.normal(size=shape, scale=[1.0, 30.0, 1e4, 1e4][kind])
    return np.asarray(np.where(draw.random(shape) < [0.0, 0.3, 0.0, 0.95][kind], zero, x), dtype)


def dtype_for(carrier: str, single: bool) -> Any:
    return np.float32 if single and carrier != "modular" else np.float64


LETTERS = "abcdefghijkl"


@st.composite
def subscripts(draw: st.DrawFn) -> tuple[str, str, str, dict[str, int]]:
    """Return the axes of a result and of two tensors, in any order, and their sizes: at most 2**12 products."""
    rank = draw(st.integers(0, 12))
    sizes, left = {}, 1 << 12
    for axis in LETTERS[:rank]:
        sizes[axis] = min(draw(st.sampled_from([1, 2, 2, 2, 3, 3, 5, 7, 17, 70])), left)
        left //= sizes[axis]
    where = {axis: draw(st.sampled_from(["a", "b", "ab", "oa", "ob", "oab", "oab"])) for axis in sizes}
    out, a, b = ("".join(draw(st.permutations([axis for axis in sizes if tensor in where[axis]])))
                 for tensor in "oab")
    if draw(st.booleans()):  # a batch runs along the last axes; one of the tensors may lack it
        sizes["z"] = draw(st.sampled_from([1, 3, 4, 9]))
        alone = draw(st.sampled_from(["both", "a", "b"]))
        out, a, b = out + "z", a + "z" * (alone != "b"), b + "z" * (alone != "a")
    return out, a, b, sizes


@pytest.mark.parametrize("carrier", CARRIERS)
@given(subscripts(), st.booleans(), st.integers(0, 1 << 32))
def test_sums_of_products(carrier: str, axes: tuple[str, str, str, dict[str, int]], single: bool, seed: int) -> None:
    out, a, b, sizes = axes
    draw = np.random.default_rng(seed)
    left, right = (drawn(carrier, [sizes[x] for x in y], dtype_for(carrier, single), draw) for y in (a, b))
    found = contracted(carrier, out, a, b, (left, right))
    wanted = expected(carrier, out, a, b, (left, right))
    assert same(carrier, found, wanted, (left, right)), (found, wanted)


KINDS = [
    (SPLAT, "ij", "ij", "i"), (SPLAT, "ij", "i", "ij"), (SPLAT, "ij", "ikj", "ki"), (PAIRS, "ij", "ij", "ij"),
    (PAIRS, "ij", "kij", "kij"), (STRIDED, "ij", "ji", "i"), (STRIDED, "ij", "ji", "j"), (STRIDED, "", "", ""),
    (SUM_SPLAT, "", "k", ""), (SUM_SPLAT, "i", "ik", "i"), (SUM_SPLAT, "i", "i", "ik"), (SUM_PAIRS, "i", "ik", "ik"),
    (SUM_PAIRS, "i", "ik", "k"), (SUM_PAIRS, "i", "jik", "jik"),
]


@pytest.mark.parametrize(("kind", "out", "a", "b"), KINDS)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_kind_of_inner_axis(carrier: str, kind: int, out: str, a: str, b: str) -> None:
    """Below, at and above whole numbers of vectors; small tensors may have another kind of inner axis."""
    for size in (1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 130):
        sizes = dict.fromkeys("ijk", size)
        if size > 16:
            sizes["j" if kind in (SUM_SPLAT, SUM_PAIRS) or out == "i" else "k"] = 2
            sizes["i"] = 3 if kind != STRIDED else size
        assert size < 16 or records_of(out, a, b, sizes)[0][0][r.KIND] == kind
        for single in (False, True):
            draw = np.random.default_rng(size)
            dtype = dtype_for(carrier, single)
            left, right = (drawn(carrier, [sizes[x] for x in axes], dtype, draw) for axes in (a, b))
            found, wanted = contracted(carrier, out, a, b, (left, right)), expected(carrier, out, a, b, (left, right))
            assert same(carrier, found, wanted, (left, right))


LARGE = [
    ("ij", "ikj", "ki", {"i": 5, "k": 3, "j": 4 * CHUNK}), ("ij", "ikj", "ki", {"i": 5, "k": 3, "j": CHUNK + 1}),
    ("ij", "jki", "kj", {"i": 200, "k": 7, "j": 1024}), ("i", "ik", "k", {"i": 700, "k": 3 * MOST_OFFSETS + 1}),
    ("", "k", "k", {"k": THREADED + 5}), ("i", "ki", "k", {"i": 64, "k": 2 * MOST_OFFSETS}),
    ("ijl", "ikjl", "lk", {"i": 64, "j": 8, "k": 16, "l": 32}), ("i", "kil", "lk", {"i": 33, "k": 90, "l": 91}),
    ("jikz", "jlz", "kilz", {"i": 4, "j": 9, "k": 5, "l": 3, "z": 1000}),
    # many units of short rows: of axes that fit a tile, of one that does not, and of both
    ("ijkl", "inkl", "njl", {"i": 61, "j": 3, "k": 5, "l": 3, "n": 50}),
    ("ij", "kij", "ki", {"i": 700, "j": 3, "k": 70}),
    ("hijk", "hilk", "jl", {"h": 5, "i": 67, "j": 7, "k": 3, "l": 23}), ("i", "ki", "k", {"i": 70001, "k": 2}),
]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(("out", "a", "b", "sizes"), LARGE)
def test_large_tensors(out: str, a: str, b: str, sizes: dict[str, int], parallel: bool) -> None:
    """Over several chunks, with many offsets, and by several threads: the same, to the bit, as by one."""
    draw = np.random.default_rng(1)
    for carrier in ("sum_product", "max_sum", "log", "modular"):
        left, right = (drawn(carrier, [sizes[x] for x in axes], np.float64, draw) for axes in (a, b))
        if carrier == "modular" and left.size * right.size > 1 << 24:
            continue
        found = contracted(carrier, out, a, b, (left, right), parallel)
        assert same(carrier, found, expected(carrier, out, a, b, (left, right)), (left, right))
        assert np.array_equal(found, contracted(carrier, out, a, b, (left, right)))


def test_what_large_tensors_reach() -> None:
    made = [record for case in LARGE for record in records_of(*case)[0]]
    assert any(record[r.PARALLEL] for record in made)
    assert any(record[r.OFFSETS] > MOST_OFFSETS for record in made)
    assert any(record[r.EXTENT] == CHUNK for record in made) and any(record[r.EXTENT] > CHUNK for record in made)


@pytest.mark.parametrize("batch", [1, 3, 4, 1000])
@pytest.mark.parametrize("count", [1, 2, 7, 16, 45, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("carrier", ["sum_product", "max_product"])
def test_scales(carrier: str, dtype: Any, count: int, batch: int) -> None:
    """For each tensor of a batch: the power of two above its largest element, and one over it; and the least of all."""
    draw, info = np.random.default_rng(count), np.finfo(dtype)
    for kind in range(5):
        x = draw.random((count, batch)) * 10.0 ** draw.uniform(-20, 15, batch)
        if kind == 1:
            x = x * (draw.random(x.shape) < 0.4) * (draw.random(batch) < 0.7)
        elif kind == 2:
            x = x * float(info.smallest_normal)
        elif kind == 3:
            x = np.full(x.shape, float(info.smallest_subnormal))
        elif kind == 4:
            x = np.where(draw.random(x.shape) < 0.1, np.inf, x)
        x = x.astype(dtype)
        found, least = np.full(2 * batch, -1, dtype), np.full(1, np.inf, dtype)
        out, source = Operand(r.WORKSPACE, 0, ()), Operand(r.STACKS, 0, ())
        run(carrier, [extremes(out, source, source, count, batch)], [found, least, x])
        largest = x.max(axis=0)
        usable = (largest >= info.smallest_normal) & np.isfinite(largest)
        scales = np.where(usable, 2.0 ** (1 + np.floor(np.log2(np.where(usable, largest, 1).astype(np.longdouble)))), 1)
        assert np.array_equal(found, np.concatenate([scales, 1 / scales]).astype(dtype))
        with np.errstate(all="ignore"):
            below = np.where(x > 0, x / scales.astype(dtype), np.inf).min()
        assert least[0] == min(below, found.min())
        parts = next(n for n in (9, 7, 2, 1) if count % n == 0)
        again, memory = np.full(1, np.inf, dtype), np.zeros(2 * batch * (parts + 1), dtype)
        between, small = (Operand(r.WORKSPACE, k * batch, ()) for k in (2, 2 + parts))
        run(carrier, [extremes_of_parts(between, source, parts, count // parts, batch),
                      extremes(out, between, small, parts, batch)], [memory, again, x], parallel=True)
        assert np.array_equal(memory[: 2 * batch], found) and again[0] == least[0]


def test_records_run_in_turn_and_read_what_was_written() -> None:
    """A chain of matrices in one call: each product is read by the next one."""
    matrices = np.random.default_rng(0).random((6, 9, 9))
    workspace, sizes = np.zeros(6 * 81), dict.fromkeys("ijk", 9)
    records = []
    for k in range(5):
        out, a, b = (operand(r.STACKS, axes, "ijk", sizes) for axes in ("ij", "ik", "kj"))
        source = a._replace(memory=r.WORKSPACE, first=81 * k) if k else a
        result = record_of(out._replace(memory=r.WORKSPACE, first=81 * (k + 1)), source,
                           b._replace(first=81 * (k + 1)), [9, 9, 9])
        assert result is not None
        records.append(result)
    run("sum_product", records, [workspace, np.full(1, np.inf), matrices])
    assert np.allclose(workspace[-81:].reshape(9, 9), np.linalg.multi_dot([*matrices]), rtol=1e-13)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_processors_without_fused_multiply_add(carrier: str) -> None:
    from jitfuse.backends.llvm.jit import compile_text
    from jitfuse.backends.llvm.loader import load
    from jitfuse.backends.llvm.semirings.module import module_text

    library = load(compile_text(module_text(carrier, "float64", 16, has_fma=False)))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    function = ctypes.CFUNCTYPE(number, pointer, number, pointer, ctypes.c_double, pointer)(
        library.address("jf_semiring"))
    draw = np.random.default_rng(0)
    a, b = (draw.integers(PRIME, size=shape).astype(float) if carrier == "modular" else draw.random(shape)
            for shape in ((5, 9), (9, 7)))
    sizes = {"i": 5, "k": 9, "j": 7}
    workspace = np.zeros(5 * 7 + 2 * GUARD)
    run(carrier, records_of("ij", "ik", "kj", sizes)[0], [workspace, np.full(1, np.inf), a, b], function=function)
    wanted = expected(carrier, "ij", "ik", "kj", (a, b)).astype(float)
    np.testing.assert_allclose(workspace[GUARD:-GUARD].reshape(5, 7), wanted, rtol=0 if carrier == "modular" else 1e-13)
