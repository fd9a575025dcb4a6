"""The kernel of batches: launches of one kernel over many arrays, as one launch."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from jitfuse.backends.llvm.runtime.plan_table import BatchedLaunch
from jitfuse.backends.llvm.runtime.tables import ArrayResult, EntryBuilder, StateBlock, TupleResult
from jitfuse.backends.llvm.runtime.words import Words

UNITS = (3, 1, 1, 7, 2)


def test_every_range_of_units(harness: Any) -> None:
    """Whatever units a thread takes, those of the launches that they belong to run."""
    total = sum(UNITS)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    run = harness.runtime.function("jf_batch", number, pointer, number, number, pointer)
    starts = np.cumsum((0, *UNITS)).tolist()
    rows = [w for k in range(len(UNITS)) for w in (starts[k], 8 * (k + 1))]
    table = Words([harness.kernel("climb"), len(UNITS), 1, 1, *rows, total])
    for begin in range(total):
        for end in range(begin + 1, total + 1):
            memory = [np.zeros((n, k + 1), np.int64) for k, n in enumerate(UNITS)]
            words = Words([table.address, *(m.ctypes.data for m in memory)])
            assert run(words.address, begin, end, None) == 0
            counted = np.concatenate([m[:, 0] for m in memory])
            assert counted.tolist() == [int(begin <= u < end) for u in range(total)]
            assert sum(m.sum() for m in memory) == end - begin


@pytest.mark.parametrize("threads", [1, 0])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_plan_with_a_batch(harness: Any, count: int, threads: int) -> None:
    """Addresses are those of each call; scratch belongs to a thread."""
    b = EntryBuilder(0, handler=lambda site, status: None)
    anchor = np.zeros(8, np.int64)
    value = b.guard_array(b.constant(anchor), "int64", (8,))
    entry = b.build()
    plan = entry.plan_builder()
    outputs = [plan.output("int64", (2 + k % 5,)) for k in range(count)]
    rows = [BatchedLaunch(2 + k % 5, [(o.value, 0)], ()) for k, o in enumerate(outputs)]
    plan.batch(
        harness.runtime.address("jf_batch"), harness.kernel("through_scratch"), rows, (value, anchor.ctypes.data),
        threads=threads, scratch=8)
    plan.finish(TupleResult(tuple(ArrayResult(o) for o in outputs)))
    entry.set_plan(training=False, plan=plan.build(cost=0))
    state = StateBlock(lambda *args: pytest.fail("a miss"), training=False)
    state.prepend(entry)
    f = harness.attach(state)
    for _ in range(20):
        for k, array in enumerate(f()):
            assert array.tolist() == list(range(2 + k % 5))
    assert state.launches == 20
