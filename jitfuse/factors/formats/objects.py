"""Models made of the objects of pgmpy and networkx. Neither is imported: what counts is which methods an object has."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from jitfuse.errors import ModelError
from jitfuse.factors.formats.model import Model

_Factor: TypeAlias = tuple[tuple[Any, ...], np.ndarray]


def from_pgmpy(model: Any) -> Model:
    """Take over a discrete model of pgmpy: a Bayesian or Markov network, factor graph, cluster graph or junction tree.

    Variables keep their names, in the order of the nodes; states keep theirs as texts, in the order of the first factor
    that has the variable. Factors stand in pgmpy's order; scopes of conditional distributions are (parents, child).
    Raises ModelError for another object, a distribution that is no table, and a variable without factor.

    Example:
        >>> model = from_pgmpy(DiscreteBayesianNetwork.load("asia.bif", filetype="bif"))
        >>> model.states["smoke"]
        ('yes', 'no')
    """
    directed = hasattr(model, "get_cpds")
    read = getattr(model, "get_cpds" if directed else "get_factors", None)
    if read is None or not hasattr(model, "nodes"):
        raise ModelError(f"expected a model of pgmpy with nodes and with CPDs or factors, found {type(model).__name__}")
    states: dict[Any, list[Any]] = {}
    factors = [_of_pgmpy(part, states) for part in read()]
    if directed:
        factors = [((*scope[1:], scope[0]), np.moveaxis(table, 0, -1)) for scope, table in factors]
    covered = {scope[-1] for scope, _ in factors if scope} if directed else states.keys()
    for node in model.nodes():
        clique = isinstance(node, tuple) and covered >= set(node)
        factor = hasattr(model, "get_variable_nodes") and any(True for _ in model.neighbors(node))  # of a factor graph
        if not (node in covered or clique or factor):
            raise ModelError(f"the variable {node!r} has no {'distribution' if directed else 'factor'}")
    nodes = [node for node in model.nodes() if node in states]
    sizes = {variable: len(states[variable]) for variable in dict.fromkeys([*nodes, *states])}
    return Model(sizes, tuple(factors), {name: _texts(name, states[name]) for name in sizes}, {})


def _of_pgmpy(part: Any, states: dict[Any, list[Any]]) -> _Factor:
    """Return the scope and table of a factor or CPD, with states in the order in which they were seen first."""
    try:
        scope, table, names = tuple(part.variables), part.values, part.state_names
    except AttributeError:
        raise ModelError(f"expected a table of pgmpy, found {type(part).__name__}: only discrete models fit") from None
    table = _table(scope, table, [len(names[variable]) for variable in scope])
    for axis, variable in enumerate(scope):
        here = list(names[variable])
        first = states.setdefault(variable, here)
        if here != first:
            if len(here) != len(first) or any(state not in here for state in first):
                raise ModelError(f"the factor over {scope} has other states of {variable!r}: {here}, not {first}")
            table = table.take([here.index(state) for state in first], axis)
    return scope, table


def from_networkx(graph: Any, *, size: str = "size", states: str = "states", table: str = "table") -> Model:
    """Take over a graph of networkx whose nodes and edges have tables as attributes, named by the arguments.

    A node with `size`, or with `states` (their names), is a variable. A factor is

    - the `table` of a variable: over it alone, or in a directed graph over (its predecessor, the variable);
    - the `table` of an edge: over its two variables;
    - the `table` of another node: over its neighbours, as in a bipartite factor graph.

    An attribute `scope` beside the table gives its variables in the order of its axes. It is needed where the graph has
    no order: for an undirected edge whose table is not symmetric, several predecessors, or several neighbours. A table
    may be a function: it gets an array of state numbers for each variable, and returns the array of values.

    Variables stand in the order of the nodes, factors of nodes before those of edges. Raises ModelError for other
    objects, for tables of wrong shapes, and for negative or infinite numbers or NaN.

    Example:
        >>> graph = networkx.grid_graph((2, 2))
        >>> networkx.set_node_attributes(graph, 2, "size")
        >>> networkx.set_edge_attributes(graph, lambda a, b: np.exp(0.5 * (a == b)), "table")
        >>> len(from_networkx(graph).factors)
        4
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise ModelError(f"expected a graph of networkx, found {type(graph).__name__}")
    names = {node: _texts(node, data[states]) for node, data in graph.nodes(data=True) if states in data}
    sizes = {node: len(names[node]) if node in names else _size(node, data[size])
             for node, data in graph.nodes(data=True) if size in data or node in names}
    for node, found in names.items():
        if graph.nodes[node].get(size, len(found)) != len(found):
            raise ModelError(f"the node {node!r} has {len(found)} states and the size {graph.nodes[node][size]!r}")
    factors = []
    for scope, ordered, data in _of_networkx(graph, sizes, table):
        given = data.get("scope")
        chosen = scope if given is None else tuple(given)
        if set(chosen) != set(scope) or len(set(scope)) < len(chosen):
            raise ModelError(f"the scope {chosen!r} is no order of the graph's {scope!r}")
        if any(variable not in sizes for variable in scope):
            raise ModelError(f"expected a scope of variables with sizes, found {scope!r}")
        values = _table(chosen, data[table], [sizes[variable] for variable in chosen])
        if given is None and not ordered and not (len(chosen) == 2 and _symmetric(values)):
            raise ModelError(f"the graph has no order of {chosen!r}: give the order of axes in an attribute `scope`")
        factors.append((chosen, values))
    return Model(sizes, tuple(factors), names, {})


