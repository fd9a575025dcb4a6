"""Hidden Markov models of any number of steps: a chain is one step of native code, repeated.

Owns the public class and the choice of arithmetic. Does not own the passes (`chain_records.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.control import scan
from jitfuse.errors import ModelError
from jitfuse.factors.chain_records import Ahead, Chain
from jitfuse.factors.given import IMPOSSIBLE
from jitfuse.factors.graph import FactorGraph
from jitfuse.factors.inputs import check_values
from jitfuse.factors.semirings import LOG
from jitfuse.factors.tables import logs_of
from jitfuse.factors.underflow import LIMITS
from jitfuse.fuse import fuse
from jitfuse.tracing.abstract import AbstractTensor

LIMIT: Final = LIMITS[np.dtype(np.float64)]


class HiddenMarkovModel:
    """A chain of hidden states, each seen through something whose likelihood depends on the state.

    Args:
        initial: probabilities of the states of the first step, float64[states].
        transition: probabilities of moves, float64[states, states]: `transition[i, j]` is that of j after i.
        log: both hold logs.

    What was seen is given to each method as its likelihoods, float64[steps, states]: `likelihoods[t, i]` is the
    probability, or density, of what was seen in step t if the state is i. With `log`, as logs. For symbols s with
    probabilities `emission[state, symbol]` that is `emission.T[s]`.

    Source: Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition", 1989.

    Raises:
        ModelError: shapes that do not fit; NaN, negative or infinite values.

    Example:
        >>> weather = jf.factors.HiddenMarkovModel([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]])
        >>> seen = np.array([[0.1, 0.6], [0.4, 0.3], [0.5, 0.1]])
        >>> float(weather.log_likelihood(seen).round(4))
        -3.3928
        >>> weather.smooth(seen).round(3)[0]
        array([0.177, 0.823])
        >>> weather.decode(seen)[0]
        array([1, 0, 0])
    """

    def __init__(self, initial: Any, transition: Any, *, log: bool = False) -> None:
        self.log = bool(log)
        self.initial: Any
        self.transition: Any
        self.initial, self.transition = (
            x if isinstance(x, AbstractTensor) else np.ascontiguousarray(x, np.float64) for x in (initial, transition))
        states = self.initial.shape
        if len(states) != 1 or self.transition.shape != states * 2 or not states[0]:
            raise ModelError(f"`initial` has shape {states}, `transition` {self.transition.shape}: give [states] and "
                             "[states, states]")
        check_values("`initial`", self.initial, self.log)
        check_values("`transition`", self.transition, self.log)

    @property
    def states(self) -> int:
        """The number of states."""
        return int(self.initial.shape[0])

    def __repr__(self) -> str:
        return f"HiddenMarkovModel({self.states} states)"

    # ------------------------------------------------------------------ queries
    def log_likelihood(self, likelihoods: Any) -> Any:
        """Return the log of the probability of all that was seen, float64 or float64[batch]; -inf: impossible.

        In a fused function it is a scan, and its gradient trains the model.
        """
        seen = self._read(likelihoods)
        if any(isinstance(x, AbstractTensor) for x in (seen, self.initial, self.transition)):
            return self._traced(seen)
        return _each(self._log_likelihood, seen)[()]

    def filter(self, likelihoods: Any) -> np.ndarray:
        """Return the probabilities of each step's state given what was seen up to it, float64[.., steps, states].

        Raises:
            ModelError: what was seen is impossible.
        """
        return _each(self._filter, self._concrete("filter", likelihoods))

    def smooth(self, likelihoods: Any) -> np.ndarray:
        """Return the probabilities of each step's state given all that was seen, float64[.., steps, states].

        Raises:
            ModelError: what was seen is impossible.
        """
        return _each(self._smooth, self._concrete("smooth", likelihoods))

    def decode(self, likelihoods: Any) -> tuple[np.ndarray, Any]:
        """Return the most probable states of all steps together, int64[.., steps], and the logs of their probabilities.

        Of equally probable ones the last step has the lowest state, then the one before it, and so on. Source: Viterbi,
        "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm", 1967.

        Raises:
            ModelError: what was seen is impossible.
        """
        seen = self._concrete("decode", likelihoods)
        if seen.ndim == 2:
            return self._decode(seen)
        found = [self._decode(one) for one in seen]
        return np.array([path for path, _ in found]), np.array([value for _, value in found])

    def graph(self, steps: int) -> FactorGraph:
        """Return the model of so many steps as a factor graph over the variables 0, 1, ..: for all other questions.

        What was seen is soft evidence there: `graph(3).marginals({0: likelihoods[0]})`.
        """
        chain = [((t, t + 1), self.transition) for t in range(steps - 1)]
        return FactorGraph([self.states] * steps, [((0,), self.initial), *chain], log=self.log)

    # ------------------------------------------------------------------ one sequence
    def _log_likelihood(self, seen: np.ndarray) -> float:
        given = self._probabilities(seen)
        found = given.ahead(self, last_only=True)
        with np.errstate(divide="ignore"):
            if found is None:
                return float(np.logaddexp.reduce(self._logs.ahead(self._log(seen), last_only=True).messages[-1]))
            return float(np.log(found.messages[-1].sum()) + np.log(found.scales).sum() + given.offset)

    def _filter(self, seen: np.ndarray) -> np.ndarray:
        found = self._probabilities(seen).ahead(self)
        if found is None:
            return _of_logs(self._logs.ahead(self._log(seen)).messages)
        return _divided(found.messages, 1.0)

    def _smooth(self, seen: np.ndarray) -> np.ndarray:
        given = self._probabilities(seen)
        if given.allowed > 0:
            (found, least), forward = self._linear.both(given.seen)
            if math.log(min(least, forward.least)) >= -given.allowed / 2:
                return _divided(forward.messages, found)
        (found, _), forward = self._logs.both(self._log(seen))
        return _of_logs(forward.messages + found)

    def _decode(self, seen: np.ndarray) -> tuple[np.ndarray, float]:
        messages = self._logs._replace(carrier="max_sum").ahead(self._log(seen)).messages
        value = float(messages[-1].max())
        if value == -math.inf:
            raise ModelError(IMPOSSIBLE)
        path, last = _walk_back(messages, np.ascontiguousarray(self._logs.moves.T))
        return np.append(path, last), value

    def _traced(self, seen: Any) -> Any:
        """Return the log likelihood as steps of a trace."""
        initial, moves, logs = (x if self.log else np.log(x) for x in (self.initial, self.transition, seen))
        if seen.ndim == 3:  # a batch behind the steps
            logs, moves = logs.transpose(1, 0, 2), moves[None]

        def step(before: Any, now: Any) -> tuple[Any, Any]:
            after = LOG.sum(before[..., None] + moves, (now.ndim - 1,)) + now
            return after, 0.0

        last, _ = scan(step, initial + logs[0], logs[1:])
        return LOG.sum(last, (last.ndim - 1,))

    # ------------------------------------------------------------------ what is given
    def _read(self, likelihoods: Any) -> Any:
        traced = isinstance(likelihoods, AbstractTensor)
        seen: Any = likelihoods if traced else np.ascontiguousarray(likelihoods, np.float64)
        if seen.ndim not in (2, 3) or seen.shape[-1] != self.states or not seen.shape[-2]:
            raise ModelError(f"likelihoods have shape {tuple(seen.shape)}: give [steps, {self.states}], or "
                             f"[batch, steps, {self.states}], of one step at least")
        if not traced:
            _, smallest, largest = _range(seen)
            if not (largest < np.inf and (self.log or smallest >= 0)):
                check_values("`likelihoods`", seen, self.log)
        return seen

    def _concrete(self, name: str, likelihoods: Any) -> np.ndarray:
        seen = self._read(likelihoods)
        if any(isinstance(x, AbstractTensor) for x in (seen, self.initial, self.transition)):
            raise ModelError(f"{name} needs values: call it outside of fused functions")
        found: np.ndarray = seen
        return found

    @cached_property
    def _linear(self) -> Chain:
        first, moves = (np.asarray(np.exp(x) if self.log else x) for x in (self.initial, self.transition))
        return Chain("sum_product", first, moves)

    @cached_property
    def _logs(self) -> Chain:
        return Chain("log", self._log(self.initial), self._log(self.transition))

    def _log(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values if self.log else logs_of(values))

    def _probabilities(self, seen: np.ndarray) -> Probabilities:
        """Return what was seen as probabilities, with how far messages may spread before a product underflows."""
        offset = 0.0
        if self.log:
            seen, offset, least = _shifted(seen)
            below, above = -least, 0.0
        else:
            least, _, largest = (float(x) for x in _range(seen))
            below, above = (-math.log(x) if x > 0 else 0.0 for x in (least, largest))
            above = max(0.0, -above)
        model = np.concatenate([self._logs.first, self._logs.moves.reshape(-1)])
        model = model[model > -np.inf]
        below += max(0.0, -model.min(initial=0.0))
        above += max(0.0, model.max(initial=0.0)) + math.log(self.states)
        return Probabilities(seen, offset, LIMIT - below if above < LIMIT else -1.0)


class Probabilities(NamedTuple):
    """What was seen as probabilities, the log of what they were divided by, and how far below 1 messages may be."""

    seen: np.ndarray
    offset: float
    allowed: float

    def ahead(self, model: HiddenMarkovModel, *, last_only: bool = False) -> Ahead | None:
        """Return the messages ahead; None where products may have underflown."""
        if self.allowed <= 0:
            return None
        found = model._linear.ahead(self.seen, last_only=last_only)
        return found if math.log(found.least) >= -self.allowed else None


def _each(query: Callable[[np.ndarray], Any], seen: np.ndarray) -> np.ndarray:
    """Return a query's answer, or those of all sequences of a batch."""
    return np.asarray(query(seen) if seen.ndim == 2 else [query(one) for one in seen])


