"""BIF: the format's own example, what bnlearn writes, odd names, round trips, and each error with its line."""
from __future__ import annotations

import gzip
import math
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from jitfuse.errors import ModelError
from jitfuse.factors.formats import bif
from jitfuse.factors.formats.model import Model

DOGS = """
// Bayesian network
network "Dog-Problem" { //5 variables
    property "credal-set constant-density-bounded 1.1" ;
}
/* blocks may stand
   in any order */
probability (  "hear-bark"  "dog-out" ) { //2 variable(s) and 6 values
    table 0.7 .01 1 3e-1 0.99 0 ;
}
variable  "hear-bark" { type discrete[2] {  "true"  "false" }; property "position = (296, 268)" ; }
variable  dog-out { property a = "}; {"; type discrete [ 3 ] { in, out, n/a }; }
variable <cold>=.5 { type discrete[2]{yes,no}; }
probability ( dog-out | "<cold>=.5", hear.d ) { property x ;
    (no, b) 0.1, 0.2, 0.7;
    default 1 0 0;
    (yes, a) 0.5 0.25 2.5E-1 ;
}
probability ( <cold>=.5 ) { table 1, 0; }
variable hear.d { type discrete[2]{ a, b }; }
probability ( hear.d ) { table 0.30, 0.7; }
"""


def same(left: Model, right: Model) -> None:
    assert list(left.sizes.items()) == list(right.sizes.items()) and left.states == right.states
    assert [scope for scope, _ in left.factors] == [scope for scope, _ in right.factors]
    for (_, a), (_, b) in zip(left.factors, right.factors):
        assert a.shape == b.shape and a.dtype == b.dtype == np.float64
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("ending", [".bif", ".bif.gz"])
def test_by_hand(tmp_path: Path, ending: str) -> None:
    path = tmp_path / ("m" + ending)
    path.write_bytes(gzip.compress(DOGS.encode()) if ending.endswith("gz") else DOGS.encode())
    rows = np.array([[[0.5, 0.25, 0.25], [1, 0, 0]], [[1, 0, 0], [0.1, 0.2, 0.7]]])
    bark = np.array([[0.7, 0.3], [0.01, 0.99], [1, 0]])
    states = {
        "hear-bark": ("true", "false"), "dog-out": ("in", "out", "n/a"), "<cold>=.5": ("yes", "no"),
        "hear.d": ("a", "b"),
    }
    model = bif.read_model(path)
    same(model, Model({name: len(found) for name, found in states.items()}, (
        (("dog-out", "hear-bark"), bark), (("<cold>=.5", "hear.d", "dog-out"), rows),
        (("<cold>=.5",), np.array([1.0, 0])), (("hear.d",), np.array([0.3, 0.7])),
    ), states, {}))
    bif.write_model(tmp_path / "again.bif", model)
    same(bif.read_model(tmp_path / "again.bif"), model)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4) | st.sampled_from(
    ["table", "default", "property", "a//b", "/*", "//", "/", "a b", '"', "\\", '\\"', "|", "(", "0.5", "yes", "é"]
)


