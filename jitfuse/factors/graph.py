"""`FactorGraph`: a model, and what people ask of it.

Owns the public methods. Does not own how they are computed (`given.py`).
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import numpy as np

from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.lazy import cached_property
from jitfuse.errors import ModelError, TooLargeError
from jitfuse.factors.conditioning import Slices
from jitfuse.factors.decoding import drawn_by
from jitfuse.factors.evidence import Evidence, read_evidence
from jitfuse.factors.given import Given
from jitfuse.factors.inputs import Model, read_factors, read_sizes, read_states
from jitfuse.factors.ir.schema import Program
from jitfuse.factors.plans import LIMIT_BYTES
from jitfuse.factors.report import Report
from jitfuse.factors.semirings import Semiring
from jitfuse.factors.updates import Updates
from jitfuse.tracing.abstract import AbstractTensor

SMALL: Final = 1 << 18
"""Products of numbers up to which a model keeps its observed variables, as any evidence then has one program."""
_SEMIRINGS: Final = {"probability": "partition", "log": "log_partition", "satisfiability": "satisfiable",
                     "counting": "count", "max": "largest"}
"""The semirings that `partition` knows by name, and what answers there."""


class FactorGraph:
    """A product of tables over discrete variables, and exact answers about it.

    Args:
        sizes: {variable: number of its states}, or a sequence of sizes for the variables 0, 1, ...
        factors: (scope, table) each. A scope is a tuple of variables, in any order, also empty or with a variable twice
            (the diagonal). A table is an array with an axis for each variable, {states: value} with zeros elsewhere, a
            sparse matrix, or a function of index arrays, one for each variable of the scope, which broadcast as those
            of `np.ogrid` do. Arrays are copied.
        log: the tables hold logs of probabilities; -inf is impossible.
        evidence: {variable: state}: what is known in every query. These variables leave the graph.
        limit_bytes: what the messages of one query may take in memory, for each evidence of a batch.
        states: {variable: names of its states}, for those that have names: evidence may then say them.
        libraries: "goatd", "opt_einsum", "cotengra": those whose orders of elimination compete with our own.

    Raises:
        ArgumentError: such a library is not known or not installed; the first query says so.
        ModelError: sizes, scopes and tables that do not fit together; NaN, negative or infinite values.

    Example:
        >>> g = jf.factors.FactorGraph({"a": 2, "b": 2}, [(("a",), [0.6, 0.4]), (("a", "b"), [[0.9, 0.1], [0.2, 0.8]])])
        >>> g.marginals({"b": 1})["a"].round(3)
        array([0.158, 0.842])
    """

    @PAUSED
    def __init__(
        self, sizes: Mapping[Any, int] | Sequence[int], factors: Sequence[tuple[Sequence[Hashable], Any]] = (), *,
        log: bool = False, evidence: Mapping[Any, int] | None = None, limit_bytes: int = LIMIT_BYTES,
        libraries: Sequence[str] = (), states: Mapping[Any, Sequence[str]] | None = None,
    ) -> None:
        self.sizes = read_sizes(sizes)
        self.states = read_states(states or {}, self.sizes)
        self._index = {name: number for number, name in enumerate(self.sizes)}
        shape = tuple(self.sizes.values())
        self._model = Model(shape, read_factors(factors, self._index, shape, bool(log)), bool(log), limit_bytes,
                            tuple(libraries))
        self._updates: Updates | None = None
        self._known = read_evidence(evidence, self._index, shape, self.states)
        if self._known.weights:
            raise ModelError("the evidence of a graph is {variable: state}: give weights to a query, or as a factor")

    @property
    def variables(self) -> tuple[Any, ...]:
        """All variables, in order."""
        return tuple(self.sizes)

    def __repr__(self) -> str:
        return f"FactorGraph({len(self.sizes)} variables, {len(self._model.factors)} factors)"

    # ------------------------------------------------------------------ the partition function
    def log_partition(self, evidence: Mapping[Any, Any] | None = None) -> Any:
        """Return log Z: of the sum, over all states that agree with the evidence, of the product of all tables.

        Args:
            evidence: {variable: state}, {variable: weights of its states}, or {variable: states [batch]}. A state is
                its number, or its name where it has one.

        Returns:
            A float; float64[batch] for a batch of evidence; a traced number in a fused function. -inf: impossible.

        Raises:
            ModelError: evidence that does not fit.
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> round(jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 4]])]).log_partition(), 6)
            2.302585
        """
        return self._answering(evidence).log_partition()

    def partition(
        self, semiring: str | Semiring = "probability", evidence: Mapping[Any, Any] | None = None
    ) -> Any:
        """Return the sum over all states of the product of all tables, in a semiring.

        Args:
            semiring: "probability"; "log" (the same as `log_partition`); "max" (the largest product); "satisfiability"
                (whether any product is not zero); "counting" (an exact Python int; the tables hold integers); or a
                `Semiring`, for which the tables are taken as they are.
            evidence: as in `log_partition`.

        Raises:
            ModelError: an unknown semiring, or values that it does not have.
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> g = jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 0], [3, 4]])])
            >>> g.partition("counting"), g.partition("max"), g.partition("satisfiability", {0: 0, 1: 1})
            (8, 4.0, False)
        """
        if isinstance(semiring, Semiring):
            return self._answering(evidence, as_weights=False).custom(semiring)
        if semiring not in _SEMIRINGS:
            raise ModelError(f"no semiring is called {semiring!r}: give one of {', '.join(_SEMIRINGS)}, or a Semiring")
        return getattr(self._answering(evidence), _SEMIRINGS[semiring])()

    # ------------------------------------------------------------------ marginals
    def marginals(self, evidence: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """Return the probabilities of the states of every variable, {variable: array of its size}.

        All come from one pass to the root of a tree of messages and one back.

        Raises:
            ModelError: evidence that does not fit, or is impossible.
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 4]])]).marginals()[0]
            array([0.3, 0.7])
        """
        return dict(zip(self.sizes, self._answering(evidence, all_messages=True).marginals()))

    def marginal(self, *variables: Hashable, evidence: Mapping[Any, Any] | None = None) -> Any:
        """Return the joint probabilities of some variables: an array with an axis for each, in the order given.

        Raises:
            ModelError: an unknown variable, one given twice, impossible evidence.
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 4]])]).marginal(1, 0)
            array([[0.1, 0.3],
                   [0.2, 0.4]])
        """
        if unknown := [v for v in variables if v not in self._index]:
            raise ModelError(f"the graph has no variable {unknown[0]!r}")
        if len(set(variables)) < len(variables):
            raise ModelError(f"a variable comes twice in {variables!r}")
        return self._answering(evidence).marginal(tuple([self._index[v] for v in variables]))

    def entropy(
        self, *variables: Hashable, given: Sequence[Hashable] = (), evidence: Mapping[Any, Any] | None = None
    ) -> Any:
        """Return the entropy of some variables in nats; with `given`, the conditional entropy H(variables | given).

        Returns:
            A float; float64[batch] for a batch of evidence; a traced number in a fused function.

        Raises:
            ModelError: an unknown variable, one given twice, impossible evidence.
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> round(jf.factors.FactorGraph([2], [((0,), [1, 1])]).entropy(0), 6)
            0.693147
        """
        behind = tuple(given)
        whole = tuple(dict.fromkeys((*variables, *behind)))
        found = self._entropy(whole, evidence) - (self._entropy(behind, evidence) if behind else 0.0)
        return found if isinstance(found, AbstractTensor) or found.ndim else float(found)

    def _entropy(self, variables: tuple[Hashable, ...], evidence: Mapping[Any, Any] | None) -> Any:
        table = self.marginal(*variables, evidence=evidence)
        logs = np.log(np.where(table > 0, table, 1.0))
        return -(table * logs).sum(axis=tuple(range(-len(variables), 0)))

    # ------------------------------------------------------------------ states
    def map(self, evidence: Mapping[Any, Any] | None = None) -> tuple[dict[Any, int], float]:
        """Return a most probable state of all variables, and the log of its product of tables.

        Of several it is the lowest: the first variable has the lowest state that it has in any of them, then the
        second, and so on. Products count as equal that differ by what rounding may do.

        Raises:
            ModelError: evidence that does not fit, or is impossible.

        Example:
            >>> jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 1]])]).map()[0]
            {0: 1, 1: 0}
        """
        states, value, _ = self._answering(evidence, all_messages=True).map()
        return dict(zip(self.sizes, states)), value

    def sample(self, n: int, key: Any, evidence: Mapping[Any, Any] | None = None) -> dict[Any, np.ndarray]:
        """Return n independent, exact samples of all variables, {variable: int64[n]}.

        Args:
            n: number of samples.
            key: a key of `jf.random.key`: the same key, the same samples.
            evidence: as in `log_partition`.

        Example:
            >>> jf.factors.FactorGraph([2], [((0,), [0, 1])]).sample(3, jf.random.key(0))
            {0: array([1, 1, 1])}
        """
        if n < 0:
            raise ModelError(f"{n} samples: give a number from 0 on")
        return dict(zip(self.sizes, self._answering(evidence, all_messages=True).sample(n, drawn_by(key, n))))

    def updating(self) -> FactorGraph:
        """Return the graph as one for many queries that differ little: it keeps all messages of the last query.

        With other evidence, only those are computed again that the evidence reaches on the way to the root, and for
        marginals those on the way back. It takes the memory of all messages, and is for one thread at a time.

        Example:
            >>> g = jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 4]])]).updating()
            >>> [float(g.log_partition({0: state}).round(4)) for state in (0, 1)]
            [1.0986, 1.9459]
        """
        made = copy(self)
        made._updates = Updates()
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies begin with: the model, not what queries made of it."""
        state = {name: value for name, value in vars(self).items() if name not in ("_plain", "_open", "_is_small")}
        return {**state, "_updates": None if self._updates is None else Updates()}

    # ------------------------------------------------------------------ what is behind it
    def plan(self, evidence: Mapping[Any, Any] | None = None) -> Report:
        """Return what a query costs before anything is allocated: order, width, bytes, operations, and what lost.

        `plan().explain()` adds the program of the partition function before and after each pass over it.

        Raises:
            TooLargeError: the tables needed are larger than `limit_bytes`.

        Example:
            >>> jf.factors.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 1]])]).plan().width
            2
        """
        return Report.of(self._given(evidence).plan(), tuple(self.sizes))

    def program(self) -> Program:
        """Return the register program of the partition function, as it runs: see `jitfuse.factors.ir`."""
        return self._plain.plan().partition_passes.program

    def _answering(
        self, evidence: Mapping[Any, Any] | None, *, as_weights: bool = True, all_messages: bool = False
    ) -> Given | Slices:
        """Return the model under evidence, or its slices where it is too large."""
        given = self._given(evidence, as_weights=as_weights)
        modes = given.modes(all_messages=all_messages)
        return Slices(given, modes) if modes else given

    def _given(self, evidence: Mapping[Any, Any] | None, *, as_weights: bool = True) -> Given:
        """Return the model under evidence. Small models take it as weights of all variables: one program serves all."""
        found, known = read_evidence(evidence, self._index, self._model.sizes, self.states), self._known.states
        if not found.states and not found.weights and self._updates is None:
            return self._plain
        if twice := [v for v in known if v in found.states or v in found.weights]:
            raise ModelError(f"evidence for {self.variables[twice[0]]!r}, which the graph itself has evidence for")
        if as_weights and (self._updates is not None or self._is_small):
            sizes, dtype = self._model.sizes, self._plain.dtype
            states = {v: np.eye(sizes[v], dtype=dtype)[state] for v, state in found.states.items()}
            return self._open.weighing({**states, **found.weights})
        base = None if found.states else self._plain.tables
        return Given(self._model, Evidence({**known, **found.states}, found.weights), base)

    @cached_property
    def _open(self) -> Given:
        """The model with weights of all variables that it has no evidence for."""
        return self._plain.opened(None if self._updates is None else self._updates.run)

    @cached_property
    def _plain(self) -> Given:
        return Given(self._model, self._known)

    @cached_property
    def _is_small(self) -> bool:
        try:
            return self._plain.plan().ordered.cost.operations <= SMALL
        except TooLargeError:
            return False