def _shifted(logs: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return exp of logs over the largest of each row, the sum of these, and the least log but -inf after it."""
    top = logs.max(axis=-1, keepdims=True)
    top = np.where(top > -np.inf, top, 0.0)
    logs = logs - top
    return np.exp(logs), float(top.sum()), float(np.where(logs > -np.inf, logs, 0.0).min())


def _of_logs(table: np.ndarray) -> np.ndarray:
    """Return probabilities from logs of multiples of them."""
    top = table.max(axis=-1, keepdims=True)
    if not (top > -np.inf).all():
        raise ModelError(IMPOSSIBLE)
    return _divided(np.exp(table - top), 1.0)


def _divided(a: np.ndarray, b: Any) -> np.ndarray:
    """Return products as rows over their sums."""
    if not (a[-1] * (b if np.ndim(b) == 0 else b[-1])).any():
        raise ModelError(IMPOSSIBLE)
    found: np.ndarray = _over_sums(a, b)
    return found


@fuse
def _over_sums(a: Any, b: Any) -> Any:
    table = a * b
    return table / table.sum(axis=-1, keepdims=True)


@fuse
def _range(values: Any) -> tuple[Any, Any, Any]:
    """Return the least number above 0, the least and the largest one; NaN where there is any."""
    return np.where(values > 0, values, np.inf).min(), values.min(), values.max()


@fuse
def _walk_back(messages: Any, moves: Any) -> tuple[Any, Any]:
    """Return the best states of all steps but the last, and that one."""
    last = messages[-1].argmax()

    def step(state: Any, message: Any) -> tuple[Any, Any]:
        now = (message + moves[state]).argmax()
        return now, now

    _, path = scan(step, last, messages[:-1], reverse=True)
    return path, last
