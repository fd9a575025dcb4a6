"""The values of factors: from what people give into tables over sorted scopes, and into few arrays for a call.

Owns forms of input (dense, sparse, functions; repeated and unsorted scopes) and what is known of their ranges. Does not
own structures nor queries.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.errors import ModelError
from jitfuse.tracing.abstract import AbstractTensor

Table = Any
"""An array of NumPy, or a traced one."""


class Factor(NamedTuple):
    """A scope in increasing order, and a table with an axis for each of its variables."""

    scope: tuple[int, ...]
    table: Table


def read_factor(
    number: int, scope: Sequence[Hashable], table: Any, index: Mapping[Hashable, int], sizes: Sequence[int], zero: Any
) -> Factor:
    """Return a factor as it is kept.

    Args:
        number: its place, for messages.
        scope: variables, in the order of the table's axes; one that comes twice is a diagonal.
        table: an array, {states: value} where all others are `zero`, a sparse matrix, or a function of index arrays.
        index: the number of each variable.
        sizes: the size of each variable.
        zero: the value that sparse tables leave out.

    Raises:
        ModelError: a variable that the graph does not have, a table of another shape or of numbers that are none.
    """
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
    """Return the table as an array."""
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


class Place(NamedTuple):
    """Where a factor's table lies: which stack, and which row of it."""

    stack: int
    row: int


class Tables:
    """The tables of a graph, those of one shape in one array: a call then has few arguments.

    `shapes` are the shapes of the stacks' rows and `places` where each table lies: both follow from the structure.
    `log` says that the values are logs.
    """

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor], log: bool) -> None:
        self.factors, self.log = tuple(factors), log
        self.shapes: list[tuple[int, ...]] = []
        self.places: list[Place] = []
        rows: dict[tuple[int, ...], list[int]] = {}
        for number, factor in enumerate(self.factors):
            shape = tuple([sizes[v] for v in factor.scope])
            if shape not in rows:
                self.shapes.append(shape)
            self.places.append(Place(self.shapes.index(shape), len(rows.setdefault(shape, []))))
            rows[shape].append(number)
        self._rows = [rows[shape] for shape in self.shapes]
        self._made: dict[Any, Any] = {}

    @cached_property
    def traced(self) -> bool:
        """Whether any table is a value of a trace."""
        return any(isinstance(f.table, AbstractTensor) for f in self.factors)

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The batch axes in front of some tables: none, or one."""
        return max((f.table.shape[: f.table.ndim - len(f.scope)] for f in self.factors), key=len, default=())

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def stacks(self, dtype: Any) -> tuple[Table, ...]:
        """Return an array for each shape: the tables of this shape, one after the other, as they were given."""
        return tuple([_stacked([self.factors[n] for n in numbers], dtype) for numbers in self._rows])

    def logs(self, dtype: Any) -> tuple[Table, ...]:
        """Return the same with the logs of all values."""
        made: tuple[Table, ...] = self._once(("logs", dtype), lambda: self._logs(dtype))
        return made

    def _logs(self, dtype: Any) -> tuple[Table, ...]:
        if self.log:
            return self.stacks(dtype)
        with np.errstate(divide="ignore"):
            return tuple([np.log(stack) for stack in self.stacks(dtype)])

    def scaled(self, dtype: Any) -> tuple[tuple[Table, ...], np.ndarray]:
        """Return the stacks of probabilities with each table divided by its largest value, and the logs of these."""
        made: tuple[tuple[Table, ...], np.ndarray] = self._once(("scaled", dtype), lambda: self._scaled(dtype))
        return made

    def _scaled(self, dtype: Any) -> tuple[tuple[Table, ...], np.ndarray]:
        scaled, largest = [], []
        for shape, stack in zip(self.shapes, self.logs(np.float64) if self.log else self.stacks(np.float64)):
            top = stack.max(axis=tuple(range(stack.ndim - len(shape), stack.ndim)), keepdims=True)
            if self.log:
                top = np.where(np.isfinite(top), top, 0.0)
                scaled.append(np.exp(stack - top).astype(dtype))
            else:
                top = np.where(top > 0, top, 1.0)
                scaled.append((stack / top).astype(dtype))
                top = np.log(top)
            largest.append(top.reshape(top.shape[: top.ndim - len(shape)]).sum(axis=-1))
        return tuple(scaled), sum(largest, np.zeros(()))

    @cached_property
    def spreads(self) -> list[float]:
        """For each factor the log of its largest value over its smallest one that is not 0."""
        spreads = np.zeros(len(self.factors))
        for numbers, shape, stack in zip(self._rows, self.shapes, self.logs(np.float64)):
            flat = np.moveaxis(stack, -1 - len(shape), 0).reshape(len(numbers), -1)
            largest = flat.max(axis=1, initial=-np.inf)
            least = np.where(flat > -np.inf, flat, np.inf).min(axis=1, initial=np.inf)
            with np.errstate(over="ignore"):
                apart = largest - least
            spreads[numbers] = np.where(largest > -np.inf, apart, 0.0)
        found: list[float] = spreads.tolist()
        return found


def _stacked(factors: Sequence[Factor], dtype: Any) -> Table:
    """Return tables as rows of one array, behind the batch axes that any of them has."""
    tables: list[Any] = [
        f.table if isinstance(f.table, AbstractTensor) else np.asarray(f.table, dtype) for f in factors]
    leads = [table.shape[: table.ndim - len(f.scope)] for f, table in zip(factors, tables)]
    if any(leads):
        lead = max(leads, key=len)
        tables = [np.broadcast_to(t, lead + t.shape[len(own):]) for t, own in zip(tables, leads)]
        return np.stack(tables, axis=len(lead))
    return np.stack([table.astype(dtype, copy=False) for table in tables])


def check_values(name: str, table: Table, log: bool) -> None:
    """Raise ModelError for a table with NaN, or with a negative or infinite probability; `name` says whose it is."""
    if isinstance(table, AbstractTensor):
        return
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


def log2_of_integers(table: Table) -> float:
    """Return log2 of a table's largest integer; -inf of zeros alone.

    Raises:
        ModelError: a value is no integer.
    """
    values = [int(v) for v in table.ravel().tolist()] if table.dtype == object else None
    if values is None:
        if table.dtype.kind == "f" and (table != np.floor(table)).any():
            raise ModelError(f"counting needs integers, not {float(table[table != np.floor(table)][0])}")
        values = [int(table.max(initial=0))]
    return math.log2(max(values)) if values and max(values) > 0 else -math.inf
