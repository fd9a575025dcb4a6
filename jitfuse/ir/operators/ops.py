"""The op table: one row for every operator, which everything else reads.

A row gives the name (an AbstractTensor method), arity, kind, attributes with defaults, the inference rule, the NumPy
reference, the accuracy of results, the cost of an element in a kernel, and for composite operators the decomposition,
written over AbstractTensor methods. Methods, verifier, printer, interpreter, kernels, plans, tests and the support
table are all derived from it. The contents of a row are in `jitfuse.ir.operators.op`, the rows in
`jitfuse.ir.operators`.
"""
from __future__ import annotations

from jitfuse.ir.operators import elementwise as elementwise  # imported at once: nearly every program has some
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.operators.op import (
    CONTRACTION,
    CONTROL,
    CREATION,
    ELEMENTWISE,
    LIBRARY,
    MODE,
    ON_HOST,
    RANDOM,
    REDUCTION,
    REQUIRED,
    SCAN,
    UPDATE,
    VARIADIC,
    VIEW,
    Infer,
    Op,
    get,
    names,
    table,
)

HOLD_PROGRAMS = frozenset(FAMILIES["control"])
"""Loops and branches: operators that hold programs, and may have several results."""
WITH_RULES = frozenset({"custom_vjp", "custom_jvp", "checkpoint"})
"""Those among them that return their first operands, and hold the derivatives of these."""

__all__ = [
    "CONTRACTION", "CONTROL", "CREATION", "ELEMENTWISE", "HOLD_PROGRAMS", "LIBRARY", "MODE", "ON_HOST", "RANDOM",
    "REDUCTION", "REQUIRED", "SCAN", "UPDATE", "VARIADIC", "VIEW", "WITH_RULES", "Infer", "Op", "get", "names", "table",
]