@st.composite
def networks(draw: st.DrawFn) -> Model:
    """Draw a network with any names; parents stand in any order, tables have rows of sum 1."""
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    states = {name: tuple(draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    factors = []
    for at in draw(st.permutations(range(len(names)))):
        parents = draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else []
        scope = (*parents, names[at])
        table = rng.random([len(states[name]) for name in scope])
        factors.append((scope, table / table.sum(-1, keepdims=True)))
    return Model({name: len(found) for name, found in states.items()}, tuple(factors), states, {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bif")


@hypothesis.given(networks(), st.sampled_from([".bif", ".bif.gz"]))
def test_round_trip(folder: Path, model: Model, ending: str) -> None:
    bif.write_model(folder / ("m" + ending), model)
    same(bif.read_model(folder / ("m" + ending)), model)


def test_names_that_are_no_texts(tmp_path: Path) -> None:
    model = Model({0: 2, 1: 2}, (((0,), np.array([0.5, 0.5])), ((0, 1), np.eye(2))), {}, {})
    bif.write_model(tmp_path / "m", model)
    found = bif.read_model(tmp_path / "m")
    assert found.states == {"0": ("s0", "s1"), "1": ("s0", "s1")}
    np.testing.assert_array_equal(found.factors[1][1], np.eye(2))
    clash = Model({0: 1, "0": 1}, (((0,), np.ones(1)), (("0",), np.ones(1))), {}, {})
    with pytest.raises(ModelError, match="two variables have the same name"):
        bif.write_model(tmp_path / "m", clash)
    with pytest.raises(ModelError, match="scope ends in 1, not 0"):
        bif.write_model(tmp_path / "m", Model({0: 2, 1: 2}, model.factors[:1], {}, {}))


SMALL = """network n { }
variable a { type discrete [ 2 ] { x, y }; }
variable b { type discrete [ 2 ] { u, v }; }
probability ( a ) { table 0.5, 0.5; }
probability ( b | a ) {
(x) 0.5, 0.5;
(y) 0.5, 0.5;
}
"""
WRONG = [
    ("network n { }", "network n { ", "2: expected '}', found variable"),
    ("network n { }", "network n", "2: expected '}', found type"),
    ("probability ( a )", "probabilty ( a )", "4: expected network, variable, or probability, found probabilty"),
    (SMALL, "variable a { /* }", "1: expected 'type', found /*"),
    (SMALL, "variable", "1: expected the name of a variable, found the end of the file"),
    ("network n { }", "network n { } /* x", "1: expected network, variable, or probability, found /*"),
    (SMALL, "", "1: expected a text, found an empty file"),
    ("variable b", "variable a", "3: expected another variable, found a"),
    ("variable b", "variable {", "3: expected the name of a variable, found {"),
    ("variable b", 'variable "b', '3: expected the name of a variable, found "'),
    ("type discrete [ 2 ] { u, v };", "", "3: expected the type of 'b', found }"),
    ("discrete [ 2 ] { u", "continuous [ 2 ] { u", "3: expected 'discrete', found continuous"),
    ("[ 2 ] { u", "[ 3 ] { u", "3: expected 2, as many states as 'b' has names, and at least one, found 3"),
    ("[ 2 ] { u, v }", "[ 0 ] { }", "3: expected 0, as many states as 'b' has names, and at least one, found 0"),
    ("{ u, v }", "{ u, u }", "3: expected other names of states of 'b' than u, u, found 2"),
    ("{ u, v };", "{ u, v }", "3: expected ';', found }"),
    ("{ u, v };", "{ u, v }; type discrete [ 1 ] { w };", "3: expected a property or '}', found type"),
    ("( a )", "( c )", "4: expected a variable of the file, for the first time, found c"),
    ("( b | a )", "( b | c )", "5: expected a variable of the file, for the first time, found c"),
    ("( b | a )", "( b | b )", "5: expected a variable of the file, for the first time, found b"),
    ("( b | a )", "( b a | a )", "5: expected the name of a parent, found |"),
    ("( b | a )", "( a )", "5: expected a variable of the file, for the first time, found a"),
    ("( b | a )", "b | a", "5: expected '(', found b"),
    ("probability ( a ) { table 0.5, 0.5; }", "", "8: expected a probability block of 'a', found the end of the file"),
    ("table 0.5, 0.5;", "", "4: expected probabilities of 'a' of sum 1 in the row (), found no such row"),
    ("(y) 0.5, 0.5;", "", "8: expected probabilities of 'b' of sum 1 in the row (y), found no such row"),
    ("(y) 0.5, 0.5;", "(y) 0.5, 0.25;", "8: expected probabilities of 'b' of sum 1 in the row (y), found the sum 0.75"),
    ("table 0.5, 0.5", "table 0.5", "4: expected the table of 'a', 2 numbers before ';', found 1 numbers"),
    ("table 0.5, 0.5", "table 0.5 0.5 0", "4: expected the table of 'a', 2 numbers before ';', found 3 numbers"),
    ("(x) 0.5, 0.5", "(x) 0.5", "6: expected a row of 'b', 2 numbers before ';', found 1 numbers"),
    ("(x) 0.5, 0.5", "(x) 0.5 half", "6: expected a row of 'b', a finite number from 0 up, found half"),
    ("(x) 0.5, 0.5", "(x) 1.5 -0.5", "6: expected a row of 'b', a finite number from 0 up, found -0.5"),
    ("(x) 0.5, 0.5", "(x) nan 0", "6: expected a row of 'b', a finite number from 0 up, found nan"),
    ("(x) 0.5, 0.5", "(x) inf 0", "6: expected a row of 'b', a finite number from 0 up, found inf"),
    ("(x) 0.5, 0.5;", "(x) 0.5, 0.5", "7: expected a row of 'b', a finite number from 0 up, found ("),
    ("(x)", "(z)", "6: expected a state of 'a', found z"),
    ("(x)", "(x, y)", "6: expected a state of each of 1 parents, found x"),
    ("(x)", "()", "6: expected a state of each of 1 parents, found )"),
    ("(y)", "(x)", "7: expected a row of 'b' for the first time, found ("),
    ("(x)", "x", "6: expected a row, or a first table or default, or a property, found x"),
    ("(y)", "table", "7: expected a row, or a first table or default, or a property, found table"),
    ("(y) 0.5, 0.5;", "default 1 0; default 0 1;", "7: expected a row, or a first table or default"),
    ("(y) 0.5, 0.5;", "default 1;", "7: expected the default of 'b', 2 numbers before ';', found 1 numbers"),
    ("( a ) { table 0.5, 0.5; }", "( a ) { table 0.5, 0.5;", "5: expected a row, or a first table or default"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_errors(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "m.bif"
    assert SMALL.count(old) == 1
    path.write_text(SMALL)
    bif.read_model(path)
    path.write_text(SMALL.replace(old, new))
    with pytest.raises(ModelError) as caught:
        bif.read_model(path)
    assert str(caught.value).startswith(f"{path}:{message}")


def test_tolerance(tmp_path: Path) -> None:
    path = tmp_path / "m.bif"
    path.write_text(SMALL.replace("(x) 0.5, 0.5", "(x) 0.49, 0.5"))
    assert bif.read_model(path).factors[1][1].tolist() == [[0.49, 0.5], [0.5, 0.5]]
    with pytest.raises(ModelError, match=r"in the row \(x\), found the sum 0.99"):
        bif.read_model(path, tolerance=1e-3)
    path.write_text(SMALL.replace("(x) 0.5, 0.5", "(x) 4, 5"))
    assert bif.read_model(path, tolerance=math.inf).factors[1][1].tolist() == [[4, 5], [0.5, 0.5]]
    path.write_text(SMALL.replace("(x) 0.5, 0.5;", ""))
    with pytest.raises(ModelError, match=r"the row \(x\), found no such row"):
        bif.read_model(path, tolerance=math.inf)
