"""The builders: what they refuse, what they keep alive, and the layout they promise."""
from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.tables import (
    ArrayResult,
    EntryBuilder,
    HostStepArray,
    NativeEntry,
    ObjectResult,
    PlanBuilder,
    SlotResult,
    StateBlock,
    TupleResult,
    Words,
)


class Thing:
    def __call__(self, *args: Any) -> bool:
        return True


def entry(**options: Any) -> NativeEntry:
    b = EntryBuilder(2, handler=Thing(), **options)
    b.guard_array(b.argument(0), "float32", (4,))
    return b.build()


def test_words_wrap_and_stay() -> None:
    words = Words([0, -1, 2**64 - 2])
    assert [words[i] for i in range(len(words))] == [0, -1, -2]
    address = words.address
    words[1] = 2**63
    assert words[1] == -(2**63) and words.address == address
    with pytest.raises(AssertionError):
        Words([2**64])
    assert Words([]).address == 0


def test_entry_builder_refuses_what_does_not_exist() -> None:
    b = EntryBuilder(1, ("k",), handler=Thing())
    assert (b.argument(0), b.keyword("k")) == (0, 1)
    for wrong in (
        lambda: b.argument(1), lambda: b.guard_type(2, int), lambda: b.attribute(5, "x"),
        lambda: b.guard_disjoint({1: (0, 1)}, {2: (0, 1)}), lambda: b.guard_int(0, 5, 4),
        lambda: b.guard_array(0, ">f4", (3,)), lambda: b.guard_array(0, object, (3,)),
        lambda: b.guard_array(0, "f4", (3,), (4, 4)), lambda: b.index(0, -1),
        lambda: b.guard_numpy_scalar(0, "U3"),
        lambda: EntryBuilder(1, ("training",), handler=Thing()),
    ):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(ValueError, match="not in tuple"):
        b.keyword("other")


def test_plan_builder_refuses_what_cannot_run() -> None:
    def builder() -> PlanBuilder:
        return entry().plan_builder()

    p = builder()
    for wrong in (
        lambda: p.launch(0, 1, operands=[]), lambda: p.launch(1, -1, operands=[]),
        lambda: p.launch(1, 1, operands=[(9, 0)]), lambda: p.check(7, site=0), lambda: p.build(),
        lambda: p.finish(SlotResult(2)), lambda: p.finish(ArrayResult(builder().output("f4", (1,)))),
        lambda: p.host(Thing(), [HostStepArray(1, "f4", (4,))]),
        lambda: p.host(Thing(), [HostStepArray(0, "u1", (4,))]),
    ):
        with pytest.raises((AssertionError, IndexError)):
            wrong()
    p.finish(ObjectResult(1))
    with pytest.raises(AssertionError):
        p.check(0, site=0)
    p.build()

    p = builder()
    p.jump(p.label())
    with pytest.raises(AssertionError, match="never put down"):
        p.build()


def test_tables_keep_what_they_point_to() -> None:
    things = [Thing() for _ in range(5)]
    b = EntryBuilder(1, handler=things[0])
    b.guard_identity(b.argument(0), things[1])
    b.constant(things[2])
    made = b.build()
    p = made.plan_builder()
    p.finish(ObjectResult(things[3]))
    made.set_plan(training=True, plan=p.build(cost=5))
    state = StateBlock(things[4], training=True)
    state.prepend(made)
    kept = [weakref.ref(t) for t in things]
    del things, b, p, made
    gc.collect()
    assert all(k() is not None for k in kept)
    plan = state.entries[0].plan(True)
    assert plan is not None and plan.cost == 5 and state.entries[0].plan(False) is None
    del state, plan
    gc.collect()
    assert all(k() is None for k in kept)


def test_the_frame_has_room_for_the_largest_step() -> None:
    plans = []
    for items, words, arrays in ((500, 3, 3), (3, 500, 3), (3, 3, 500)):
        p = entry().plan_builder()
        p.arena(64)
        p.launch(1, 1, operands=[(1, 0)], words=[0] * words)
        p.host(Thing(), [HostStepArray(0, "f4", (4,))] * arrays)
        nested = TupleResult((ObjectResult(0),) * items)
        p.finish(TupleResult((*(ObjectResult(1),) * 7, nested)))
        plans.append(p.build().words)
    room = [w[layout.PlanField.FRAME_WORDS] - w[layout.PlanField.WORK] for w in plans]
    assert room == [507, 501, 500]
    assert all(w[layout.PlanField.WORK] == w[layout.PlanField.OWNERS] + 1 == 2 + 2 + 1 for w in plans)


def test_entries_are_tried_newest_first() -> None:
    state = StateBlock(Thing())
    made = [entry(), entry(), entry()]
    for e in made:
        state.prepend(e)
    assert state.entries == tuple(reversed(made))
    with pytest.raises(AssertionError):
        state.prepend(made[0])
    assert np.frombuffer(memoryview(state._words._array), np.int64)[0] == made[2].words.address
