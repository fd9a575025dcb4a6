"""Kernels touch no byte outside of their operands: arrays end at pages that must not be touched."""
from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from harness import Builder, filled, launch
from test_cells import cell_form
from test_columns import column_form
from test_rows import softmax_form, whole_form

from jitfuse.ir.kernels.form import KernelForm, Operand

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


@pytest.fixture
def guarded() -> Any:
    """Return a function that puts an array's bytes between two pages that must not be touched."""
    maps = []
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def place(x: Any, *, at_end: bool) -> Any:
        pages = max(1, -(-x.nbytes // _PAGE))
        area = mmap.mmap(-1, (pages + 2) * _PAGE)
        view = np.frombuffer(area, np.uint8)
        address = view.ctypes.data
        for page in (0, pages + 1):
            assert libc.mprotect(address + page * _PAGE, _PAGE, _PROT_NONE) == 0
        maps.append((area, view, address, pages))
        start = _PAGE + (pages * _PAGE - x.nbytes if at_end else 0)
        result = view[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
        result[...] = x
        return result

    yield place
    for _, _, address, pages in maps:
        libc.mprotect(address, (pages + 2) * _PAGE, 3)


def bound(x: Any, *strides: int) -> Memory:
    raw = np.ndarray((max(x.nbytes, 1),), np.uint8, memoryview(x).cast("B")) if x.nbytes else np.zeros(1, np.uint8)
    return Memory(raw, 0, strides or x.strides, x.dtype.name)


def map_form(dtype: str, kinds: tuple[str, str]) -> KernelForm:
    b = Builder()
    b.store(1, dtype, b.add("add", dtype, b.load(0, dtype), b.load(0, dtype)))
    b.stage("map")
    return b.form(1, 0, 0, [Operand(dtype, (kinds[0],)), Operand(dtype, (kinds[1],), True)])


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_maps(guarded: Any, dtype: str, at_end: bool) -> None:
    for n in (1, 5, 15, 17, 127, 129, 1000, 4097):
        for flags in (0, 1):
            x, out = (guarded(filled(dtype, (n,), n), at_end=at_end) for _ in range(2))
            launch(map_form(dtype, ("1", "1")), (n,), [bound(x), bound(out)], flags=flags)
            assert (out == x + x).all()
        wide = guarded(filled(dtype, (2 * n - 1,), n), at_end=at_end)
        launch(map_form(dtype, ("n", "1")), (n,), [bound(wide, 2 * wide.itemsize), bound(out)])
        assert (out == wide[::2] + wide[::2]).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "bool"])
def test_elements_a_few_apart(guarded: Any, dtype: str, vector_bytes: int) -> None:
    for apart, at_end in itertools.product((2, 3, 4), (True, False)):
        form = map_form(dtype, (str(apart), "1"))
        for n in (1, 2, 16, 17, 63, 64, 65, 300):
            wide = guarded(filled(dtype, (apart * (n - 1) + 1,), n), at_end=at_end)
            out = guarded(filled(dtype, (n,), n), at_end=at_end)
            launch(form, (n,), [bound(wide, apart * wide.itemsize), bound(out)], vector_bytes=vector_bytes)
            assert (out == wide[::apart] + wide[::apart]).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_cells(guarded: Any, dtype: str, vector_bytes: int) -> None:
    for cell, at_end, n in itertools.product((2, 3, 5), (True, False), (1, 16, 17, 65, 300)):
        x, y = (guarded(filled(dtype, (n,), k), at_end=at_end) for k in range(2))
        out = guarded(filled(dtype, (n, cell), n), at_end=at_end)
        given = [x, y, x, y, y][:cell]
        operands = [*map(bound, given), bound(out, cell * x.itemsize)]
        launch(cell_form(dtype, cell), (n,), operands, vector_bytes=vector_bytes)
        assert (out == np.stack(given, axis=1)).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_rows_and_columns(guarded: Any, vector_bytes: int) -> None:
    for n, m in ((3, 5), (4, 33), (2, 700), (40, 17)):
        x, out = (guarded(filled("float32", (n, m)), at_end=True) for _ in range(2))
        launch(softmax_form("float32"), (n, m), [bound(x), bound(out)], vector_bytes=vector_bytes)
        assert np.allclose(out.sum(axis=1), 1, atol=1e-5)
        sums = guarded(np.zeros(m, "f4"), at_end=True)
        operands = [bound(x, 4, 4 * m), bound(sums, 4, 0)]
        launch(column_form("sum", "float32"), (m, n), operands, vector_bytes=vector_bytes)
        assert np.allclose(sums, x.sum(axis=0), atol=1e-3)
        total = memory(np.zeros(1, "f4"))
        total.strides = (0,)
        flat = x.reshape(-1)
        launch(whole_form("sum", "float32"), (n * m,), [bound(flat), total], vector_bytes=vector_bytes)
