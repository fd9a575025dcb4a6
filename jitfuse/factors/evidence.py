"""Evidence: states that variables are known to have, or weights of their states.

Owns how evidence changes a model: observed variables leave it, or weights become one more factor each.
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ModelError
from jitfuse.factors.inputs import check_values
from jitfuse.factors.tables import Factor, logs_of
from jitfuse.tracing.abstract import AbstractTensor


class Evidence(NamedTuple):
    """What is known: states of variables, and weights of states, by the numbers of variables.

    Weights have an axis for the states, behind one for a batch if there are several.
    """

    states: dict[int, int]
    weights: dict[int, Any]

    def factors(self, log: bool) -> list[Factor]:
        """Return weights as factors. Logs are float64: of a float32 they would round weights far from 1 more."""
        found = []
        for v, table in self.weights.items():
            if log:
                table = logs_of(table if isinstance(table, AbstractTensor) else np.asarray(table, np.float64))
            found.append(Factor((v,), table))
        return found


def read_evidence(
    evidence: Mapping[Hashable, Any] | None, index: Mapping[Hashable, int], sizes: Sequence[int],
    names: Mapping[Hashable, Sequence[str]],
) -> Evidence:
    """Return evidence as it is used.

    Args:
        evidence: that of a query.
        index: the number of each variable.
        sizes: of all variables.
        names: those of the states of variables that have any.

    Raises:
        ModelError: an unknown variable, a state that it does not have, weights of another size.
    """
    states: dict[int, int] = {}
    weights: dict[int, Any] = {}
    for name, value in (evidence or {}).items():
        if name not in index:
            raise ModelError(f"evidence for {name!r}: the graph has no such variable")
        v = index[name]
        array: Any = value if isinstance(value, AbstractTensor) else np.asarray(value)
        if array.dtype.kind == "U" and array.ndim < 2:
            array = _numbers(name, array, names.get(name, ()))
        if array.ndim == 0 and array.dtype.kind in "iu" and not isinstance(array, AbstractTensor):
            states[v] = _state(name, int(array), sizes[v])
        elif array.ndim == 1 and array.dtype.kind in "iu" and not isinstance(array, AbstractTensor):
            if len(array) == sizes[v]:
                raise ModelError(
                    f"evidence for {name!r}: {len(array)} integers may be weights of its states or a batch of states. "
                    f"Give floating-point weights, or a batch as np.eye({sizes[v]})[states]")
            for state in set(array.tolist()):
                _state(name, state, sizes[v])
            weights[v] = np.eye(sizes[v])[array]
        elif array.dtype.kind == "f" and array.ndim in (1, 2) and array.shape[-1] == sizes[v]:
            weights[v] = array
        elif array.dtype.kind in "iu" and isinstance(array, AbstractTensor):
            raise ModelError(f"evidence for {name!r}: states that are values of a fused function are given as weights: "
                             f"np.eye({sizes[v]})[states]")
        else:
            raise ModelError(
                f"evidence for {name!r}: give a state (an integer), states of a batch (integers [batch]), or "
                f"floating-point weights of its {sizes[v]} states, not {array.dtype}{list(array.shape)}")
    _check_weights({f"evidence for {name!r}: the array of weights": weights[index[name]]
                    for name in evidence or () if index[name] in weights})
    batches = {w.shape[0] for w in weights.values() if w.ndim == 2}
    if len(batches) > 1:
        raise ModelError(f"evidence of several batch sizes: {sorted(batches)}")
    if 0 in batches:
        raise ModelError("a batch of no evidence at all: give one state or more")
    return Evidence(states, weights)


def _check_weights(weights: Mapping[str, Any]) -> None:
    """Check arrays of weights, by what messages call them: those of one shape at once."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, array in weights.items():
        if not isinstance(array, AbstractTensor):
            alike.setdefault(array.shape, []).append(name)
    for names in alike.values():
        whole = np.stack([weights[name] for name in names])
        if not (np.isfinite(whole).all() and (whole >= 0).all()):
            for name in names:
                check_values(name, weights[name], log=False)


def _state(name: Hashable, state: int, size: int) -> int:
    if not 0 <= state < size:
        raise ModelError(f"evidence for {name!r}: it has states 0 to {size - 1}, not {state}")
    return state


def _numbers(name: Hashable, called: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the numbers of the states that are called so."""
    for state in called.reshape(-1).tolist():
        if state not in names:
            known = f"its states are {', '.join(names)}" if names else "its states have no names, give their numbers"
            raise ModelError(f"evidence for {name!r}: it has no state {state!r}; {known}")
    return np.array([names.index(state) for state in called.reshape(-1).tolist()], np.int64).reshape(called.shape)


def observed(factors: Sequence[Factor], states: Mapping[int, int]) -> list[Factor]:
    """Return the factors at the states of the observed variables, which leave their scopes."""
    if not states:
        return list(factors)
    return [
        factor if states.keys().isdisjoint(factor.scope) else Factor(
            tuple([v for v in factor.scope if v not in states]),
            factor.table[(..., *[states.get(v, slice(None)) for v in factor.scope])])
        for factor in factors
    ]
