"""A model under evidence: how each query is answered.

Owns the choice of arithmetic: normalized probabilities where nothing can underflow, logs elsewhere. Does not own
programs (`plans.py`) nor the walks from the root that decide states (`decoding.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.errors import ModelError
from jitfuse.factors import decoding
from jitfuse.factors.counting import count
from jitfuse.factors.evidence import Evidence, observed
from jitfuse.factors.plans import SAFE, Plan, Question, plan_for
from jitfuse.factors.semirings import LOG, MAX, MAX_SUM, PROBABILITY, SATISFIABILITY, Array, Semiring
from jitfuse.factors.structure import Structure
from jitfuse.factors.tables import Factor, Tables

_LN2: Final = math.log(2)


class Given:
    """The variables that are not observed, and the factors over them.

    Args:
        sizes: of all variables; observed ones have one state here.
        factors: those of the model.
        evidence: states of observed variables, weights of others.
        log: the tables hold logs.
        limit_bytes: what the messages of a query may take.
    """

    def __init__(
        self, sizes: Sequence[int], factors: Sequence[Factor], evidence: Evidence, log: bool, limit_bytes: int
    ) -> None:
        self.evidence, self.limit_bytes, self.full = evidence, limit_bytes, tuple(sizes)
        self.sizes = tuple([1 if v in evidence.states else size for v, size in enumerate(sizes)])
        weights = [Factor((v,), _log(w) if log else w) for v, w in evidence.weights.items()]
        self.tables = Tables(self.sizes, [*observed(factors, evidence.states), *weights], log)

    def plan(self, keep: tuple[int, ...] = ()) -> Plan:
        """Return what is compiled for it; `keep`: variables that stay in the result."""
        structure = Structure(self.sizes, tuple([f.scope for f in self.tables.factors]))
        return plan_for(Question(structure, tuple(self.tables.places), keep, self.limit_bytes))

    @cached_property
    def dtype(self) -> Any:
        """float32 if all tables are, else float64."""
        kinds = {f.table.dtype for f in self.tables.factors}
        return np.float32 if kinds and all(str(k) == "float32" for k in kinds) else np.float64

    def _uses_logs(self, plan: Plan, passes: int) -> bool:
        """Whether a query of one pass or two has to compute with logs."""
        if self.tables.traced:
            return True
        limit = SAFE / passes / (1 if self.dtype == np.float64 else 8)
        return not plan.is_safe(self.tables.spreads, limit)

    def _call(self, plan: Plan, key: str, run: Callable[[Sequence[Array]], Any], stacks: Sequence[Array]) -> Any:
        """Return what a function of the stacks returns: fused, or as steps of the trace that is on."""
        if self.tables.traced:
            return run(stacks)
        return plan.compiled((key, self.dtype), lambda: run)(stacks)

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
        plan, dtype = self.plan(keep), self.dtype
        if self._uses_logs(plan, 1):
            stacks = self.tables.logs(dtype)
            found = self._call(plan, logs.name, lambda s: plan.partition(logs, s, dtype), stacks)
            return found if self.tables.traced or self.tables.batch or keep else float(found)
        value, scales, log_scale = self._scaled(plan, linear)
        with np.errstate(divide="ignore"):
            total = np.log(value) + (np.log(scales).sum(axis=-1) + log_scale).reshape(
                np.shape(log_scale) + (1,) * len(keep))
        return total if self.tables.batch or keep else float(total)

    def _result(self, linear: Semiring, logs: Semiring) -> Any:
        """Return a result of a linear semiring: infinite where it leaves the range of float64."""
        plan = self.plan()
        if self.tables.batch or self._uses_logs(plan, 1):
            return np.exp(self._log_result(linear, logs))
        stacks = self.tables.stacks(np.float64)
        value, scales, log_scale = self._scaled(plan, linear)
        del stacks
        mantissa, exponent = 1.0, 0
        for number in [float(value), *np.ravel(scales).tolist()]:
            part, more = math.frexp(number)
            mantissa, again = math.frexp(mantissa * part)
            exponent += more + again
        return _scaled_by(mantissa, exponent, float(log_scale))

    def _scaled(self, plan: Plan, semiring: Semiring) -> tuple[Array, Array, Array]:
        stacks, log_scale = self.tables.scaled(self.dtype)
        value, scales = self._call(
            plan, "scaled " + semiring.name, lambda s: plan.scaled_partition(semiring, s, self.dtype), stacks)
        return np.asarray(value, np.float64), np.asarray(scales, np.float64), log_scale

    def satisfiable(self) -> Any:
        """Return whether any product is not zero."""
        plan = self.plan()
        stacks = tuple([stack > (-np.inf if self.tables.log else 0) for stack in self.tables.stacks(np.float64)])
        found = self._call(plan, SATISFIABILITY.name, lambda s: plan.partition(SATISFIABILITY, s, bool), stacks)
        return found if self.tables.batch or self.tables.traced else bool(found)

    def count(self) -> int:
        """Return the sum of the products of integers, exactly."""
        if self.tables.log or self.tables.batch or self.tables.traced:
            raise ModelError("counting needs tables of integers: no logs, no batch, no traced values")
        return count(self.plan(), self.tables)

    def custom(self, semiring: Semiring) -> Any:
        """Return the result of a semiring that a person wrote, over the tables as they are."""
        plan = self.plan()
        run = lambda stacks: plan.partition(semiring, stacks, self.dtype)  # noqa: E731
        stacks = self.tables.stacks(self.dtype)
        return run(stacks) if self.tables.traced else plan.compiled((id(semiring), semiring, self.dtype), lambda: run)(stacks)

    # ------------------------------------------------------------------ marginals
    def marginals(self) -> list[Any]:
        """Return the marginals of all variables."""
        plan, dtype = self.plan(), self.dtype
        semiring = LOG if self._uses_logs(plan, 2) else PROBABILITY
        stacks = self.tables.logs(dtype) if semiring is LOG else self.tables.scaled(dtype)[0]
        found = self._call(
            plan, "marginals " + semiring.name, lambda s: plan.marginals(semiring, s, dtype), stacks)
        return [
            _one_state(self.evidence.states[v], self.full[v]) if v in self.evidence.states
            else self._normalized(table, semiring, 1)
            for v, table in enumerate(found)
        ]

    def marginal(self, wanted: tuple[int, ...]) -> Any:
        """Return the joint marginal of variables, in this order."""
        free = [v for v in wanted if v not in self.evidence.states]
        logs = self._log_result(PROBABILITY, LOG, tuple(free)) if free else np.zeros(())
        plan = self.plan(tuple(free)) if free else None
        axes = sorted(free, key=plan.tree.rank.__getitem__) if plan else []
        if not free:
            self._require_possible()
        table = self._normalized(logs, LOG, len(free))
        lead = table.ndim - len(free)
        table = table.transpose(*range(lead), *[lead + axes.index(v) for v in free])
        for place, v in enumerate(wanted):
            if v in self.evidence.states:
                states = _one_state(self.evidence.states[v], self.full[v])
                table = np.expand_dims(table, lead + place) * states.reshape((-1,) + (1,) * (len(wanted) - place - 1)) \
                    if place < len(wanted) else table
        return table

    def _require_possible(self) -> None:
        if self.log_partition() == -np.inf:
            raise ModelError(IMPOSSIBLE)

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
    def map(self) -> tuple[list[int], float]:
        """Return a most probable state and the log of its product."""
        self._require_values("map")
        plan, logs = self.plan(), self.tables.logs(np.float64)
        messages = plan.compiled("messages max", lambda: lambda s: plan.messages(MAX_SUM, s, np.float64))(logs)
        states = decoding.most_probable(plan, logs, messages)
        value = math.fsum(plan.loader(logs)(f)[tuple([states[v] for v in sorted(scope, key=plan.tree.rank.__getitem__)])]
                          for f, scope in enumerate(plan.question.structure.scopes))
        if value == -math.inf:
            raise ModelError(IMPOSSIBLE)
        return self._with_evidence(states), value

    def sample(self, n: int, key: Any) -> list[np.ndarray]:
        """Return samples of all variables."""
        self._require_values("sample")
        plan, logs = self.plan(), self.tables.logs(np.float64)
        messages = plan.compiled("messages log", lambda: lambda s: plan.messages(LOG, s, np.float64))(logs)
        found = decoding.samples(plan, logs, messages, n, key)
        if found is None:
            raise ModelError(IMPOSSIBLE)
        return [np.full(n, self.evidence.states[v]) if v in self.evidence.states else states
                for v, states in enumerate(found)]

    def _require_values(self, query: str) -> None:
        if self.tables.traced:
            raise ModelError(f"{query} needs the values of tables: call it outside of fused functions")
        if self.tables.batch:
            raise ModelError(f"{query} takes one evidence at a time, not a batch")

    def _with_evidence(self, states: Sequence[int]) -> list[int]:
        return [self.evidence.states.get(v, int(state)) for v, state in enumerate(states)]


IMPOSSIBLE: Final = "no state of the model has a positive probability under this evidence"


def _log(weights: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _one_state(state: int, size: int) -> np.ndarray:
    return np.eye(size)[state]


def _scaled_by(mantissa: float, exponent: int, log_scale: float) -> float:
    """Return mantissa * 2**exponent * exp(log_scale)."""
    whole = math.floor(log_scale / _LN2) if math.isfinite(log_scale) else 0
    try:
        return math.ldexp(mantissa * math.exp(log_scale - whole * _LN2), exponent + whole)
    except OverflowError:
        return math.inf
