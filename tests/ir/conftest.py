"""Programs that several tests of the IR read, and a strategy for any program."""
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs


@pytest.fixture(scope="session")
def training_program() -> FusedProgram:
    """A step of training in small: a mean with dropout, state, a write, and user lines."""
    f32 = Meta((3, 4), "float32")
    zero = {"shape": (), "value": 0, "dtype": "int64", "weak": True}
    return FusedProgram(
        feeds=frozenset({0, 1, 2}),
        steps=(
            OpStep(0, "multiply", (0, 1), (), (3,), False, 0),
            OpStep(1, "full", (), make_attrs(zero), (4,), False, 1),
            OpStep(2, "dropout", (3, 2, 4), make_attrs({"p": 0.25}), (5,), True, 2),
            OpStep(3, "sum", (5,), make_attrs({"axis": (1,), "keepdims": False}), (6,), False, 3),
            OpStep(4, "random_advance", (2,), (), (7,), False, 4),
        ),
        outputs={"['total']": 6, "['kept']": 5},
        meta={
            0: f32, 1: Meta((), "float64", weak=True), 2: Meta((2,), "int64"), 3: f32,
            4: Meta((), "int64", weak=True), 5: f32, 6: Meta((3,), "float32"), 7: Meta((2,), "int64"),
        },
        feed_names={0: "args[0]['x']", 1: "args[1]", 2: "jf.random.state"},
        state_in=frozenset({2}),
        state_out={2: 7},
        writes={0: 3},
        sources={0: "model.py:12", 3: "model.py:14"},
    )


@pytest.fixture(scope="session")
def nesting_program() -> FusedProgram:
    """A program with a program among its attributes; no operator of the table takes one yet."""
    inner = FusedProgram(
        feeds=frozenset({0}), steps=(OpStep(0, "exp", (0,), (), (1,)),), outputs={"": 1},
        meta={0: Meta((3,), "float32"), 1: Meta((3,), "float32")}, sources={0: "body.py:3"},
    )
    return FusedProgram(
        feeds=frozenset({0}), steps=(OpStep(0, "repeat", (0,), make_attrs({"body": inner, "times": 2}), (1,)),),
        outputs={"": 1}, meta=inner.meta,
    )


SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.sampled_from([0.0, -0.0, float("inf"), -float("inf"), float("nan"), -float("nan"), 5e-324, 1e22])
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3).map(tuple), max_leaves=6)
LETTERS = "abcdefghijklmnopqrstuvwxyz_"
NAMES = st.sampled_from(["nan", "inf", "program", "weak"]) | st.text(LETTERS, min_size=1, max_size=8)
IDS = st.integers(0, 40)
METAS = st.builds(
    Meta, st.lists(st.integers(0, 9), max_size=3).map(tuple), st.sampled_from(["bool", "int32", "float64"]),
    st.sampled_from(["cpu", "gpu", "cuda:0", "a 'device'"]), st.booleans(),
    st.none() | st.lists(st.text(max_size=3), max_size=2).map(tuple),
)


@pytest.fixture(scope="session")
def any_program() -> st.SearchStrategy[FusedProgram]:
    """Programs that can be written down, valid or not, with programs among their attributes."""
    return programs(VALUES | programs(VALUES))


@st.composite
def programs(draw: st.DrawFn, attr_values: st.SearchStrategy[Any]) -> FusedProgram:
    """Draw a program whose results and feeds are disjoint, as everything that can be printed has."""
    feeds = draw(st.frozensets(IDS, max_size=4))
    results = [i for i in draw(st.lists(IDS, unique=True, max_size=6)) if i not in feeds]
    steps = tuple(
        OpStep(
            k, draw(NAMES), tuple(draw(st.lists(IDS, max_size=3))),
            make_attrs(draw(st.dictionaries(NAMES, attr_values, max_size=3))), (result,), draw(st.booleans()),
            draw(st.integers(0, 9)),
        )
        for k, result in enumerate(results)
    )
    ids = st.sampled_from([*sorted(feeds), *results]) if feeds or results else st.nothing()
    of_feeds = st.dictionaries(st.sampled_from(sorted(feeds)), ids, max_size=2) if feeds else st.just({})
    return FusedProgram(
        feeds, steps,
        outputs=draw(st.dictionaries(st.text(max_size=5), ids, max_size=3)) if feeds or results else {},
        meta={i: draw(METAS) for i in [*sorted(feeds), *results] if draw(st.booleans())},
        feed_names={i: draw(st.text(max_size=6)) for i in sorted(feeds) if draw(st.booleans())},
        state_in=frozenset(i for i in sorted(feeds) if draw(st.booleans())),
        state_out=draw(of_feeds), writes=draw(of_feeds),
        sources={s.step_id: f"m{s.step_id}.py:{draw(IDS)}" for s in steps if draw(st.booleans())},
    )
