"""The support table: which operators there are, for which dtypes, and how each runs. Generated, never written.

docs/operators.md shows it: ``python tests/surface/make_pages.py`` writes the page, and a test keeps it current.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from semiring_tables import products

from jitfuse.dtypes import SUPPORTED, itemsize, kind
from jitfuse.errors import JitfuseError
from jitfuse.gradients.rule import rule_of
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics import generators, linear_algebra

_SAMPLES: Final[dict[str, Any]] = {
    "axis": 0, "axes": (0,), "shape": (3,), "dtype": "float64", "count": 3,
    "starts": (0,), "steps": (1,), "counts": (3,), "positions": (0,), "shifts": (1,), "reps": (2,), "times": 2,
    "n": 3, "s": (3,), "sizes": (2,), "dilations": (1,),
    "subscripts": "A,A->A", "before": (1,), "after": (1,), "keepdims": False, "start": 0, "step": 1,
    "size": 3, **products("log", 3),
}
"""Attribute values that fit an array of shape (3,), of any dtype."""
_ONES: Final[dict[str, Any]] = {"bool": True, "int": 1, "uint": 1, "float": 1.0, "complex": 1j}

_RUNS: Final = {
    ops.ELEMENTWISE: "fused kernel", ops.REDUCTION: "fused kernel", ops.SCAN: "fused kernel",
    ops.VIEW: "index map of a kernel",
    ops.UPDATE: "fused kernel, masked", ops.CREATION: "fused kernel", ops.RANDOM: "fused kernel",
    ops.CONTRACTION: "fused kernel or library call, by score", ops.LIBRARY: "library call",
    ops.MODE: "resolved when a mode is compiled", ops.CONTROL: "step of its own, over compiled bodies",
}


def accepted_dtypes(op: ops.Op) -> list[str]:
    """Return the dtypes of which all operands may be."""
    if op.kind == ops.CONTROL:
        return list(SUPPORTED)  # what goes through a loop or branch is as its programs say
    accepted = []
    for dtype in SUPPORTED:
        try:
            op.result_metas(_operands(op, dtype), _attributes(op, dtype))
        except JitfuseError:
            continue
        accepted.append(dtype)
    return accepted


def _operands(op: ops.Op, dtype: str) -> list[Meta]:
    count = 2 if op.arity == ops.VARIADIC else op.arity
    if op.name in ("gather", "take", "take_along_axis", "scatter"):
        return [Meta((3,), dtype), *([Meta((), dtype)] if op.name == "scatter" else []), Meta((2,), "int64")]
    if op.name == "update_at":
        return [Meta((3,), dtype), Meta((), dtype), Meta((), "int64")]
    if op.name in ("solve", "pinv"):
        return [Meta((3, 3), dtype), Meta((3, 3) if op.name == "solve" else (), dtype)]
    if op.name in ("tril", "triu", "diagonal") or hasattr(linear_algebra, op.name):
        return [Meta((3, 3), dtype)]
    if op.name.startswith("generator_"):
        one = Meta((generators.STATE_BYTES // itemsize(dtype) + 1,), dtype)
        limits = [Meta((), "int64")] * 2 if kind(dtype) in ("int", "uint") else []
        return {
            "generator_seed": [Meta((), dtype)], "generator_draw": [Meta((8,), "uint64"), *limits]
        }.get(op.name, [one])
    if op.kind == ops.RANDOM:
        state, index = Meta((2,), "int64"), Meta((), "int64")
        return {"random_uniform": [state, index], "random_advance": [state]}.get(
            op.name, [Meta((3,), dtype), state, index]
        )
    return [Meta((3,), dtype)] * count


def _attributes(op: ops.Op, dtype: str) -> dict[str, Any]:
    samples = {
        **_SAMPLES, "value": _ONES[kind(dtype)], "data": bytes(3 * itemsize(dtype)),
        "method": "integers" if kind(dtype) in ("int", "uint") else "random",
    }
    values = {name: samples[name] for name, default in op.attrs.items() if default is ops.REQUIRED}
    values |= {"weak": False} if "weak" in op.attrs else {}
    return {**values, "dtype": dtype} if "dtype" in op.attrs and op.name != "astype" else values


def _runs(op: ops.Op) -> str:
    if op.decompose is not None:
        return "decomposed, then fused"
    if op.name == "constant":
        return "memory of the plan"
    return _RUNS[op.kind]


def _derivative(op: ops.Op) -> str:
    rule = rule_of(op.name)
    return f"none: {rule.reason}" if rule.reason else "constant" if rule.constant else rule.note or "both modes"


def rows() -> Iterator[tuple[str, ...]]:
    """Yield (operator, kind, operands, attributes, dtypes, how it runs, derivative) for every row of the op table."""
    for op in ops.table():
        operands = "any" if op.arity == ops.VARIADIC else str(op.arity)
        attributes = ", ".join(op.attrs) or "-"
        yield f"`{op.name}`", op.kind, operands, attributes, _in_words(accepted_dtypes(op)), _runs(op), _derivative(op)


_GROUPS: Final = {"bool": "bool", "int": "integers", "uint": "integers", "float": "floats", "complex": "complex"}


def _in_words(dtypes: list[str]) -> str:
    """Return dtypes as text, by kinds where all of a kind are among them."""
    words = []
    for group in dict.fromkeys(_GROUPS.values()):
        members = [d for d, kind in SUPPORTED.items() if _GROUPS[kind] == group]
        given = [d for d in members if d in dtypes]
        words += [group] if given == members and members else given
    return "all" if len(dtypes) == len(SUPPORTED) else ", ".join(words)


def support_page() -> str:
    """Return docs/operators.md."""
    header = ("Operator", "Kind", "Operands", "Attributes", "dtypes", "How it runs on the CPU", "Derivative")
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ("---",) * len(header), *rows())]
    intro = (
        "# Operators\n\nGenerated by `python tests/surface/make_pages.py` from the op table "
        f"(`jitfuse/ir/operators/`). All dtypes: {', '.join(SUPPORTED)}.\n"
        "The interpreter runs every operator over NumPy arrays and torch tensors.\n"
    )
    return "\n".join([intro, *lines]) + "\n"
