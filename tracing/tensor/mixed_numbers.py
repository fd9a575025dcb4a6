"""Mixed numbers: scalars that are NumPy's or Python's, depending on the call's data.

If-conversion, `max` and captured loops may select between a Python and a NumPy number: ``best = 0.0`` before
``if x > best: best = x``. The program computes a NumPy scalar, and a bool that is true if the number is Python's. Owns
operators over such scalars, and when Python reads the bool: if it affects more than a result's type. Does not own the
selection (`jitfuse.tracing.scalars.branch_values`), nor the types of results (`jitfuse.tracing.results.returned`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.dtypes import is_integer
from jitfuse.ir import statuses
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.numbers import arithmetic, weak
from jitfuse.tracing.record import try_blocks
from jitfuse.tracing.record.known_values import python_operator
from jitfuse.tracing.record.recorder import Mixed, Recorder
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_STORES: Final = frozenset({"scatter", "update_slice", "update_at"})


def represents(dtype: str, python: str) -> bool:
    """Return whether results of a dtype have the same values as those of Python numbers of dtype `python`."""
    return dtype == python or (dtype == "float64" and python == "int64")


def settled(value: Any) -> Any:
    """Return any value as it is, a mixed number as the Python or NumPy number that it is, which Python reads."""
    if type(value) is not TracedTensor or not value._run.mixed:
        return value
    run, tensor = value._run, value._id()
    found = run.mixed.get(tensor)
    if found is None:
        return value
    if bool(fresh(run, found.truth)):
        python = run.emit("astype", (tensor,), {"dtype": found.python})
        return fresh(run, run.emit("python_number", (python,)))
    run.mixed.pop(tensor, None)
    return value


def as_numpys(operands: list[Any]) -> list[Any]:
    """Return the operands of a NumPy function, with mixed numbers as NumPy scalars.

    If some operands are arrays or NumPy scalars, nothing changes: `apply` finds the dtypes of the others.
    """
    if type(operands[0]) is not TracedTensor or not (run := operands[0]._run).mixed:
        return operands
    if not all(t.weak or t._id() in run.mixed for t in operands):
        return operands
    found = []
    for t in operands:
        mixed = run.mixed.get(t._id())
        known = mixed is not None and mixed.python == t._meta.dtype
        found.append(fresh(run, run.emit("astype", (t._id(),), {"dtype": t._meta.dtype})) if known else settled(t))
    return found


def apply(op: ops.Op, inputs: Sequence[TracedTensor], attrs: dict[str, Any]) -> TracedTensor | None:
    """Record an operator with mixed numbers among its operands; return None where they make no difference."""
    run = inputs[0]._run
    ids = tuple(t._id() for t in inputs)
    if op.name in ("astype", "python_number") or run.mixed.keys().isdisjoint(ids):
        return None
    metas = tuple(run.graph.metas[i] for i in ids)
    if op.name in _STORES and metas[0].dtype == metas[1].dtype and ids[1] in run.mixed and (
            run.mixed[ids[1]].python == metas[1].dtype and run.mixed.keys().isdisjoint((ids[0], *ids[2:]))):
        return None  # an array holds the same number, whichever it is
    plain = tuple(
        Meta((), run.mixed[i].python, m.device, weak=True) if i in run.mixed else m for i, m in zip(ids, metas)
    )
    are_python = all(m.weak for m in plain) and python_operator(op.name) is not None  # NumPy functions return NumPy's
    if op.loop is None or (are_python and weak.needs_values(run, op.name, ids, plain)):
        return _as_they_are(op, inputs, attrs)
    if not are_python:
        whole = op.name in arithmetic.COMPARISONS and all(is_integer(m.dtype) for m in metas)  # are exact
        same = whole or op.loop(op.name, metas) == op.loop(op.name, plain)
        return None if same else _as_they_are(op, inputs, attrs)
    python = op.infer(plain, attrs).dtype
    pairs = [(op.infer(metas, attrs).dtype, python)]
    pairs += zip(op.loop(op.name, metas).inputs, op.loop(op.name, plain).inputs, strict=True)
    if not all(represents(*pair) for pair in pairs):
        return _as_they_are(op, inputs, attrs)
    truth = _all_python(run, ids)
    made = run.emit(op.name, _checked(run, op.name, ids, truth), attrs)
    run.mixed[made] = Mixed(truth, python)
    return fresh(run, made)


def _as_they_are(op: ops.Op, inputs: Sequence[TracedTensor], attrs: dict[str, Any]) -> TracedTensor:
    known = tuple(map(settled, inputs))
    made: TracedTensor = known[0]._apply(op, known, attrs)
    return made


def _all_python(run: Recorder, ids: Sequence[int]) -> int:
    """Return the tensor that says whether all the mixed ones of some numbers are Python's; the others are anyway."""
    truths = list(dict.fromkeys(run.mixed[i].truth for i in ids if i in run.mixed))
    found = truths[0]
    for truth in truths[1:]:
        found = run.emit("logical_and", (found, truth))
    return found


def _checked(run: Recorder, name: str, ids: tuple[int, ...], python: int) -> tuple[int, ...]:
    """Return operands with a check for Python's errors in case they are Python numbers (`python`)."""
    if run.session.on_device or len(ids) != 2 or (name not in arithmetic.DIVISIONS and name != "power"):
        return ids
    at = 0 if name == "power" else 1
    literal = arithmetic.literal(run, ids[1])
    if literal is not None and (literal >= 0 if at == 0 else literal != 0):
        return ids
    try_blocks.reject_in_try("a division")
    ok = run.emit("not_equal", (ids[at], run.literal(0)))
    if at == 0 and literal is None:
        ok = run.emit("logical_or", (ok, run.emit("greater_equal", (ids[1], run.literal(0)))))
    ok = run.emit("logical_or", (ok, run.emit("logical_not", (python,))))
    checked = run.emit("require", (ids[at], ok), {"status": statuses.DIVISION_BY_ZERO})
    return (checked, ids[1]) if at == 0 else (ids[0], checked)


def among(run: Recorder, values: Sequence[Any]) -> list[tuple[int, Mixed]]:
    """Return the positions of mixed numbers among values, with their records."""
    if not run.mixed:
        return []
    found = [(k, run.mixed.get(v._id())) for k, v in enumerate(values) if type(v) is TracedTensor and v._scalar]
    return [(k, mixed) for k, mixed in found if mixed is not None]
