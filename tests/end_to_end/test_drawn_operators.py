"""The random programs draw every operator of the table, and every dtype."""
from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from generate import draw_program
from programs import quiet

import jitfuse as jf
from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.passes.pipeline import run_passes

PROGRAMS, STEPS = 700, 60
CONTROL = {op.name for op in ops.table() if op.kind == ops.CONTROL}
"""Not drawn: steps that hold programs of their own, of which programs as flat lists of statements know nothing."""
COUNTED = set(FAMILIES["counted"])
"""Not drawn: steps that come after a look at how many elements there are, which programs without data cannot have."""
TORCHS = {"topk"}
"""Not drawn: what only torch's functions become."""


def test_every_operator_and_every_dtype_is_drawn() -> None:
    names: Counter[str] = Counter()
    dtypes: set[str] = set()
    for number in range(PROGRAMS):
        source = draw_program(random.Random(f"operators/{number}"), STEPS)
        source = replace(source, outputs=tuple({s.target: None for s in source.statements}), container="tuple")
        try:
            with quiet():
                program = jf.fuse(source.function()).program(*source.arguments())
                lowered = run_passes(program, False)
        except jf.JitfuseError:
            continue  # the last statement of some programs may well be wrong
        for p in (program, lowered):
            names.update(s.op_name for s in p.steps)
            dtypes.update(m.dtype for m in p.meta.values())
    assert sorted(set(ops.names()) - names.keys() - CONTROL - COUNTED - TORCHS) == []
    assert dtypes == set(SUPPORTED)
