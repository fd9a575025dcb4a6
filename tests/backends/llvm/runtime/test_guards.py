"""Each kind of guard against arguments that must pass and arguments that must not."""
from __future__ import annotations

import random
import sys
import types
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from jitfuse.backends.llvm.runtime.tables import EntryBuilder, ScalarResult, SlotResult


class Raising:
    """Raises whatever it is asked."""

    value = 3

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: object) -> object:
        raise KeyError(key)

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value


def verdict(f: Any, *args: Any) -> bool:
    result = f(*args)
    assert result == "hit" or result == ("miss", args, {})
    return bool(result == "hit")


NAN_PAYLOAD = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0].item()
EQUAL_CASES = [
    (3, [3, 10**3 - 997], [3.0, True, 4, np.int64(3), "3"]),
    (10**30, [10**30], [10**30 + 1, 1e30]),
    (True, [True], [1, False, np.True_]),
    (None, [None], [0, False]),
    ("ab", ["ab", "".join(["a", "b"])], ["abc", b"ab"]),
    (0.0, [0.0], [-0.0, 0, False]),
    (float("nan"), [float("nan")], [NAN_PAYLOAD, 0.0]),
    (complex(1, -0.0), [complex(1, -0.0)], [1 + 0j, 1.0]),
    ((1, 2.0), [(1, 2.0)], [(True, 2.0), (1, 2), (1, 2.0, 3), [1, 2.0], (1,)]),
    ([0.0], [[0.0]], [[-0.0], (0.0,), []]),
    ({"a": 1}, [{"a": 1}], [{"a": True}, {"b": 1}, {"a": 1, "b": 2}, OrderedDict(a=1)]),
    (slice(1, 2), [slice(1, 2)], [slice(1, 3)]),
    (frozenset({1}), [frozenset({1})], [{1}]),
]


@pytest.mark.parametrize(("value", "good", "bad"), EQUAL_CASES, ids=[repr(c[0]) for c in EQUAL_CASES])
def test_equal(harness: Any, value: object, good: list[Any], bad: list[Any]) -> None:
    f = harness.function(lambda b: b.guard_equal(b.argument(0), value))
    assert [verdict(f, x) for x in good] == [True] * len(good)
    assert [verdict(f, x) for x in bad] == [False] * len(bad)


def test_equal_swallows_what_the_comparison_raises(harness: Any) -> None:
    f = harness.function(lambda b: b.guard_equal(b.argument(0), Raising()))
    assert f(1)[0] == "miss"
    assert f(Raising())[0] == "miss"
    assert sys.exc_info() == (None, None, None)


def test_type_identity_length(harness: Any) -> None:
    target = Holder(1)
    f = harness.function(lambda b: b.guard_type(b.argument(0), int))
    assert [verdict(f, x) for x in (1, True, 1.0)] == [True, False, False]
    f = harness.function(lambda b: b.guard_identity(b.argument(0), target))
    assert [verdict(f, x) for x in (target, Holder(1))] == [True, False]
    f = harness.function(lambda b: b.guard_length(b.argument(0), 2))
    good = [[1, 2], (1, 2), {1: 1, 2: 2}]
    bad = [[1], (), {}, "ab", {1, 2}, types.SimpleNamespace(), OrderedDict({1: 1, 2: 2})]
    assert [verdict(f, x) for x in good + bad] == [True] * 3 + [False] * 7


def test_chains(harness: Any) -> None:
    """Globals, attributes, items, list items and cells, found anew at each call."""
    space: dict[str, Any] = {"cfg": Holder([5, 6]), "table": {"k": 1}, "odd": types.MappingProxyType({1: 2})}
    content = [7]

    def make() -> Any:
        return lambda: content

    cell = make().__closure__[0]

    def build(b: EntryBuilder) -> None:
        cfg = b.dict_item(space, "cfg")
        b.guard_equal(b.index(b.attribute(cfg, "value"), 1), 6)
        b.guard_equal(b.item(b.dict_item(space, "table"), "k"), 1)
        b.guard_equal(b.item(b.dict_item(space, "odd"), 1), 2)
        b.guard_equal(b.index(b.cell(cell), 0), 7)
        b.guard_absent(space, "len")

    f = harness.function(build, positional=0)
    assert f() == "hit"

    def misses_while(change: Any, undo: Any) -> None:
        change()
        assert f()[0] == "miss"
        undo()
        assert f() == "hit"

    misses_while(lambda: space.update(len=1), lambda: space.pop("len"))
    misses_while(lambda: space["cfg"].value.append(6) or space["cfg"].value.__setitem__(1, 7),
                 lambda: space["cfg"].value.__setitem__(1, 6))
    misses_while(lambda: space["table"].update(k=2), lambda: space["table"].update(k=1))
    misses_while(lambda: space["table"].clear(), lambda: space["table"].update(k=1))
    misses_while(lambda: content.clear(), lambda: content.append(7))
    kept = space.pop("cfg")
    assert f()[0] == "miss"
    space["cfg"] = Raising()
    assert f()[0] == "miss"
    space["cfg"] = kept
    assert f() == "hit"
    cell.cell_contents = [8]
    assert f()[0] == "miss"
    del cell.cell_contents
    assert f()[0] == "miss"


