"""Models from graphs of networkx, and from objects with pgmpy's methods; `test_pgmpy.py` has pgmpy's own."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jitfuse.errors import ModelError
from jitfuse.factors.formats import objects

networkx: Any = pytest.importorskip("networkx", reason="networkx is not installed")
RNG = np.random.default_rng(0)
SQUARE, WIDE, CUBE = RNG.random((2, 2)), RNG.random((2, 3)), RNG.random((2, 3, 2))
PAIR = SQUARE + SQUARE.T


def graph_of(kind: Any = None) -> Any:
    """Return a graph of variables b, a and c of sizes 2, 2 and 3."""
    graph = (kind or networkx.Graph)()
    graph.add_node("b", size=2)
    graph.add_node("a", states=["yes", "no"])
    graph.add_node("c", size=np.int64(3))
    return graph


def check(graph: Any, *factors: tuple[tuple[str, ...], np.ndarray]) -> None:
    model = objects.from_networkx(graph)
    assert list(model.sizes.items()) == [("b", 2), ("a", 2), ("c", 3)]
    assert model.states == {"a": ("yes", "no")} and not model.evidence
    assert [scope for scope, _ in model.factors] == [scope for scope, _ in factors]
    for (_, table), (_, expected) in zip(model.factors, factors):
        assert table.dtype == np.float64
        np.testing.assert_array_equal(table, expected)


def test_undirected() -> None:
    graph = graph_of()
    graph.nodes["b"]["table"] = [1, 2]
    graph.add_edge("a", "b", table=PAIR)
    graph.add_edge("a", "c", table=WIDE.T, scope=("c", "a"))
    graph.add_edge("b", "c")
    check(graph, (("b",), np.array([1, 2])), (("b", "a"), PAIR), (("c", "a"), WIDE.T))


def test_directed() -> None:
    graph = graph_of(networkx.DiGraph)
    graph.add_edge("a", "b", table=SQUARE)
    graph.add_edge("b", "c")
    graph.nodes["a"]["table"] = [0.25, 0.75]
    graph.nodes["c"]["table"] = WIDE
    check(graph, (("a",), np.array([0.25, 0.75])), (("b", "c"), WIDE), (("a", "b"), SQUARE))
    graph.add_edge("a", "c")
    graph.nodes["c"].update(table=np.ones((2, 2, 3)), scope=("a", "b", "c"))
    check(graph, (("a",), np.array([0.25, 0.75])), (("a", "b", "c"), np.ones((2, 2, 3))), (("a", "b"), SQUARE))
    graph.nodes["c"]["scope"] = None
    with pytest.raises(ModelError, match="no order of"):
        objects.from_networkx(graph)


def test_factor_nodes() -> None:
    graph = graph_of()
    graph.add_node("f", table=CUBE, scope=("a", "c", "b"))
    graph.add_node("g", table=[3, 4, 5])
    graph.add_node("h", table=2)
    graph.add_edges_from([("f", "a"), ("f", "b"), ("f", "c"), ("g", "c")])
    check(graph, (("a", "c", "b"), CUBE), (("c",), np.array([3, 4, 5])), ((), np.array(2)))


def test_parallel_edges_and_functions() -> None:
    graph = graph_of(networkx.MultiGraph)
    graph.add_edge("b", "a", table=PAIR)
    graph.add_edge("b", "a", table=lambda x, y: x == y)
    graph.add_edge("c", "a", table=lambda x, y: x + 10 * y, scope=("c", "a"))
    graph.nodes["a"]["table"] = lambda x: 7
    sums = np.arange(3)[:, None] + 10 * np.arange(2)
    check(graph, (("a",), np.array([7, 7])), (("b", "a"), PAIR), (("b", "a"), np.eye(2)), (("c", "a"), sums))


def test_attributes_of_other_names() -> None:
    graph = networkx.Graph()
    graph.add_node(0, card=2, names=("x", "y"), phi=[1, 2])
    model = objects.from_networkx(graph, size="card", states="names", table="phi")
    assert model.sizes == {0: 2} and model.states == {0: ("x", "y")} and model.factors[0][1].tolist() == [1, 2]


@pytest.mark.parametrize(("change", "message"), [
    (lambda g: g.add_node("d"), "node 'd' has neither a size nor a table"),
    (lambda g: g.add_node("d", size=0), "node 'd' has the size 0"),
    (lambda g: g.add_node("d", size=2.5), "node 'd' has the size 2.5"),
    (lambda g: g.add_node("d", states=[]), "names of the states of 'd'"),
    (lambda g: g.add_node("d", states=[1, "1"]), "names of the states of 'd'"),
    (lambda g: g.add_node("d", states="xy", size=3), "node 'd' has 2 states and the size 3"),
    (lambda g: g.add_edge("a", "b", table=SQUARE), r"no order of \('b', 'a'\): give the order of axes in an attribute"),
    (lambda g: g.add_edge("a", "c", table=WIDE), r"no order of \('a', 'c'\)"),
    (lambda g: g.add_edge("a", "c", table=WIDE, scope=("c", "a")), r"shape \(2, 3\), not \(3, 2\)"),
    (lambda g: g.add_edge("a", "c", table=WIDE, scope=("a", "b")), "is no order of the graph's"),
    (lambda g: g.add_edge("a", "c", table=WIDE, scope=("a", "c", "a")), "is no order of the graph's"),
    (lambda g: g.add_edge("a", "a", table=PAIR), "is no order of the graph's"),
    (lambda g: g.add_edge("a", "b", table=-PAIR), "negative or infinite number or NaN"),
    (lambda g: g.add_edge("a", "b", table=PAIR * np.nan), "negative or infinite number or NaN"),
    (lambda g: g.add_edge("a", "b", table=PAIR * np.inf), "negative or infinite number or NaN"),
    (lambda g: g.add_edge("a", "b", table=PAIR * 1j), "no table of numbers: its dtype is complex128"),
    (lambda g: g.add_edge("a", "b", table="half"), "no table of numbers"),
    (lambda g: g.add_edge("a", "b", table=[[1], [1, 2]]), "no table of numbers"),
    (lambda g: g.add_edge("a", "b", table=lambda x, y: x[0]), r"shape \(2,\), not \(2, 2\)"),
    (lambda g: (g.add_node("f", table=[1]), g.add_node("g", table=[1]), g.add_edge("f", "g")), "variables with sizes"),
    (lambda g: (g.add_node("f", table=CUBE), g.add_edges_from([("f", name) for name in "acb"])), "no order of"),
])
def test_errors(change: Any, message: str) -> None:
    graph = graph_of()
    objects.from_networkx(graph)
    change(graph)
    with pytest.raises(ModelError, match=message):
        objects.from_networkx(graph)


def test_other_objects() -> None:
    with pytest.raises(ModelError, match="expected a graph of networkx, found dict"):
        objects.from_networkx({})
    with pytest.raises(ModelError, match="expected a model of pgmpy with nodes and with CPDs or factors, found Graph"):
        objects.from_pgmpy(networkx.Graph())


def factor(names: dict[str, list[Any]], values: Any) -> Any:
    return SimpleNamespace(variables=list(names), values=values, state_names=names)


def test_pgmpy_by_duck_typing() -> None:
    """The states of a variable stand in any order; distributions are (child, parents) there."""
    first = factor({"a": ["x", "y"]}, np.array([0.25, 0.75]))
    second = factor({"b": [1, 2, 3], "a": ["y", "x"]}, WIDE.T)
    network = SimpleNamespace(nodes=lambda: ["b", "a"], get_cpds=lambda: [first, second])
    model = objects.from_pgmpy(network)
    assert list(model.sizes.items()) == [("b", 3), ("a", 2)]
    assert model.states == {"a": ("x", "y"), "b": ("1", "2", "3")}
    assert [scope for scope, _ in model.factors] == [("a",), ("a", "b")]
    np.testing.assert_array_equal(model.factors[1][1], WIDE[::-1])


@pytest.mark.parametrize(("parts", "message"), [
    ([factor({"a": ["x", "y"]}, [1.0, 2.0])], "variable 'b' has no factor"),
    ([factor({"a": ["x", "y"]}, [1.0])], r"shape \(1,\), not \(2,\)"),
    ([factor({"a": ["x", "y"]}, [1, 2]), factor({"a": ["x", "z"]}, [1, 2])], "other states of 'a'"),
    ([factor({"a": ["x", "y"]}, [1, 2]), factor({"a": ["x"]}, [1])], "other states of 'a'"),
    ([SimpleNamespace(variables=["a"])], "expected a table of pgmpy, found SimpleNamespace"),
])
def test_pgmpy_errors(parts: list[Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        objects.from_pgmpy(SimpleNamespace(nodes=lambda: ["a", "b"], get_factors=lambda: parts))
