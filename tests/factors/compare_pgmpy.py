"""Bayesian networks of pgmpy's package beside pgmpy: `python tests/factors/compare_pgmpy.py [NAME ...]`; needs pgmpy.

For each network: Z is 1 to 1e-12; the file read by `read_bif` gives the same; and, where pgmpy's variable elimination
can, marginals without evidence and with the evidence of a few leaves are equal to 1e-9. No pytest: it takes minutes.
"""
from __future__ import annotations

import gzip
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pgmpy
from pgmpy.inference import VariableElimination
from pgmpy.readwrite import BIFReader

from jitfuse import factors

FOLDER = Path(pgmpy.__file__).parent / "utils" / "example_models"
SMALL = 60
"""Up to so many nodes pgmpy answers in seconds."""
ASKED = 12
ROUNDING = 1e-12


def graph_of(network: Any) -> factors.FactorGraph:
    """Return a graph of pgmpy's own tables."""
    sizes, given = {}, []
    for table in network.get_cpds():
        found = table.to_factor()
        sizes[table.variable] = table.variable_card
        given.append((tuple(found.variables), np.asarray(found.values)))
    return factors.FactorGraph(sizes, given)


def judge(path: Path) -> list[str]:
    """Return what is wrong with a network's answers."""
    wrong: list[str] = []
    text = gzip.decompress(path.read_bytes()).decode()
    network = BIFReader(string=text).get_model()
    as_read = graph_of(network).log_partition()
    with tempfile.NamedTemporaryFile("w", suffix=".bif") as file:
        file.write(text)
        file.flush()
        read = factors.read_bif(file.name)
    if not abs(read.log_partition() - as_read) <= ROUNDING:
        wrong.append(f"read_bif: log Z is {read.log_partition()!r}, not {as_read!r}")
    for table in network.get_cpds():
        table.normalize()  # files have few digits, so that columns do not sum to 1
    graph = graph_of(network)
    if not abs(graph.log_partition()) <= ROUNDING:
        wrong.append(f"log Z is {graph.log_partition()!r}")
    if len(network.nodes()) > SMALL:
        return wrong
    theirs = VariableElimination(network)
    leaves = [node for node in network.nodes() if not list(network.successors(node))][:3]
    states = graph.map()[0]
    for evidence in ({}, {leaf: states[leaf] for leaf in leaves}):
        found = graph.marginals(evidence)
        named = {v: network.get_cpds(v).state_names[v][state] for v, state in evidence.items()}
        for node in [node for node in network.nodes() if node not in evidence][:ASKED]:
            expected = theirs.query([node], evidence=named, show_progress=False).values
            if not np.allclose(found[node], expected, rtol=0, atol=1e-9):
                wrong.append(f"{node} given {evidence}: {found[node]}, not {expected}")
    return wrong


def main(names: list[str]) -> int:
    bad = 0
    for path in sorted(FOLDER.glob("*.bif.gz")):
        if names and path.name.partition(".")[0] not in names:
            continue
        began = time.process_time()
        try:
            wrong = judge(path)
        except Exception as error:
            wrong = [f"raises {type(error).__name__}: {error}"]
        bad += bool(wrong)
        print(path.name, f"{time.process_time() - began:.1f} s", *(wrong or ["right"]), sep="\n  " if wrong else "  ",
              flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
