"""What people give of a model: sizes and names of states, factors in all their forms, and which numbers they may hold.

Does not own evidence (`evidence.py`), nor files (`reading.py`).
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ModelError
from jitfuse.factors.tables import Factor, Table
from jitfuse.tracing.abstract import AbstractTensor


class Model(NamedTuple):
    """What a person gave: sizes of all variables, factors, whether their tables hold logs, the bytes that the messages
    of a query may take, and the libraries that are asked for orders too.
    """

    sizes: tuple[int, ...]
    factors: Sequence[Factor]
    log: bool
    limit_bytes: int
    libraries: tuple[str, ...] = ()


# ---------------------------------------------------------------------- variables
def read_states(states: Mapping[Any, Sequence[str]], sizes: Mapping[Any, int]) -> dict[Any, tuple[str, ...]]:
    """Return the names of states; raise ModelError where they do not fit."""
    for name, called in states.items():
        if name not in sizes:
            raise ModelError(f"names of states of {name!r}: the graph has no such variable")
        if isinstance(called, str) or not all(isinstance(state, str) for state in called):
            raise ModelError(f"names of states of {name!r}: give a sequence of texts, not {called!r}")
        if len(called) != sizes[name] or len(set(called)) < len(called):
            raise ModelError(f"{name!r} has {sizes[name]} states: give as many names, each another, not {[*called]}")
    return {name: tuple(called) for name, called in states.items()}


def read_sizes(sizes: Mapping[Any, int] | Sequence[int]) -> dict[Any, int]:
    """Return {variable: size}."""
    named = dict(sizes) if isinstance(sizes, Mapping) else dict(enumerate(sizes))
    for name, size in named.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ModelError(f"variable {name!r} has {size!r} states: give an integer from 1 on")
    return {name: int(size) for name, size in named.items()}


# ---------------------------------------------------------------------- factors
def read_factors(
    factors: Sequence[tuple[Sequence[Hashable], Any]], index: Mapping[Hashable, int], sizes: Sequence[int], log: bool
) -> list[Factor]:
    """Return the factors of a model as they are kept: arrays are copied, one that several factors have once.

    Args:
        factors: (scope, table) each.
        index: the number of each variable.
        sizes: the size of each variable.
        log: the tables hold logs.

    Raises:
        ModelError: what is no pair, has an unknown variable, a table of another shape, or values that none may have.
    """
    found = []
    copies: dict[int, tuple[Table, Table]] = {}
    for number, pair in enumerate(factors):
        try:
            scope, table = pair
        except (TypeError, ValueError):
            raise ModelError(f"factor {number} is {type(pair).__name__}: give (scope, table)") from None
        factor = _read_factor(number, scope, table, index, sizes, -np.inf if log else 0)
        check_values(f"factor {number}: its table", factor.table, log)
        if not isinstance(factor.table, AbstractTensor):  # what changes behind the graph would change some queries
            _, own = copies.setdefault(id(factor.table), (factor.table, factor.table.copy()))
            factor = factor._replace(table=own)
        found.append(factor)
    return found


def _read_factor(
    number: int, scope: Sequence[Hashable], table: Any, index: Mapping[Hashable, int], sizes: Sequence[int], zero: Any
) -> Factor:
    """Return a factor over a sorted scope: an unsorted one is transposed, of one with repeats a diagonal is taken."""
    if isinstance(scope, str) or not isinstance(scope, Sequence):
        raise ModelError(f"factor {number}: its scope is {scope!r}: give a tuple of variables, such as ({scope!r},)")
    unknown = [v for v in scope if v not in index]
    if unknown:
        raise ModelError(f"factor {number}: the graph has no variable {unknown[0]!r}: `sizes` names them all")
    places = [index[v] for v in scope]
    shape = tuple([sizes[v] for v in places])
    array = _dense(number, table, shape, zero)
    if tuple(array.shape) != shape:
        raise ModelError(
            f"factor {number} over {tuple(scope)!r}: its table has shape {tuple(array.shape)}, the variables have "
            f"sizes {shape}: the table has an axis for each variable, in the order of the scope")
    for v in sorted(set(places)):
        while places.count(v) > 1:
            first = places.index(v)
            second = places.index(v, first + 1)
            array = array.diagonal(0, first, second)
            places = [u for i, u in enumerate(places) if i not in (first, second)] + [v]
    order = sorted(range(len(places)), key=places.__getitem__)
    if order != list(range(len(places))):
        array = array.transpose(order)
    return Factor(tuple(sorted(places)), array)


def _dense(number: int, table: Any, shape: tuple[int, ...], zero: Any) -> Table:
    """Return the table as an array; `zero` is what is not in one of {states: value}."""
    if isinstance(table, AbstractTensor):
        return table
    if hasattr(table, "toarray"):
        table = table.toarray()
    elif callable(table):
        table = _of_function(table, shape)
        if isinstance(table, AbstractTensor):
            return table
    elif isinstance(table, Mapping):
        values = [np.asarray(value) for value in table.values()]
        full = np.full(shape, zero, np.result_type(*values, np.asarray(zero)) if values else float)
        for states, value in table.items():
            try:
                full[states] = value
            except (IndexError, TypeError, ValueError) as wrong:
                raise ModelError(f"factor {number}: {states!r} are no states of a table of shape {shape}") from wrong
        table = full
    try:
        array = np.asarray(table)
    except ValueError as wrong:
        raise ModelError(f"factor {number}: its table is no array: {wrong}") from wrong
    if array.dtype.kind not in "biufO":
        raise ModelError(f"factor {number}: its table has dtype {array.dtype}: give real numbers")
    return array


def _of_function(function: Callable[..., Any], shape: tuple[int, ...]) -> Any:
    """Return a function's values at all states: it gets an array of states for each variable, which broadcast."""
    states = [np.arange(n).reshape([n if i == axis else 1 for i in range(len(shape))]) for axis, n in enumerate(shape)]
    values = function(*states)
    return values if isinstance(values, AbstractTensor) else np.broadcast_to(np.asarray(values), shape)


# ---------------------------------------------------------------------- numbers
def check_values(name: str, table: Table, log: bool) -> None:
    """Raise ModelError for a table with NaN, or with a negative or infinite probability; `name` says whose it is."""
    if isinstance(table, AbstractTensor):
        return
    if table.dtype.kind == "f" and table.size and table.max() < np.inf and (log or table.min() >= 0):
        return  # of NaN neither is true
    if table.dtype == object and not all(isinstance(value, int) and value >= 0 for value in table.ravel().tolist()):
        raise ModelError(f"{name} holds Python objects: these may be integers from 0 on, for counting")
    if table.dtype.kind == "f" and np.isnan(table).any():
        raise ModelError(f"{name} has NaN at {_first(np.isnan(table))}")
    if log:
        if table.dtype.kind == "f" and (table == np.inf).any():
            raise ModelError(f"{name} has log value inf at {_first(table == np.inf)}")
        return
    if (table < 0).any():
        raise ModelError(
            f"{name} has a negative value at {_first(table < 0)}. A graph of log values has `log=True`")
    if table.dtype.kind == "f" and np.isinf(table).any():
        raise ModelError(f"{name} has inf at {_first(np.isinf(table))}")


def _first(where: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))