def test_item_of_what_raises_or_cannot(harness: Any) -> None:
    f = harness.function(lambda b: b.guard_equal(b.item(b.argument(0), 0), 1))
    assert [verdict(f, x) for x in ([1], (1,), {0: 1}, np.array([1]))] == [True, True, True, False]
    assert f({})[0] == f(3)[0] == f(Raising())[0] == f([])[0] == "miss"
    f = harness.function(lambda b: b.guard_equal(b.index(b.argument(0), 1), 1))
    assert f((0, 1)) == f([0, 1]) == "hit"
    assert f((0,))[0] == f([])[0] == f({1: 1})[0] == f("01")[0] == "miss"


def test_python_scalars(harness: Any) -> None:
    f = harness.function(lambda b: ScalarResult(b.guard_float(b.argument(0)), "float64"))
    assert f(2.5) == 2.5 and type(f(2.5)) is np.float64
    for x in (2, True, np.float64(2.5), "2"):
        assert f(x)[0] == "miss"
    f = harness.function(lambda b: ScalarResult(b.guard_int(b.argument(0), -5, 2**40), "int64"))
    assert [f(x) for x in (-5, 0, 2**40)] == [-5, 0, 2**40] and type(f(0)) is np.int64
    for y in (-6, 2**40 + 1, 2**70, -(2**70), True, 1.0):
        assert f(y)[0] == "miss"
    f = harness.function(lambda b: ScalarResult(b.guard_int(b.argument(0)), "int64"))
    assert [f(x) for x in (2**63 - 1, -(2**63))] == [2**63 - 1, -(2**63)]
    assert f(2**63)[0] == "miss"
    f = harness.function(lambda b: ScalarResult(b.guard_bool(b.argument(0)), "bool"))
    assert f(True) is np.True_ and f(False) is np.False_
    assert f(1)[0] == f(np.True_)[0] == "miss"


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "float32", "float64", "complex128"])
def test_numpy_scalars(harness: Any, dtype: str) -> None:
    def build(b: EntryBuilder) -> ScalarResult:
        b.guard_float(b.argument(1))
        value = b.guard_numpy_scalar(b.argument(0), dtype)
        b.guard_float(b.argument(1))
        return ScalarResult(value, dtype)

    f = harness.function(build, positional=2)
    for x in np.array([0, 1, 100]).astype(dtype):
        assert f(x, 1.5) == x and type(f(x, 1.5)) is type(x)
    for y in (1, 1.0, True, np.uint16(1), np.array(1, dtype)):
        assert f(y, 1.5)[0] == "miss"


def test_array(harness: Any) -> None:
    x = np.zeros((3, 4), np.float32)
    f = harness.function(lambda b: (b.guard_array(b.argument(0), "float32", (3, 4)), None)[1])
    read_only = x.copy()
    read_only.flags.writeable = False
    metadata = np.zeros((3, 4), np.dtype("f4", metadata={"a": 1}))
    for good in (x, read_only, metadata, x.reshape(1, 3, 4)[0]):
        assert f(good) == "hit"
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float32).reshape(3, 4)
    assert not unaligned.flags.aligned
    bad = (x[:, ::-1], np.asfortranarray(x), x.astype("f8"), x.astype("i4"), x.astype(">f4"), x[:2], x[0],
           x[None], unaligned, x.view(np.matrix), x.tolist(), np.zeros((4, 3), np.float32), np.float32(1))
    for y in bad:
        assert f(y)[0] == "miss"


