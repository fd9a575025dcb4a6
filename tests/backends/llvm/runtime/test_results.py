"""Each kind of result: what it is, who owns its memory, what is released."""
from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from amount import drawn
from single_plans import refuse

from jitfuse.backends.llvm.runtime.tables import (
    ArrayResult,
    CallResult,
    DictResult,
    EntryBuilder,
    ListResult,
    ObjectResult,
    ResultTree,
    ScalarResult,
    SlotResult,
    StateBlock,
    TupleResult,
    ViewResult,
)


def copies(harness: Any, shape: tuple[int, ...], dtype: str, tree: Any, count: int = 1) -> Any:
    """Return a function that copies its argument into `count` outputs; `tree(outputs, slot)` is its result."""
    b = EntryBuilder(1, handler=refuse)
    x = b.guard_array(b.argument(0), dtype, shape)
    entry = b.build()
    plan = entry.plan_builder()
    outputs = [plan.output(dtype, shape) for _ in range(count)]
    nbytes = int(np.zeros(shape, dtype).nbytes)
    for out in outputs:
        plan.launch(harness.kernel("copy"), 1, operands=[(out.value, 0), (x, 0)], words=[nbytes])
    plan.finish(tree(outputs, 0))
    entry.set_plan(training=False, plan=plan.build())
    state = StateBlock(refuse)
    state.prepend(entry)
    return harness.attach(state)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (7,), (3, 5), (2, 0, 3), (1,) * 32, (1,) * 62 + (2, 3)])
def test_array(harness: Any, shape: tuple[int, ...], dtype: str) -> None:
    f = copies(harness, shape, dtype, lambda outs, _: ArrayResult(outs[0]))
    x = np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype)
    y = f(x)
    assert type(y) is np.ndarray and y.dtype == x.dtype and y.shape == shape
    assert y.strides == x.strides or x.size == 0
    assert np.array_equal(x, y) and y is not f(x)
    assert y.flags.owndata and y.flags.writeable and y.flags.aligned and y.base is None
    assert (y.flags.c_contiguous, y.flags.f_contiguous) == (x.flags.c_contiguous, x.flags.f_contiguous)
    assert y.ctypes.data % 64 == 0


@pytest.mark.usefixtures("still")
def test_array_outlives_the_call_through_its_views(harness: Any) -> None:
    before = harness.live_bytes()
    f = copies(harness, (1000,), "float64", lambda outs, _: ArrayResult(outs[0]))
    x = np.random.default_rng(0).random(1000)
    y = f(x)
    view, exported = y[10:20], memoryview(y)
    assert harness.live_bytes() > before
    del y
    for _ in range(10):
        f(np.zeros(1000))
    assert np.array_equal(view, x[10:20]) and bytes(exported) == x.tobytes()
    del view, exported
    assert harness.live_bytes() == before


@pytest.mark.usefixtures("still")
def test_results_can_be_resized(harness: Any) -> None:
    before = harness.live_bytes()
    f = copies(harness, (4,), "float64", lambda outs, _: ArrayResult(outs[0]))
    y = f(np.arange(4.0))
    y.resize(5000, refcheck=False)
    assert y[3] == 3 and y[4999] == 0
    del y
    assert harness.live_bytes() == before


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
def test_scalar(harness: Any, dtype: str) -> None:
    x = np.array([0, 1, 0], dtype)
    f = copies(harness, (3,), dtype, lambda outs, _: ScalarResult(outs[0].value, dtype, x.itemsize))
    assert f(x) == 1 and type(f(x)) is x.dtype.type


def test_slot_object_and_containers(harness: Any) -> None:
    marker = object()

    def tree(outs: Any, slot: int) -> ResultTree:
        a, b = (ArrayResult(o) for o in outs)
        return TupleResult((
            a, ListResult((b, a, ListResult(()))), SlotResult(slot), ObjectResult(marker),
            DictResult(("k", 3), (a, TupleResult(()))), CallResult(dict.fromkeys, ()),
            CallResult(tuple, (b, ObjectResult(1))), DictResult((), ()),
        ))

    f = copies(harness, (3,), "float32", tree, count=2)
    x = np.arange(3, dtype=np.float32)
    a, (b, a2, empty), slot, got, table, called, pair, nothing = f(x)
    assert a is a2 is table["k"] and b is pair[0] and b is not a and slot is x and got is marker
    assert empty == [] and table[3] == () and called == {} and pair[1] == 1 and nothing == {}
    assert list(table) == ["k", 3]
    assert np.array_equal(a, x) and np.array_equal(b, x)


@pytest.mark.usefixtures("still")
def test_view(harness: Any) -> None:
    f = copies(harness, (6,), "float32", lambda outs, s: ViewResult(s, "float32", (2, 3), (-4, 8), 4), count=0)
    x = np.arange(6, dtype=np.float32)
    y = f(x)
    assert np.array_equal(y, [[1, 3, 5], [0, 2, 4]]) and y.base is x and y.flags.writeable
    assert not y.flags.owndata and not y.flags.c_contiguous
    before = sys.getrefcount(x)
    del y
    assert sys.getrefcount(x) == before - 1
    x.flags.writeable = False
    assert not f(x).flags.writeable


def test_a_failing_container_releases_everything(harness: Any) -> None:
    gc.collect()
    before = harness.live_bytes()
    unhashable: Any = []

    def fails(*items: Any) -> Any:
        raise ValueError("no container")

    trees: dict[type[Exception], Any] = {
        TypeError: lambda o, s: TupleResult((
            ArrayResult(o[0]), SlotResult(s), DictResult(("a", unhashable), (ArrayResult(o[1]), SlotResult(s))))),
        ValueError: lambda o, s: TupleResult((
            ListResult((ArrayResult(o[1]),)), CallResult(fails, (ArrayResult(o[0]), SlotResult(s))))),
    }
    x = np.zeros(3, np.float32)
    for error, tree in trees.items():
        f = copies(harness, (3,), "float32", tree, count=2)
        count = sys.getrefcount(x)
        for _ in range(20):
            with pytest.raises(error) as caught:
                f(x)
            del caught
        gc.collect()
        assert sys.getrefcount(x) == count
        assert harness.live_bytes() == before


@pytest.mark.usefixtures("still")
def test_nothing_leaks(harness: Any) -> None:
    marker, keys = object(), ("a", "b")
    trees = [
        lambda o, s: ArrayResult(o[0]),
        lambda o, s: ScalarResult(o[0].value, "float64"),
        lambda o, s: TupleResult((SlotResult(s), ObjectResult(marker), ViewResult(s, "float64", (2,), (8,)))),
        lambda o, s: DictResult(keys, (ArrayResult(o[0]), CallResult(list, (ArrayResult(o[0]),)))),
    ]
    x, handler = np.zeros(8), harness.runtime.memory_handler
    functions = [copies(harness, (8,), "float64", tree) for tree in trees]
    watched: tuple[Any, ...] = (x, x.dtype, marker, handler, np.ndarray, np.float64, keys[0], list)
    for f in functions:
        f(x)
    before, live = [sys.getrefcount(w) for w in watched], harness.live_bytes()
    blocks = sys.getallocatedblocks()
    for f in functions:
        for _ in range(drawn(5000)):
            f(x)
    assert [sys.getrefcount(w) for w in watched] == before
    assert harness.live_bytes() == live
    assert sys.getallocatedblocks() - blocks < 100
