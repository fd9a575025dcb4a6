"""A linear-chain conditional random field: scores, log Z, its derivatives and the update are one train step.

    python examples/crf.py [epochs]
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

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
LENGTH, LABELS, FEATURES, BATCH = 10, 4, 6, 64
rng = np.random.default_rng(0)
centres = 0.6 * rng.normal(size=(LABELS, FEATURES))
moves = 0.05 + 0.8 * np.roll(np.eye(LABELS), 1, axis=1)  # labels mostly go 0, 1, 2, 3, 0, ...


def sequences(count: int) -> tuple[Any, Any]:
    """Return features [count, LENGTH, FEATURES] and labels [count, LENGTH] of a hidden Markov model."""
    labels = rng.integers(LABELS, size=(count, LENGTH))
    for t in range(1, LENGTH):
        before = moves[labels[:, t - 1]].cumsum(axis=1)[:, :-1]
        labels[:, t] = (rng.random((count, 1)) > before).sum(axis=1)
    return centres[labels] + rng.normal(size=(count, LENGTH, FEATURES)), labels


params = jf.nn.parameters(
    {"w": np.zeros((FEATURES, LABELS)), "b": np.zeros(LABELS), "moves": np.zeros((LABELS, LABELS))})
alone = jf.nn.parameters({"w": np.zeros((FEATURES, LABELS)), "b": np.zeros(LABELS)})
optimizer, optimizer_alone = jf.optim.Adam(params, lr=0.03), jf.optim.Adam(alone, lr=0.03)


@jf.fuse(training=True)
def chain(x: Any, y: Any) -> Any:
    """Return the loss per label and how many labels are right; move the parameters in training."""
    scores = jf.nn.log_softmax(jf.nn.linear(x, params["w"], params["b"]))
    pairs = [((t, t + 1), params["moves"]) for t in range(LENGTH - 1)]
    graph = factors.FactorGraph([LABELS] * LENGTH, pairs, log=True)
    seen = {t: np.exp(scores[:, t]) for t in range(LENGTH)}  # weights of the labels: evidence, in a batch
    path = np.take_along_axis(scores, y[..., None], axis=2).sum() + params["moves"][y[:, :-1], y[:, 1:]].sum()
    loss = (graph.log_partition(seen).sum() - path) / y.size
    optimizer.minimize(loss)
    marginals = np.stack(list(graph.marginals(seen).values()), axis=1)
    return loss, np.sum(np.argmax(marginals, axis=2) == y)


@jf.fuse(training=True)
def independent(x: Any, y: Any) -> Any:
    """Do the same with labels that do not know of each other."""
    logits = jf.nn.linear(x, alone["w"], alone["b"])
    loss = jf.nn.cross_entropy(logits.reshape(-1, LABELS), y.reshape(-1))
    optimizer_alone.minimize(loss)
    return loss, np.sum(np.argmax(logits, axis=2) == y)


x, y = sequences(1024)
x_test, y_test = sequences(1024)
table = Table("model", "loss before", "after training", "of the test", "right in the test", box=box.SIMPLE)
for name, step in (("independent", independent), ("chain", chain)):
    before = step(x, y, training=False)[0]
    for _ in range(EPOCHS):
        for batch in np.split(rng.permutation(len(y)), len(y) // BATCH):
            step(x[batch], y[batch])
    after = step(x, y, training=False)[0]
    loss, right = step(x_test, y_test, training=False)
    table.add_row(name, *(f"{v:.3f}" for v in (before, after, loss)), f"{right / y_test.size:.1%}")
Console(width=120).print(table)
print("loss goes down:", bool(after < before))
found = np.exp(params["moves"] - params["moves"].max(axis=1, keepdims=True))
print("moves from each label, learned:", (found / found.sum(axis=1, keepdims=True)).round(2).tolist())
print(chain.stats())
