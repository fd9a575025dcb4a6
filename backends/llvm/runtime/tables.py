"""Python side of the native call path: the tables of words that the fast call and the driver read.

Re-exports their names: state blocks and entries are in entries.py, guards in entry_builder.py, plans in
plan_table.py, results in result_tree.py. Does not own the code that reads the tables, nor which guards and plans a
program needs.

    state = StateBlock(miss)
    b = EntryBuilder(positional=2, handler=handler)
    x = b.guard_array(b.argument(0), "float32", (16,))
    y = b.guard_float(b.argument(1))
    entry = b.build()
    plan = entry.plan_builder()
    out = plan.output("float32", (16,))
    plan.launch(kernel, 16, operands=[(out.value, 0), (x, 0), (y, 0)], words=[16])
    plan.finish(ArrayResult(out))
    entry.set_plan(training=False, plan=plan.build())
    state.prepend(entry)

Slots are the numbers of Python objects that guards found, values the numbers of data addresses; both are valid only
within their entry. A table keeps every object that it points to alive.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime.entries import Handler, NativeEntry, StateBlock
from jitfuse.backends.llvm.runtime.entry_builder import EntryBuilder
from jitfuse.backends.llvm.runtime.plan_table import ARENA, HostStepArray, Label, Plan, PlanBuilder
from jitfuse.backends.llvm.runtime.result_tree import (
    ArrayResult,
    CallResult,
    DictResult,
    ListResult,
    ObjectResult,
    Output,
    ResultTree,
    ScalarResult,
    SlotResult,
    TupleResult,
    ViewResult,
)
from jitfuse.backends.llvm.runtime.words import Words, configuration

__all__ = [
    "ARENA",
    "ArrayResult",
    "CallResult",
    "DictResult",
    "EntryBuilder",
    "Handler",
    "HostStepArray",
    "Label",
    "ListResult",
    "NativeEntry",
    "ObjectResult",
    "Output",
    "Plan",
    "PlanBuilder",
    "ResultTree",
    "ScalarResult",
    "SlotResult",
    "StateBlock",
    "TupleResult",
    "ViewResult",
    "Words",
    "configuration",
]
