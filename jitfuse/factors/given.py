"""A model under evidence: how each query is answered.

Owns the choice of arithmetic: normalized probabilities where nothing can underflow, logs elsewhere. Does not own
programs (`plans.py`) nor the walks from the root that decide states (`decoding.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.errors import ModelError, TooLargeError
from jitfuse.factors.counting import count
from jitfuse.factors.decoding import Best, lowest, most_probable, samples
from jitfuse.factors.evidence import Evidence, observed
from jitfuse.factors.inputs import Model
from jitfuse.factors.plans import Plan, Question, plan_for
from jitfuse.factors.semirings import LOG, MAX, MAX_SUM, PROBABILITY, Array, Semiring
from jitfuse.factors.structure import Structure
from jitfuse.factors.tables import Tables
from jitfuse.factors.work import ITEMSIZE

_LN2: Final = math.log(2)
_FAR: Final = 1e8
"""Exponents of two, far beyond those of floats."""


Runner = Callable[..., tuple[Any, float]]
"""What takes a plan and what `Plan.run` takes, and returns what that returns."""


class Given:
    """The variables that are not observed, and the factors over them.

    Args:
        model: sizes of all variables, and factors over them.
        evidence: states of observed variables, which have one state here, and weights of others.
        base: the tables of the model, if the evidence has no states but those of the model.
        runner: what runs programs, if not plans alone do: what keeps messages from one query to the next.
    """

    def __init__(
        self, model: Model, evidence: Evidence, base: Tables | None = None, runner: Runner | None = None
    ) -> None:
        weights = evidence.factors(model.log)
        self.model = model._replace(factors=[*model.factors, *weights])
        self.evidence, self.run_native = evidence, runner or Plan.run
        self.sizes = tuple([1 if v in evidence.states else size for v, size in enumerate(model.sizes)])
        self._allowed: dict[tuple[Plan, bool, Any], tuple[list[float], float]] = {}
        """For each plan and dtype the spreads of all tables, and the spread of messages that these allow."""
        self._underflows: set[tuple[Plan, str]] = set()
        self._plans: dict[tuple[tuple[int, ...], bool], Plan] = {}
        self.tables = base or Tables(self.sizes, observed(model.factors, evidence.states), model.log)
        if weights:
            self.tables = Tables(self.sizes, weights, model.log, self.tables)
        self._weights = dict(zip(evidence.weights, range(len(self.tables.factors) - len(weights), 1 << 62)))
        """The numbers of the factors that are weights."""

    def plan(self, keep: tuple[int, ...] = (), *, all_messages: bool = False) -> Plan:
        """Return what is compiled for it.

        Args:
            keep: variables that stay in the result.
            all_messages: they are kept, for a pass back from the root.
        """
        key = keep, all_messages
        if key not in self._plans:
            structure = Structure(self.sizes, tuple([f.scope for f in self.tables.factors]))
            question = Question(structure, tuple(self.tables.places), keep, self.model.limit_bytes,
                                libraries=self.model.libraries)
            plan = plan_for(question)
            if all_messages and plan.ordered.cost.bytes(keep=True) > self.model.limit_bytes:
                plan = plan_for(question._replace(all_messages=True))
            self._plans[key] = plan
        return self._plans[key]

    def modes(self, *, all_messages: bool = False) -> tuple[int, ...]:
        """Return the variables to condition on: none where the messages of the whole do not take too much memory."""
        return self.plan(all_messages=all_messages).schemes[0].modes

    def observing(self, states: Mapping[int, int]) -> Given:
        """Return the model with states of more variables as its evidence."""
        return Given(self.model, Evidence({**self.evidence.states, **states}, {}))

    def with_tables(self, tables: Tables, sizes: tuple[int, ...], runner: Runner | None = None) -> Given:
        """Return a model with other tables, over variables of these sizes, whose programs `runner` runs."""
        made = copy(self)
        made.tables, made.sizes, made.run_native = tables, sizes, runner or Plan.run
        made._allowed, made._underflows, made._plans = {}, set(), {}
        return made

    def opened(self, runner: Runner | None = None) -> Given:
        """Return the model with weights of all variables that are not observed: 1, until `weighing` gives others."""
        known = self.evidence.states
        ones = {v: np.ones(size, self.dtype) for v, size in enumerate(self.model.sizes) if v not in known}
        return Given(self.model, Evidence(known, ones), self.tables, runner)

    def weighing(self, weights: dict[int, Any]) -> Given:
        """Return the model with other weights of variables that have some."""
        made = copy(self)
        made.tables = self.tables.replaced({
            self._weights[v]: table for (v,), table in Evidence({}, weights).factors(self.model.log)})
        count = len(self._weights)
        made.model = self.model._replace(factors=[*self.model.factors[: len(self.model.factors) - count],
                                                  *made.tables.factors[len(made.tables.factors) - count :]])
        made._underflows = set()
        return made

    @cached_property
    def dtype(self) -> Any:
        """float32 if all tables are, else float64."""
        kinds = {f.table.dtype for f in self.tables.factors}
        return np.float32 if kinds and all(str(k) == "float32" for k in kinds) else np.float64

    def _run(self, plan: Plan, query: str, semiring: Semiring, stacks: Sequence[Array], dtype: Any = None) -> Any:
        """Return a plan's answer: by native code, or by steps of the trace that is on."""
        if self.tables.traced:
            return plan.ask(query, semiring, stacks, dtype or self.dtype)
        return self.run_native(plan, query, semiring, stacks, dtype or self.dtype)[0]

    def _scaled(self, plan: Plan, query: str, semiring: Semiring, *, downward: bool = False) -> Any:
        """Return a plan's answer over probabilities; None where products may leave the range and logs are needed."""
        if self.tables.traced or (plan, query) in self._underflows:
            return None
        key, spreads = (plan, downward, self.dtype), self.tables.spreads
        found = self._allowed.get(key)
        if found is None or found[0] != spreads:  # other threads may ask with other weights
            found = self._allowed[key] = spreads, plan.programs.allowed_spread(spreads, self.dtype, downward=downward)
        _, allowed = found
        if allowed > 0:
            answer, least = self.run_native(plan, query, semiring, self.tables.scaled(self.dtype)[0], self.dtype)
            if least > 0 and math.log(least) >= -allowed:
                return answer
        self._underflows.add((plan, query))
        return None

    # ------------------------------------------------------------------ the partition function
    def log_partition(self) -> Any:
        """Return log Z."""
        return self._log_result(PROBABILITY, LOG)

    def partition(self) -> Any:
        """Return Z."""
        return self._result(PROBABILITY, LOG)

    def largest(self) -> Any:
        """Return the largest product."""
        return self._result(MAX, MAX_SUM)

    def _log_result(self, linear: Semiring, logs: Semiring, keep: tuple[int, ...] = ()) -> Any:
        """Return the log of a result of a linear semiring, which another one computes with logs."""
        plan = self.plan(keep)
        scaled = self._scaled(plan, "scaled partition", linear)
        if scaled is None:
            found = self._run(plan, "partition", logs, self.tables.logs(self.dtype))
            return found if self.tables.traced or self.tables.batch or keep else float(found)
        value, scales = (np.asarray(x, np.float64) for x in scaled)
        log_scale = self.tables.scaled(self.dtype)[1]
        with np.errstate(divide="ignore"):
            total = np.log(value) + (np.log(scales).sum(axis=-1) + log_scale).reshape(
                np.shape(log_scale) + (1,) * len(keep))
        return total if self.tables.batch or keep else float(total)

    def _result(self, linear: Semiring, logs: Semiring) -> Any:
        """Return a result of a linear semiring: infinite where it leaves the range of float64."""
        scaled = self._scaled(self.plan(), "scaled partition", linear)
        if scaled is None:
            with np.errstate(over="ignore"):
                return np.exp(self._log_result(linear, logs))
        value, scales = (np.asarray(x, np.float64) for x in scaled)
        log_scale = self.tables.scaled(self.dtype)[1]
        whole = np.clip(np.floor(log_scale / _LN2), -_FAR, _FAR)
        exponents = np.frexp(scales)[1].sum(axis=-1) - scales.shape[-1] + whole  # scales are powers of two
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.ldexp(value * np.exp(log_scale - whole * _LN2), exponents.astype(np.int32))
        found = np.where(value > 0, found, 0.0)
        return found if self.tables.batch else float(found)

    def satisfiable(self) -> Any:
        """Return whether any product is not zero."""
        plan, zero = self.plan(), -np.inf if self.tables.log else 0
        stacks = tuple([np.where(stack > zero, 1.0, 0.0) for stack in self.tables.stacks(np.float64)])
        found = self._run(plan, "partition", MAX, stacks, np.float64) > 0
        return found if self.tables.batch or self.tables.traced else bool(found)

    def count(self) -> int:
        """Return the sum of the products of integers, exactly."""
        self.require_integers()
        return count(self.plan(), self.tables, Plan.run)

    def require_integers(self) -> None:
        """Raise ModelError where tables cannot be counted with."""
        if self.tables.log or self.tables.batch or self.tables.traced:
            raise ModelError("counting needs tables of integers: no logs, no batch, no traced values")

    def of_logs(self, semiring: Semiring) -> Any:
        """Return the result of a semiring of logs, in float64."""
        return self._run(self.plan(), "partition", semiring, self.tables.logs(np.float64), np.float64)

    def custom(self, semiring: Semiring) -> Any:
        """Return the result of a semiring that a person wrote, over the tables as they are."""
        return self.plan().ask("partition", semiring, self.tables.stacks(self.dtype), self.dtype)

    # ------------------------------------------------------------------ marginals
    def marginals(self) -> list[Any]:
        """Return the marginals of all variables."""
        plan = self.plan(all_messages=True)
        found = self._scaled(plan, "scaled marginals", PROBABILITY, downward=True)
        semiring = PROBABILITY if found is not None else LOG
        if found is None:
            found = self._run(plan, "marginals", LOG, self.tables.logs(self.dtype))
        tables, alike = list(found), dict[tuple[int, ...], list[int]]()
        for v, table in enumerate(found):
            if v in self.evidence.states:
                tables[v] = self._observed(v)
            else:
                alike.setdefault(table.shape, []).append(v)
        for places in alike.values():
            normalized = self._normalized(np.stack([found[v] for v in places]), semiring, 1)
            for row, v in enumerate(places):
                tables[v] = normalized[row]
        return tables

    def marginal(self, wanted: tuple[int, ...]) -> Any:
        """Return the joint marginal of variables, in this order."""
        free = [v for v in wanted if v not in self.evidence.states]
        self.require_small(wanted)
        logs = self._log_result(PROBABILITY, LOG, tuple(free))
        axes = sorted(free, key=self.plan(tuple(free)).tree.axes.__getitem__)
        table = self._normalized(logs if self.tables.traced else np.asarray(logs), LOG, len(free))
        lead = table.ndim - len(free)
        table = table.transpose(*range(lead), *[lead + axes.index(v) for v in free])
        for place, v in enumerate(wanted):
            if v in self.evidence.states:
                table = np.expand_dims(table, lead + place)  # those behind it that are observed are not there yet
                table = table * self._observed(v).reshape((-1,) + (1,) * (table.ndim - lead - place - 1))
        return table

    def _observed(self, v: int) -> np.ndarray:
        """Return the marginal of an observed variable."""
        chosen: np.ndarray = np.eye(self.model.sizes[v])[self.evidence.states[v]]
        return chosen

    def require_small(self, wanted: Sequence[int]) -> None:
        """Raise TooLargeError where the joint table of variables is larger than messages may be."""
        needed = ITEMSIZE * math.prod(self.model.sizes[v] for v in wanted)
        if needed > self.model.limit_bytes:
            raise TooLargeError(f"the joint table of {len(wanted)} variables takes {needed:,} bytes, the limit is "
                                f"{self.model.limit_bytes:,}", bytes=needed, limit=self.model.limit_bytes)

    def _normalized(self, table: Any, semiring: Semiring, axes: int) -> Any:
        """Return a table divided by its sum over the last axes."""
        over = tuple(range(table.ndim - axes, table.ndim))
        if semiring is LOG:
            top = table.max(axis=over, keepdims=True) if axes else table
            if not self.tables.traced and not np.isfinite(top).all():
                raise ModelError(IMPOSSIBLE)
            table = np.exp(table - top)
        total = table.sum(axis=over, keepdims=True) if axes else table
        if not self.tables.traced and not (total > 0).all():
            raise ModelError(IMPOSSIBLE)
        return table / total

    # ------------------------------------------------------------------ states
    def map(self) -> Best:
        """Return the lowest of the most probable states and the log of its product."""
        self.require_values("map")
        found, tied = most_probable(self.plan(all_messages=True), self.tables)
        if found.value == -math.inf:
            raise ModelError(IMPOSSIBLE)
        if tied:
            free = self.opened()
            found = lowest(free.plan(all_messages=True), free.tables, found)
        return found._replace(states=[self.evidence.states.get(v, int(state)) for v, state in enumerate(found.states)])

    def sample(self, n: int, draw: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Return n samples of all variables; `draw` returns n numbers from 0 to 1 for each of them."""
        self.require_values("sample")
        if self.log_partition() == -np.inf:
            raise ModelError(IMPOSSIBLE)
        plan, logs = self.plan(all_messages=True), self.tables.logs(np.float64)
        messages = self._run(plan, "messages", LOG, logs, np.float64)
        found = samples(plan, logs, messages, n, draw)
        return [np.full(n, self.evidence.states[v]) if v in self.evidence.states else states
                for v, states in enumerate(found)]

    def require_values(self, query: str) -> None:
        """Raise ModelError where a query cannot have an answer that needs the values of one model."""
        if self.tables.traced:
            raise ModelError(f"{query} needs the values of tables: call it outside of fused functions")
        if self.tables.batch:
            raise ModelError(f"{query} takes one evidence at a time, not a batch")


IMPOSSIBLE: Final = "no state of the model has a positive probability under this evidence"
