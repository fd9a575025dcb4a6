"""The fast call: arity, keywords, mode, misses, and that calls leave nothing behind."""
from __future__ import annotations

import gc
import sys
import tracemalloc
import types
from typing import Any

import numpy as np
import pytest
from amount import drawn
from single_plans import refuse

from jitfuse.backends.llvm.runtime.tables import (
    ArrayResult,
    EntryBuilder,
    NativeEntry,
    ObjectResult,
    SlotResult,
    StateBlock,
    TupleResult,
)


def miss(self: Any, *args: Any, **kwargs: Any) -> Any:
    return ("miss", args, kwargs)


def entry_of(tag: object, positional: int, keywords: tuple[str, ...] = (), *,
             modes: tuple[bool, ...] = (False, True)) -> NativeEntry:
    """Return an entry without guards; its result is (tag, training, every argument)."""
    b = EntryBuilder(positional, keywords, handler=refuse)
    slots = [b.argument(i) for i in range(positional)] + [b.keyword(k) for k in keywords]
    entry = b.build()
    for training in modes:
        p = entry.plan_builder()
        p.finish(TupleResult((ObjectResult(tag), ObjectResult(training), *map(SlotResult, slots))))
        entry.set_plan(training=training, plan=p.build())
    return entry


def attach(harness: Any, *entries: NativeEntry, training: bool = False) -> tuple[Any, StateBlock]:
    state = StateBlock(miss, training=training)
    for entry in entries:
        state.prepend(entry)
    return harness.attach(state), state


def test_arity(harness: Any) -> None:
    f, state = attach(harness, *(entry_of(n, n) for n in range(5)))
    for n in range(5):
        assert f(*range(n)) == (n, False, *range(n))
    assert f(*range(5)) == ("miss", (0, 1, 2, 3, 4), {})
    assert (state.misses, state.launches) == (1, 0)


def test_keywords(harness: Any) -> None:
    f, _ = attach(harness, entry_of("ab", 1, ("a", "b")), entry_of("ba", 1, ("b", "a")), entry_of("c", 0, ("c",)))
    assert f(0, a=1, b=2) == ("ab", False, 0, 1, 2)
    assert f(0, b=1, a=2) == ("ba", False, 0, 1, 2)
    assert f(c=5) == ("c", False, 5)
    for args, kwargs in (((), {"a": 1, "b": 2}), ((0,), {"a": 1}), ((0,), {"a": 1, "c": 2}), ((), {"d": 1})):
        assert f(*args, **kwargs) == ("miss", args, kwargs)


def test_names_that_are_not_interned(harness: Any) -> None:
    state = StateBlock(lambda *args, **kwargs: "miss")
    state.prepend(entry_of("ab", 0, ("alpha", "beta")))
    f = harness.attach(state)
    names = ["".join(parts) for parts in (("al", "pha"), ("be", "ta"), ("train", "ing"))]
    assert f(**dict(zip(names, (1, 2)))) == ("ab", False, 1, 2)
    assert f(**dict(zip(names, (1, 2, True)))) == ("ab", True, 1, 2)

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            raise ValueError

        __hash__ = str.__hash__

    assert f(**{Name("gamma"): 1, Name("beta"): 2}) == "miss"


def test_training(harness: Any) -> None:
    f, _ = attach(harness, entry_of("f", 1, ("k",)), entry_of("g", 1))
    assert f(0) == f(0, training=False) == ("g", False, 0)
    assert f(0, training=True) == ("g", True, 0)
    assert f(0, training=True, k=1) == f(0, k=1, training=True) == ("f", True, 0, 1)
    assert f(0, k=1) == ("f", False, 0, 1)
    for odd in (1, 0, None, np.True_, "yes"):
        assert f(0, training=odd) == ("miss", (0,), {"training": odd})
    f, _ = attach(harness, entry_of("g", 0), training=True)
    assert (f(), f(training=False)) == (("g", True), ("g", False))


def test_a_mode_without_a_plan_misses(harness: Any) -> None:
    older, newer = entry_of("older", 0), entry_of("newer", 0, modes=(True,))
    f, _ = attach(harness, older, newer)
    assert f(training=True) == ("newer", True) and f() == ("older", False)
    f, state = attach(harness, entry_of("only", 0, modes=(True,)))
    assert f() == ("miss", (), {}) and f(training=True) == ("only", True)
    p = state.entries[0].plan_builder()
    p.finish(ObjectResult("late"))
    state.entries[0].set_plan(training=False, plan=p.build())
    assert f() == "late"


def test_raising_misses(harness: Any) -> None:
    def failing(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise KeyError(self is g, args, kwargs)

    g = harness.attach(StateBlock(failing))
    with pytest.raises(KeyError) as caught:
        g(1, 2, k=3)
    assert caught.value.args == (True, (1, 2), {"k": 3})


def test_every_way_of_calling(harness: Any) -> None:
    f, _ = attach(harness, entry_of("f", 2), entry_of("k", 1, ("y",)))
    method = types.MethodType(f, 1)
    assert f(1, 2) == f(*[1, 2]) == method(2) == next(map(f, [1], [2])) == ("f", False, 1, 2)
    assert f(1, **dict.fromkeys(("y",), 2)) == method(y=2) == ("k", False, 1, 2)
    assert method(2, 3) == ("miss", (1, 2, 3), {})
    assert f.python_calls == 0 and f.__call__(1)[0] == "python"


def test_nothing_leaks(harness: Any) -> None:
    """Hits with objects from chains, misses, failing guards and exceptions, 100,000 times in all."""
    space, x = {"scale": 2.5, "x": np.zeros(4, np.float32)}, np.ones(4, np.float32)
    b = EntryBuilder(1, ("k",), handler=refuse)
    a = b.guard_array(b.argument(0), "float32", (4,))
    g = b.guard_array(b.dict_item(space, "x"), "float32", (4,))
    b.guard_float(b.dict_item(space, "scale"))
    b.guard_equal(b.attribute(b.keyword("k"), "imag"), 0)
    entry = b.build()
    p = entry.plan_builder()
    out = p.output("float32", (4,))
    p.launch(harness.kernel("add"), 4, operands=[(out.value, 0), (a, 0), (g, 0)])
    p.finish(TupleResult((ArrayResult(out), SlotResult(0))))
    entry.set_plan(training=False, plan=p.build())

    def failing(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise ValueError

    state = StateBlock(failing)
    state.prepend(entry)
    f = harness.attach(state)

    def iteration() -> None:
        f(x, k=1)
        for bad in ("one", None):
            try:
                f(x, k=bad)
            except ValueError:
                continue
            raise AssertionError

    watched: tuple[Any, ...] = (x, space["x"], space["scale"], f, failing, space, np.ndarray, x.dtype)
    for _ in range(100):
        iteration()
    gc.collect()
    before, live, blocks = [sys.getrefcount(w) for w in watched], harness.live_bytes(), sys.getallocatedblocks()
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(drawn(10_000)):
        iteration()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    for _ in range(drawn(25_000)):
        iteration()
    assert [sys.getrefcount(w) for w in watched] == before
    assert harness.live_bytes() == live
    assert sys.getallocatedblocks() - blocks < 100 and grown < 10_000
    assert np.array_equal(f(x, k=1)[0], x)
