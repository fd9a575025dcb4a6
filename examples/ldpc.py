"""A small low-density parity-check code: bits decoded by exact marginals, words by the most probable codeword.

    python examples/ldpc.py [noise] [words]
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import jitfuse as jf
from jitfuse import factors

PRIME, COLUMNS, BLOCKS = 5, 4, 3  # an array code: bits (a, b), each in one check of every block


def code() -> factors.FactorGraph:
    """Return the graph of the codewords, which have weight 1: each check asks for an even number of ones."""
    checks = [[(a, (start + slope * a) % PRIME) for a in range(COLUMNS)]
              for slope in range(BLOCKS) for start in range(PRIME)]
    bits = [(a, b) for a in range(COLUMNS) for b in range(PRIME)]
    return factors.FactorGraph(dict.fromkeys(bits, 2), [(check, lambda *ones: 1 - sum(ones) % 2) for check in checks])


def main() -> None:
    """Send words, decode them, and print the errors."""
    noise, count = (float(a) for a in (*sys.argv[1:], *("0.9", "500")[len(sys.argv) - 1 :]))
    graph = code()
    codewords = graph.partition("counting")
    print(f"{len(graph.variables)} bits, {codewords} codewords, width {graph.plan().width}")

    sent = np.stack(list(graph.sample(int(count), jf.random.key(0)).values()), axis=1)  # [words, bits]
    received = 1 - 2 * sent + np.random.default_rng(0).normal(scale=noise, size=sent.shape)  # 0 is sent as 1, 1 as -1
    weights = np.exp(-((received[..., None] - [1, -1]) ** 2) / (2 * noise**2))  # [words, bits, 2]

    def seen(words: Any) -> dict[Any, Any]:
        return {bit: words[..., number, :] for number, bit in enumerate(graph.variables)}

    marginals = graph.marginals(seen(weights))  # of all words in one call
    states = [graph.map(seen(word))[0] for word in weights]
    decoded = {
        "each bit by itself": received < 0,
        "marginals of bits": np.stack([marginals[bit][:, 1] > 0.5 for bit in graph.variables], axis=1),
        "most probable codeword": np.array([list(state.values()) for state in states]),
    }
    table = Table("decoded by", "wrong bits", "wrong words", "no codewords", box=box.SIMPLE)
    for name, found in decoded.items():
        wrong = found != sent
        invalid = graph.log_partition({bit: found[:, n].astype(int) for n, bit in enumerate(graph.variables)})
        table.add_row(name, f"{wrong.sum()} of {wrong.size}", f"{wrong.any(axis=1).sum()} of {len(wrong)}",
                      f"{np.isinf(invalid).sum()}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
