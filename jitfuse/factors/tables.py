"""The values of factors as few arrays for a call, and what is known of their ranges.

Does not own what people give (`inputs.py`), nor structures and queries.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.tracing.abstract import AbstractTensor

Table = Any
"""An array of NumPy, or a traced one."""


class Factor(NamedTuple):
    """A scope in increasing order, and a table with an axis for each of its variables."""

    scope: tuple[int, ...]
    table: Table


class Place(NamedTuple):
    """Where a factor's table lies: which stack, and which row of it."""

    stack: int
    row: int


class Stack:
    """Tables of one shape as rows of one array, behind the batch axis that any of them has; made once in each form.

    `log` says that the values are logs.
    """

    def __init__(self, shape: tuple[int, ...], rows: Sequence[Table], log: bool) -> None:
        self.shape, self.rows, self.log = shape, tuple(rows), log
        self._made: dict[Any, Any] = {}

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @cached_property
    def traced(self) -> bool:
        """Whether any table is a value of a trace."""
        return any(isinstance(row, AbstractTensor) for row in self.rows)

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The batch axes in front of some tables: none, or one."""
        return max([row.shape[: row.ndim - len(self.shape)] for row in self.rows], key=len)

    def values(self, dtype: Any) -> Table:
        """Return the tables as they were given."""
        return _stacked(self.rows, len(self.shape), dtype)

    def logs(self, dtype: Any) -> Table:
        """Return the logs of all values."""
        return self._once(("logs", dtype), lambda: self.values(dtype) if self.log else logs_of(self.values(dtype)))

    def scaled(self, dtype: Any) -> tuple[Table, np.ndarray]:
        """Return probabilities with each table divided by its largest value, and the logs of these [batch, rows]."""
        made: tuple[Table, np.ndarray] = self._once(("scaled", dtype), lambda: self._scaled(dtype))
        return made

    def _scaled(self, dtype: Any) -> tuple[Table, np.ndarray]:
        values = self.logs(np.float64) if self.log else self.values(np.float64)
        top = values.max(axis=tuple(range(values.ndim - len(self.shape), values.ndim)), keepdims=True)
        if self.log:
            top = np.where(np.isfinite(top), top, 0.0)
            scaled, logs = np.exp(values - top), top
        else:
            top = np.where(top > 0, top, 1.0)
            scaled, logs = values / top, np.log(top)
        return scaled.astype(dtype, copy=False), logs.reshape(logs.shape[: logs.ndim - len(self.shape)])

    @cached_property
    def spreads(self) -> np.ndarray:
        """For each row the log of its largest value over its smallest one that is not 0, of any batch."""
        logs = np.moveaxis(self.logs(np.float64), -1 - len(self.shape), 0).reshape(len(self.rows), -1)
        least = np.where(logs > -np.inf, logs, np.inf).min(axis=1)
        possible = least < np.inf
        with np.errstate(over="ignore"):
            spreads: np.ndarray = np.where(possible, logs.max(axis=1), 0.0) - np.where(possible, least, 0.0)
        return spreads


class Tables:
    """The tables of a graph, those of one shape in one array: a call then has few arguments.

    An array that several factors have is one row. `places` are where the tables lie; they follow from the structure and
    from which tables are the same.
    """

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor], log: bool, base: Tables | None = None) -> None:
        """Stack the tables of factors, behind those of `base` if given, whose stacks are used as they are."""
        self.log = log
        self.factors: tuple[Factor, ...] = (*(base.factors if base else ()), *factors)
        self.places: list[Place] = list(base.places) if base else []
        self._stacks: list[Stack] = list(base._stacks) if base else []
        rows: dict[tuple[int, ...], dict[int, Table]] = {}
        for factor in factors:
            shape = tuple([sizes[v] for v in factor.scope])
            rows.setdefault(shape, {}).setdefault(id(factor.table), factor.table)
        found: dict[tuple[tuple[int, ...], int], Place] = {}
        for shape, own in rows.items():
            found |= {(shape, key): Place(len(self._stacks), row) for row, key in enumerate(own)}
            self._stacks.append(Stack(shape, list(own.values()), log))
        self.places += [found[tuple([sizes[v] for v in f.scope]), id(f.table)] for f in factors]

    def replaced(self, tables: Mapping[int, Table]) -> Tables:
        """Return the same with other tables of some factors, by their numbers: those are alone in their rows."""
        made = Tables((), (), self.log)
        made.places, factors, made._stacks = self.places, list(self.factors), list(self._stacks)
        rows: dict[int, list[Table]] = {}
        for number, table in tables.items():
            stack, row = self.places[number]
            rows.setdefault(stack, list(self._stacks[stack].rows))[row] = table
            factors[number] = factors[number]._replace(table=table)
        for stack, own in rows.items():
            made._stacks[stack] = Stack(self._stacks[stack].shape, own, self.log)
        made.factors = tuple(factors)
        made.__dict__["_uses"] = self._uses
        return made

    @cached_property
    def traced(self) -> bool:
        """Whether any table is a value of a trace."""
        return any(stack.traced for stack in self._stacks)

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The batch axes in front of some tables: none, or one."""
        return max([stack.batch for stack in self._stacks], key=len, default=())

    def stacks(self, dtype: Any) -> tuple[Table, ...]:
        """Return an array for each shape: the tables of this shape, one after the other, as they were given."""
        return tuple([stack.values(dtype) for stack in self._stacks])

    def logs(self, dtype: Any) -> tuple[Table, ...]:
        """Return the same with the logs of all values."""
        return tuple([stack.logs(dtype) for stack in self._stacks])

    def scaled(self, dtype: Any) -> tuple[tuple[Table, ...], np.ndarray]:
        """Return the stacks of probabilities with each table divided by its largest value, and the logs of these."""
        found = [stack.scaled(dtype) for stack in self._stacks]
        logs = [(largest * uses).sum(axis=-1) for (_, largest), uses in zip(found, self._uses)]
        return tuple([scaled for scaled, _ in found]), sum(logs, np.zeros(()))

    @cached_property
    def _uses(self) -> list[np.ndarray]:
        """For each stack how many factors each row is the table of."""
        found = [np.zeros(len(stack.rows)) for stack in self._stacks]
        for place in self.places:
            found[place.stack][place.row] += 1
        return found

    def log_of(self, factor: Factor) -> Table:
        """Return the logs of a factor's table, in float64."""
        table = factor.table.astype(np.float64)
        return table if self.log else logs_of(table)

    def relative_logs(self) -> tuple[tuple[np.ndarray, ...], float]:
        """Return the logs less the largest of each table, of tables of values, and the sum of the sizes of these."""
        relative, sizes = [], 0.0
        for stack, uses in zip(self.logs(np.float64), self._uses):
            top = stack.max(axis=tuple(range(1, stack.ndim)), keepdims=True)
            top = np.where(np.isfinite(top), top, 0.0)
            relative.append(stack - top)
            sizes += float((np.abs(top.ravel()) * uses).sum())
        return tuple(relative), sizes

    @cached_property
    def spreads(self) -> list[float]:
        """For each factor the log of its largest value over its smallest one that is not 0."""
        found = [stack.spreads.tolist() for stack in self._stacks]
        return [found[place.stack][place.row] for place in self.places]


def _stacked(rows: Sequence[Table], axes: int, dtype: Any) -> Table:
    """Return tables of so many axes as rows of one array, behind the batch axes that any of them has."""
    arrays: list[Any] = [t if isinstance(t, AbstractTensor) else np.asarray(t) for t in rows]
    tables = [array.astype(dtype, copy=False) for array in arrays]
    leads = [table.shape[: table.ndim - axes] for table in tables]
    if any(leads):
        lead = max(leads, key=len)
        tables = [np.broadcast_to(t, lead + t.shape[len(own):]) for t, own in zip(tables, leads)]
        return np.stack(tables, axis=len(lead))
    if any(isinstance(table, AbstractTensor) for table in tables):
        return np.stack(tables)
    return np.array(tables)


def logs_of(values: Table) -> Table:
    """Return the logs of numbers, -inf of 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)
