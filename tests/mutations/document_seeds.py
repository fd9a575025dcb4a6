"""Programs of every kind, as seeds of mutations: each operator by itself, and traced functions that hold programs."""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import jitfuse as jf
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from tests.backends.interpreter.conftest import cases_of

_EACH = 2
"""Seeds of each operator."""
_STATEFUL = """\
program 1 {
  feed %0: float32[3, 4] "args[0]['x']"
  feed %1: float64[] weak 'args[1]'
  state %2: int64[2] 'jf.random.state'
  state %3: float32[4] 'w é "quoted"'
  %4: float32[3, 4] = multiply(%0, %1)  {step 0, level 0}  # model.py:12
  %5: int64[] weak = full(dtype='int64', shape=(), value=0, weak=True)  {step 1, level 1}
  %6: float32[3, 4] = dropout(%4, %2, %5, p=0.5)  {step 2, level 2, mode}
  %7: float32[4] = mean(%6, axis=(0,), keepdims=False)  {step 3, level 3}
  %8: float32[4] = subtract(%3, %7)  {step 4, level 4}  # model.py:14
  %9: int64[2] = random_advance(%2)  {step 5, level 5}
  %10: float64[2] = constant(data=h'000000000000f87f230100000000f87f', dtype='float64', shape=(2,))  {step 6, level 6}
  %11: complex128[2] = full(dtype='complex128', shape=(2,), value=complex(nan, -0.0), weak=False)  {step 7, level 6}
  %12: float64[] weak = full(dtype='float64', shape=(), value=nan:fff8000000000123, weak=True)  {step 8, level 6}
  %13: uint64[1] axes ('row',) = full(dtype='uint64', shape=(1,), value=18446744073709551615, weak=False)  \
{step 9, level 7}
  return "['y']": %6
  return 'bits': %10
  return 'complex': %11
  return 'weak': %12
  return 'large': %13
  update %2 <- %9
  update %3 <- %8
  write %0 <- %4
}"""


@cache
def programs() -> tuple[FusedProgram, ...]:
    """Return the programs, the same ones in every process."""
    alone = [program for op in ops.table() if op.kind != ops.CONTROL for program in _of(op)]
    return (*alone, *_traced(), FusedProgram.from_text(_STATEFUL), FusedProgram.from_text("program 1 {}"))


def _of(op: ops.Op) -> Iterator[FusedProgram]:
    """Yield programs of one step, of operands that are not all the same."""
    for operands, attrs in itertools.islice(cases_of(op), 3, 3 + 41 * _EACH, 41):
        metas = [Meta(np.shape(x), np.asarray(x).dtype.name) for x in operands]
        n, made = len(operands), op.result_metas(metas, attrs)
        results = tuple(range(n, n + len(made)))
        step = OpStep(0, op.name, tuple(range(n)), make_attrs(attrs), results, op.mode_sensitive)
        outputs = {f"[{k}]": i for k, i in enumerate(results)}
        meta = dict(enumerate([*metas, *made]))
        yield FusedProgram(frozenset(range(n)), (step,), outputs, meta, sources={0: "a.py:1"})


def _traced() -> Iterator[FusedProgram]:
    x, n = np.linspace(-1.0, 2.0, 6), 4
    yield jf.fuse(_branches).program(x, 3)
    yield jf.fuse(_loops).program(x, n)
    yield jf.fuse(_scans).program(x.reshape(2, 3))
    yield jf.fuse(_rolled).program(np.ones(400))
    yield jf.fuse(_writes).program({"x": x.copy()}, 2.0)
    yield jf.fuse(_draws, training=True).program(x)
    yield jf.fuse(_contractions).program(np.ones((3, 4)), np.ones((4, 5), "float32"))


def _branches(x: Any, k: int) -> Any:
    small = jf.cond(x.sum() > 0, lambda: jf.cond(x[0] > 1, lambda: x * 2, lambda: np.sin(x)), lambda: x - 1)
    return {"small": small, "k": np.round(small, k)}


def _loops(x: Any, n: int) -> Any:
    def inner(i: Any, c: Any) -> Any:
        return jf.while_loop(lambda t: t[0] < 3 + i, lambda t: (t[0] + 1, t[1] * 0.5), (i, c))[1]

    return jf.fori_loop(0, n, inner, x)


def _scans(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        kept = jf.cond(row[0] > 0, lambda: carry + row, lambda: carry)
        return kept, (kept.sum(), row)

    return jf.scan(step, x[0], x)


def _rolled(x: Any) -> Any:
    for i in range(1, 400):
        x[i] = x[i - 1] * 0.5 + np.sin(x[i])
    return x


def _writes(d: dict[str, Any], factor: float) -> Any:
    d["x"][1:3] *= factor
    return d["x"][::-2].sum()


def _draws(x: Any) -> Any:
    return jf.nn.dropout(x, 0.5) + jf.random.uniform((6,))


def _contractions(a: Any, b: Any) -> Any:
    return np.einsum("ij,jk->ki", a, b), a @ b, np.sort(a, axis=0), np.linalg.qr(a)
