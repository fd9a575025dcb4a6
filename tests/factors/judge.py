"""Judge the queries of one factor graph against enumeration: each finding begins with the query's name."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from factors import brute
from factors.brute import Model, Variable

import jitfuse as jf
from jitfuse import factors
from jitfuse.errors import ModelError

Verdict = str | None
"""What is wrong in a query's answer, or None."""
SAMPLES = 40


def graph_of(model: Model) -> factors.FactorGraph:
    given = [(scope, table) for scope, table in model.factors]
    return factors.FactorGraph(model.given_sizes(), given, log=True) if model.log else (
        factors.FactorGraph(model.given_sizes(), given))


def is_single(model: Model) -> bool:
    return any(getattr(table, "dtype", None) == np.float32 for _, table in model.factors)


def magnitude(model: Model) -> float:
    """Return a bound on how large the logarithm of a state's weight may be: what its rounding is measured by."""
    total = 0.0
    grid = brute.grid_of(model)
    for scope, table in model.factors:
        values = brute.values_of(table, [grid[variable] for variable in scope])
        found = values if model.log else brute.logs(values)
        total += float(np.max(np.abs(found), initial=0, where=np.isfinite(found)))
    return total


def tolerance(model: Model) -> float:
    """Return what the logarithm of a sum may be wrong by: sums of positive numbers are well conditioned."""
    eps = float(np.finfo(np.float32 if is_single(model) else np.float64).eps)
    return eps * (4000 + 20 * magnitude(model)) if eps < 1e-10 else eps * (200 + 20 * magnitude(model))


@dataclass
class Judge:
    """What is known of a model: its graph, its weights by enumeration, and how near answers must be."""

    model: Model
    graph: factors.FactorGraph
    weights: np.ndarray
    evidence: dict[Variable, Any]
    near: float

    @functools.cached_property
    def log_sum(self) -> float:
        return float(brute.log_sum(self.weights))

    @functools.cached_property
    def highest(self) -> float:
        return float(np.max(self.weights, initial=-np.inf))

    @property
    def kwargs(self) -> dict[str, Any]:
        return {"evidence": self.evidence} if self.evidence else {}

    def same_log(self, actual: Any, expected: float) -> Verdict:
        if not isinstance(actual, (float, np.floating)):
            return f"is a {type(actual).__name__}, not a float"
        right = actual == expected if np.isinf(expected) else abs(actual - expected) <= self.near
        return None if right else f"{actual!r}, not {expected!r} (within {self.near:.0e})"

    def same_value(self, actual: Any, log: float) -> Verdict:
        """Compare with exp(log): relative, where the answer is a normal number of the model's dtype."""
        if not isinstance(actual, (float, np.floating)):
            return f"is a {type(actual).__name__}, not a float"
        single = is_single(self.model)
        limits = np.finfo(np.float32 if single else np.float64)
        largest, least = float(np.log(limits.max)), float(np.log(limits.smallest_normal))
        if log == -np.inf:
            return None if actual == 0 else f"{actual!r}, not 0"
        if log > largest - 1 and (actual == np.inf or single):
            return None
        expected = float(np.exp(np.longdouble(log)))
        slack = self.near * expected + (16 * float(limits.smallest_subnormal) if log < least + 1 else 0)
        return None if abs(actual - expected) <= slack or actual == expected else f"{actual!r}, not {expected!r}"

    def log_partition(self) -> Verdict:
        return self.same_log(self.graph.log_partition(**self.kwargs), self.log_sum)

    def partition_log(self) -> Verdict:
        return self.same_log(self.graph.partition("log", **self.kwargs), self.log_sum)

    def partition_probability(self) -> Verdict:
        return self.same_value(self.value("probability"), self.log_sum)

    def partition_max(self) -> Verdict:
        return self.same_value(self.value("max"), self.highest)

    def value(self, semiring: str) -> Any:
        """Return a partition function; one beyond float64 may say so by a warning."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "overflow", RuntimeWarning)
            return self.graph.partition(semiring, **self.kwargs)

    def partition_satisfiability(self) -> Verdict:
        actual, expected = self.graph.partition("satisfiability", **self.kwargs), self.highest > -np.inf
        return None if isinstance(actual, (bool, np.bool_)) and bool(actual) == expected else f"{actual!r}"

    def partition_counting(self) -> Verdict:
        actual, expected = self.graph.partition("counting", **self.kwargs), brute.count(self.model, self.evidence)
        return None if type(actual) is int and actual == expected else f"{actual!r}, not {expected!r}"

    def same_chances(self, actual: Any, variables: Sequence[Variable]) -> Verdict:
        expected = brute.joint(self.model, self.weights, variables)
        if not isinstance(actual, np.ndarray) and not hasattr(actual, "__array__"):
            return f"of {variables!r} is a {type(actual).__name__}, not an array"
        found = np.asarray(actual, np.float64)
        if found.shape != expected.shape:
            return f"of {variables!r} has shape {found.shape}, not {expected.shape}"
        error = float(np.max(np.abs(found - expected), initial=0))
        if not error <= self.near or np.any(found < 0):
            return f"of {variables!r}: {found.tolist()}, not {expected.astype(float).tolist()} (off by {error:.1e})"
        if np.any(found[brute.log_sum(self.weights, ()) == -np.inf if not variables else expected == 0] > 1e-300):
            return f"of {variables!r}: an impossible state has a chance: {found.tolist()}"
        return None

    def marginals(self) -> Verdict:
        actual = self.graph.marginals(**self.kwargs)
        if actual.keys() != self.model.sizes.keys():
            return f"are of {list(actual)}, not of {list(self.model.sizes)}"
        return next((verdict for v in self.model.sizes if (verdict := self.same_chances(actual[v], [v]))), None)

    def marginal(self) -> Verdict:
        """Judge joint marginals of up to three variables, in an order that is not the graph's."""
        names = list(self.model.sizes)[::-1]
        chosen = [names[:1], names[:2], names[-1:] + names[:1], names[1:4]]
        groups = [group for group in chosen if group and len(set(group)) == len(group)]
        return next((verdict for group in groups
                     if (verdict := self.same_chances(self.graph.marginal(*group, **self.kwargs), group))), None)

    def map(self) -> Verdict:
        assignment, value = self.graph.map(**self.kwargs)
        again, _ = self.graph.map(**self.kwargs)
        if (verdict := self.same_log(value, self.highest)) or self.highest == -np.inf:
            return verdict
        if assignment.keys() != self.model.sizes.keys():
            return f"assigns {list(assignment)}, not {list(self.model.sizes)}"
        if not all(0 <= int(assignment[v]) < size for v, size in self.model.sizes.items()):
            return f"assigns no states: {assignment}"
        reached = float(brute.weight_of(self.model, self.evidence, assignment))
        if not reached >= self.highest - self.near:
            return f"{assignment} has {reached!r}, but {self.highest!r} is reached"
        return None if again == assignment else f"differs between calls: {assignment}, then {again}"

    def entropy(self) -> Verdict:
        """Judge the entropy of two variables, and of one given two others."""
        names = list(self.model.sizes)
        for variables, given in [(names[:2], []), (names[-1:], names[:2]), (names[1:3], names[3:4])]:
            if not variables or set(variables) & set(given):
                continue
            actual = self.graph.entropy(*variables, given=given, **self.kwargs)
            expected = brute.conditional_entropy(self.model, self.weights, variables, given)
            if not abs(actual - expected) <= 100 * self.near:  # p log p is steep near 0
                return f"of {variables} given {given}: {actual!r}, not {expected!r}"
        return None

    def sample(self) -> Verdict:
        drawn = self.graph.sample(SAMPLES, jf.random.key(7), **self.kwargs)
        if drawn.keys() != self.model.sizes.keys():
            return f"draws {list(drawn)}, not {list(self.model.sizes)}"
        columns = [np.asarray(drawn[v]) for v in self.model.sizes]
        if any(column.shape != (SAMPLES,) or column.dtype.kind not in "iu" for column in columns):
            return f"has {[(column.shape, column.dtype) for column in columns]}, not {SAMPLES} integers each"
        if any(np.any((c < 0) | (c >= size)) for c, size in zip(columns, self.model.sizes.values(), strict=True)):
            return "draws no states"
        return "draws impossible states" if columns and np.any(self.weights[tuple(columns)] == -np.inf) else None