def _of_networkx(graph: Any, sizes: Mapping[Any, int], table: str) -> Iterator[tuple[tuple[Any, ...], bool, Any]]:
    """Yield the scope of each factor, whether the graph orders it, and the attributes."""
    directed = graph.is_directed()
    for node, data in graph.nodes(data=True):
        if node in sizes and table in data:
            alone = not directed or (not callable(data[table]) and _array((node,), data[table]).ndim == 1)
            before = () if alone else tuple(graph.predecessors(node))
            yield (*before, node), len(before) < 2, data
        elif table in data:
            near = dict.fromkeys((*graph.predecessors(node), *graph.successors(node)) if directed else graph[node])
            yield tuple(near), len(near) < 2, data
        elif node not in sizes:
            raise ModelError(f"the node {node!r} has neither a size nor a table")
    for first, second, data in graph.edges(data=True):
        if table in data:
            yield (first, second), directed, data


def _symmetric(values: np.ndarray) -> bool:
    return values.shape[0] == values.shape[1] and bool((values == values.T).all())


def _size(node: Any, size: Any) -> int:
    if not isinstance(size, (int, np.integer)) or size < 1:
        raise ModelError(f"the node {node!r} has the size {size!r}: expected a whole number from 1")
    return int(size)


def _texts(variable: Any, states: Sequence[Any]) -> tuple[str, ...]:
    texts = tuple(map(str, states))
    if not texts or len(set(texts)) < len(texts):
        raise ModelError(f"expected different names of the states of {variable!r}, at least one, found {texts!r}")
    return texts


def _table(scope: tuple[Any, ...], table: Any | Callable[..., Any], shape: Sequence[int]) -> np.ndarray:
    values = _array(scope, table(*np.indices(shape)) if callable(table) else table)
    if callable(table) and values.ndim == 0:
        values = np.full(shape, values)
    if values.shape != tuple(shape):
        raise ModelError(f"the table of the factor over {scope!r} has the shape {values.shape}, not {tuple(shape)}")
    if not ((values >= 0) & (values < math.inf)).all():
        raise ModelError(f"the factor over {scope!r} has a negative or infinite number or NaN")
    return values


def _array(scope: tuple[Any, ...], table: Any) -> np.ndarray:
    try:
        found = np.asarray(table)
        if found.dtype.kind not in "biufO":  # complex numbers would lose their imaginary part
            raise TypeError(f"its dtype is {found.dtype}")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the factor over {scope!r} is no table of numbers: {error}") from error