def test_array_strides_and_writeable(harness: Any) -> None:
    x = np.zeros((6, 4))[::2, ::-1]
    f = harness.function(
        lambda b: (b.guard_array(b.argument(0), "float64", (3, 4), x.strides, writeable=True), None)[1]
    )
    assert f(x) == "hit"
    for y in (x[:, ::-1], x.copy(), np.broadcast_to(np.zeros(4), (3, 4))):
        assert f(y)[0] == "miss"
    x.flags.writeable = False
    assert f(x)[0] == "miss"


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (1,) * 32, (2,) * 20, (1,) * 63 + (3,)])
def test_array_of_any_rank(harness: Any, shape: tuple[int, ...]) -> None:
    f = harness.function(lambda b: (b.guard_array(b.argument(0), "int64", shape), None)[1])
    assert f(np.zeros(shape, np.int64)) == "hit"
    assert f(np.zeros((*shape, 1)[:64][::-1], np.int64) if len(shape) < 64 else np.zeros(3))[0] == "miss"
    assert f(np.zeros((*shape[:-1], 4), np.int64))[0] == "miss"


def test_disjoint(harness: Any) -> None:
    memory = np.zeros(32, np.float32)

    def add(b: EntryBuilder) -> None:
        x, y = (b.guard_array(b.argument(i), "float32", (8,)) for i in range(2))
        b.guard_disjoint({x: (0, 32)}, {y: (0, 32)})

    f = harness.function(add, positional=2)
    pairs = {
        "apart": (memory[:8], memory[8:16]), "before": (memory[16:24], memory[8:16]),
        "same": (memory[:8], memory[:8]), "shifted": (memory[1:9], memory[:8]),
        "back": (memory[:8], memory[1:9]),
    }
    assert {k: verdict_of(f, p) for k, p in pairs.items()} == {
        "apart": True, "before": True, "same": False, "shifted": False, "back": False}


def test_disjoint_of_many(harness: Any) -> None:
    """Many pieces of memory in any order, in call after call, as NumPy compares each pair."""
    draw, memory, written, count = random.Random(0), np.zeros(400, np.int8), 4, 9
    sizes = [draw.choice((1, 3, 8)) for _ in range(count)]

    def add(b: EntryBuilder) -> None:
        values = [b.guard_array(b.argument(k), "int8", (n,), (2,)) for k, n in enumerate(sizes)]
        spans = {v: (0, 2 * n - 1) for v, n in zip(values, sizes, strict=True)}
        b.guard_disjoint({v: spans[v] for v in values[:written]}, {v: spans[v] for v in values[written:]})

    f = harness.function(add, positional=count)
    verdicts = set()
    for _ in range(500):
        starts = [draw.randrange(0, 380) for _ in sizes]
        arrays = [memory[s : s + 2 * n - 1 : 2] for s, n in zip(starts, sizes, strict=True)]
        wanted = not any(
            np.may_share_memory(arrays[a], arrays[b]) for a in range(written) for b in range(count) if a != b)
        assert verdict_of(f, tuple(arrays)) == wanted, starts
        verdicts.add(wanted)
    assert verdicts == {True, False}


def verdict_of(f: Any, pair: tuple[Any, ...]) -> bool:
    return isinstance(f(*pair), str)


@pytest.mark.usefixtures("still")
def test_guards_release_what_they_found(harness: Any) -> None:
    """A guard that fails late leaves every reference count as it was."""
    held, key = Holder([object()]), "held"
    space = {key: held}

    def build(b: EntryBuilder) -> SlotResult:
        slot = b.dict_item(space, key)
        item = b.index(b.attribute(slot, "value"), 0)
        b.guard_equal(b.argument(0), 1)
        b.constant(held)
        b.guard_equal(b.argument(1), 1)
        return SlotResult(item)

    f = harness.function(build, positional=2)
    counted = (held, held.value, held.value[0], space)
    before = [sys.getrefcount(x) for x in counted]
    for _ in range(100):
        f(1, 1), f(2, 1), f(1, 2)
    assert [sys.getrefcount(x) for x in counted] == before
    assert f(1, 1) is held.value[0]


def test_a_guard_may_drop_what_an_earlier_one_found(harness: Any) -> None:
    """The object found first survives the property that removes its only other reference."""

    class Dropping:
        @property
        def value(self) -> int:
            space["x"] = None
            return 1

    space: dict[str, Any] = {"x": None}

    def build(b: EntryBuilder) -> SlotResult:
        first = b.dict_item(space, "x")
        b.guard_equal(b.attribute(b.argument(0), "value"), 1)
        return SlotResult(first)

    f = harness.function(build)
    for _ in range(50):
        space["x"] = [object()] * 3
        assert len(f(Dropping())) == 3