QUERIES: list[Callable[[Judge], Verdict]] = [
    Judge.log_partition, Judge.partition_log, Judge.partition_probability, Judge.partition_satisfiability,
    Judge.partition_max, Judge.marginals, Judge.marginal, Judge.entropy, Judge.map, Judge.sample,
]
NEEDS_MASS = ("marginals", "marginal", "entropy", "sample")


def is_whole(model: Model) -> bool:
    """Return whether all tables and weights hold integers, so that states can be counted."""
    held = [*(table for _, table in model.factors), *model.evidence.values()]
    return not model.log and all(not callable(table) and np.all(np.asarray(table) % 1 == 0) for table in held)


def verdict_of(judge: Judge, query: Callable[[Judge], Verdict]) -> Verdict:
    """Ask one query; where nothing is possible, chances and samples are errors, and a most probable state may be."""
    name, impossible = query.__name__, judge.highest == -np.inf
    try:
        verdict = query(judge)
    except ModelError as error:
        return None if impossible and name in (*NEEDS_MASS, "map") else f"raises {error!r}"
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    unanswerable = impossible and name in NEEDS_MASS and judge.model.sizes
    return "raises nothing, although no state is possible" if unanswerable else verdict


def findings(model: Model, only: str | None = None) -> Iterator[str]:
    """Yield what is wrong in a model's answers: with its evidence, then without it from the same graph."""
    try:
        graph = graph_of(model)
    except Exception as error:
        yield f"FactorGraph: raises {type(error).__name__}: {error}"
        return
    near = tolerance(model)
    for evidence in [model.evidence, {}] if model.evidence else [{}]:
        judge = Judge(model, graph, brute.log_weights(model, evidence), evidence, near)
        counting = [Judge.partition_counting] if is_whole(model) else []
        for query in QUERIES + counting:
            if (only is None or query.__name__ == only) and (verdict := verdict_of(judge, query)):
                yield f"{query.__name__}{' with evidence' if evidence else ''}: {verdict}"
