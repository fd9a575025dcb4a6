"""A medical network: evidence is added step by step, then one finding is moved as a slider from no to yes.

    python examples/medical.py

The numbers are made up for the example. They are no medical advice.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from jitfuse import factors

DISEASES = {"cold": 0.10, "flu": 0.04, "pneumonia": 0.01, "allergy": 0.08}  # how common they are
FINDINGS = {  # how likely each disease brings the finding about, and how likely it comes by itself
    "fever": ({"cold": 0.20, "flu": 0.90, "pneumonia": 0.80}, 0.01),
    "cough": ({"cold": 0.60, "flu": 0.70, "pneumonia": 0.90, "allergy": 0.20}, 0.03),
    "sneezing": ({"cold": 0.70, "flu": 0.20, "allergy": 0.90}, 0.02),
    "muscle ache": ({"flu": 0.80, "pneumonia": 0.30}, 0.05),
    "shadow on the X-ray": ({"pneumonia": 0.85}, 0.02),
}


def noisy_or(strengths: list[float], alone: float) -> Callable[..., Any]:
    """Return a table, as a function of the states of the causes and the finding: no finding, where all causes fail."""
    def table(*states: Any) -> Any:
        absent = 1 - alone
        for strength, present in zip(strengths, states[:-1]):
            absent = absent * (1 - strength) ** present
        return np.where(states[-1] == 1, 1 - absent, absent)
    return table


def network() -> factors.FactorGraph:
    """Return the graph: state 1 of a variable is yes."""
    tables: list[tuple[tuple[str, ...], Any]] = [((disease,), [1 - p, p]) for disease, p in DISEASES.items()]
    for finding, (causes, alone) in FINDINGS.items():
        tables.append(((*causes, finding), noisy_or(list(causes.values()), alone)))
    return factors.FactorGraph(dict.fromkeys([*DISEASES, *FINDINGS], 2), tables)


def posteriors(graph: factors.FactorGraph, evidence: Mapping[str, Any]) -> np.ndarray:
    """Return how probable each disease is, along the last axis."""
    marginals = graph.marginals(evidence)
    return np.stack([marginals[disease][..., 1] for disease in DISEASES], axis=-1)


def main() -> None:
    """Print both tables."""
    graph, steps = network(), Table("evidence", *DISEASES, box=box.SIMPLE)
    known: dict[str, Any] = {}
    steps.add_row("none", *(f"{p:.1%}" for p in posteriors(graph, {})))
    for finding, state in [("cough", 1), ("fever", 1), ("sneezing", 0), ("muscle ache", 0), ("shadow on the X-ray", 1)]:
        known[finding] = state
        steps.add_row(f"{'+ ' if state else '+ no '}{finding}", *(f"{p:.1%}" for p in posteriors(graph, known)))

    slider = np.linspace(0, 1, 6)  # one call for all positions: a batch of weights of the two states
    known["shadow on the X-ray"] = np.stack([1 - slider, slider], axis=1)
    soft = Table("weight of a shadow", *DISEASES, "evidence's probability", box=box.SIMPLE)
    for weight, row, log_z in zip(slider, posteriors(graph, known), graph.log_partition(known)):
        soft.add_row(f"{weight:.1f}", *(f"{p:.1%}" for p in row), f"{np.exp(log_z):.6f}")
    console = Console(width=120)
    console.print(steps, soft)


if __name__ == "__main__":
    main()
