"""Compiles and runs kernel forms, compares them with the evaluator, and builds forms briefly."""
from __future__ import annotations

import ctypes
import itertools
import struct
from functools import lru_cache
from typing import Any

import numpy as np
from evaluate import Evaluator, Memory

from jitfuse.backends.llvm import jit
from jitfuse.backends.llvm.codegen.kernel import emit_kernel
from jitfuse.backends.llvm.codegen.layout import scratch_bytes, units
from jitfuse.backends.llvm.loader import load
from jitfuse.backends.llvm.text.builder import Module
from jitfuse.ir.kernels.form import KernelAxis, KernelForm
from jitfuse.ir.kernels.stages import Instr, Reduction, Stage

_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def compiled_text(form: KernelForm, vector_bytes: int = 0, has_fma: bool = True) -> str:
    target = jit.host_target()
    if vector_bytes:
        target = target._replace(vector_bytes=vector_bytes, has_fma=has_fma)
    module = Module()
    emit_kernel(module, "kernel", form, target)
    return module.text()


@lru_cache(maxsize=512)
def compiled(form: KernelForm, vector_bytes: int = 0) -> tuple[Any, Any]:
    library = load(jit.compile_text(compiled_text(form, vector_bytes)))
    return _CALL(library.address("kernel")), library


def words(form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any], flags: int = 0) -> Any:
    """Return the words of a launch."""
    result = [*(o.address for o in operands), *form.words.shape([o.strides for o in operands], sizes)]
    for dtype, p in zip(form.params, params, strict=True):
        result.append(struct.unpack("<q", np.asarray(p, dtype).tobytes().ljust(8, b"\0"))[0])
    return np.array([*result, flags], np.int64)


def launch(
    form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any] = [], *,  # noqa: B006
    flags: int = 0, pieces: int = 1, vector_bytes: int = 0,
) -> int:
    """Run a form's units in so many pieces, last first; returns the largest status."""
    kernel, _ = compiled(form, vector_bytes)
    block = words(form, sizes, operands, params, flags)
    total = units(form, sizes)
    size = scratch_bytes(form, sizes)
    scratch = np.full(size + 128, 0xA5, np.uint8)
    at = -scratch.ctypes.data % 64
    cuts = [total * k // pieces for k in range(pieces + 1)]
    status = 0
    for begin, end in reversed(list(itertools.pairwise(cuts))):
        status = max(status, kernel(block.ctypes.data, begin, end, scratch.ctypes.data + at))
    assert (scratch[:at] == 0xA5).all() and (scratch[at + size :] == 0xA5).all(), "wrote outside of its scratch"
    return status


def check(
    form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any] = [], *,  # noqa: B006
    ulps: float = 0, **options: Any,
) -> list[Memory]:
    """Run a form natively and in the evaluator; all buffers must agree, bytes outside of results too."""
    assert len(form.operands) == len(operands)
    expected = [o.copy() for o in operands]
    actual = [o.copy() for o in operands]
    status = Evaluator(form, sizes, expected, params).run()
    assert launch(form, sizes, actual, params, **options) == status
    if status == 0:
        for k, (e, a) in enumerate(zip(expected, actual)):
            assert_same(e, a, ulps, f"operand {k} of\n{form}\nsizes {sizes}")
    return actual


def assert_same(expected: Memory, actual: Memory, ulps: float, what: str) -> None:
    """Compare buffers bit by bit, except for the sign and payload of NaN; `ulps` allows for differences."""
    if np.array_equal(expected.buffer, actual.buffer):
        return
    shift = expected.start % np.dtype(expected.dtype).itemsize
    size = (expected.buffer.size - shift) // np.dtype(expected.dtype).itemsize * np.dtype(expected.dtype).itemsize
    e, a = (m.buffer[shift : shift + size].copy().view(expected.dtype) for m in (expected, actual))
    if e.dtype.kind == "f":
        with np.errstate(all="ignore"):
            close = np.abs(e - a) <= ulps * np.spacing(np.abs(e)) if ulps else np.zeros(e.shape, bool)
        bits = f"u{e.itemsize}"
        same = (e.view(bits) == a.view(bits)) | (np.isnan(e) & np.isnan(a)) | close
    else:
        same = e == a
    bad = np.flatnonzero(~same)
    assert not bad.size, f"{bad.size} of {e.size} differ, first at {bad[:5]}: {a[bad[:5]]} not {e[bad[:5]]}; {what}"


# ---------------------------------------------------------------------- building forms
class Builder:
    """Numbers values while a form is put together."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._body: list[Instr] = []
        self._count = 0

    def add(self, op: str, dtype: str, *args: int, imm: Any = None) -> int:
        self._body.append(Instr(op, dtype, args, imm))
        self._count += 1
        return self._count - 1

    def load(self, o: int, dtype: str, *, offset: int | None = None, mask: int | None = None) -> int:
        args = [a for a in (offset, mask) if a is not None]
        return self.add("load", dtype, *args, imm=(o, offset is not None, mask is not None))

    def store(self, o: int, dtype: str, *values: int, offset: int | None = None, mask: int | None = None) -> None:
        args = [a for a in (offset, mask) if a is not None]
        self.add("store", dtype, *values, *args, imm=(o, offset is not None, mask is not None))

    def stage(self, kind: str, *reductions: Reduction) -> list[int]:
        """End a stage; returns the numbers of its reductions' results."""
        self.stages.append(Stage(kind, tuple(self._body), tuple(reductions)))
        self._body = []
        first = self._count
        self._count += sum(max(1, len(r.values)) for r in reductions)
        return list(range(first, self._count))

    def form(
        self, grid: int | tuple[int | None, ...], inner: int | tuple[int | None, ...], lane_axis: int,
        operands: list[Any], params: tuple[str, ...] = (), keeps: tuple[str, ...] = (),
    ) -> KernelForm:
        def axes(spec: int | tuple[int | None, ...]) -> tuple[KernelAxis, ...]:
            return tuple(KernelAxis(e) for e in ((None,) * spec if isinstance(spec, int) else spec))

        return KernelForm(
            axes(grid), axes(inner), lane_axis, tuple(operands), params, tuple(self.stages), keeps
        )


def filled(dtype: str, shape: tuple[int, ...], seed: int = 0, *, special: bool = False) -> Any:
    """Return random data, with special values sprinkled in."""
    r = np.random.default_rng(seed)
    d = np.dtype(dtype)
    if d.kind == "b":
        return r.integers(0, 2, shape).astype(bool)
    if d.kind == "u":
        x = r.integers(0, 100, shape).astype(d)
        values = [0, 1, 2, np.iinfo(d).max, 31, 64]
    elif d.kind == "i":
        x = r.integers(-50, 50, shape).astype(d)
        values = [0, 1, -1, 2, np.iinfo(d).min, np.iinfo(d).max, 31, 64, -7]
    else:
        x = (r.standard_normal(shape) * 4).astype(d)
        tiny = np.finfo(d).smallest_subnormal
        values = [0.0, -0.0, np.nan, np.inf, -np.inf, tiny, -tiny, np.finfo(d).max, 1.0, -1.0, 3e9, -1e19]
    if special and x.size:
        chosen = r.random(shape) < 0.5
        x[chosen] = r.choice(np.array(values, d), int(chosen.sum()))
    return x
