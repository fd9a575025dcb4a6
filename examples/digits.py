"""A network that reads digits: one train step, evaluated by the same program after every epoch.

    python examples/digits.py [epochs]
"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits

import jitfuse as jf

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
rng = np.random.default_rng(0)
jf.random.seed(0)
images, labels = load_digits(return_X_y=True)
order = rng.permutation(len(labels))
x, y = (images[order] / 16).astype(np.float32), labels[order]
x, y, x_test, y_test = x[:1437], y[:1437], x[1437:], y[1437:]

params = jf.nn.parameters({
    "w1": (rng.normal(size=(64, 128)) / 8).astype(np.float32), "scale": np.ones(128, np.float32),
    "shift": np.zeros(128, np.float32), "w2": (rng.normal(size=(128, 10)) / 11).astype(np.float32),
    "b2": np.zeros(10, np.float32)})
mean, var = jf.Buffer(np.zeros(128, np.float32), "mean"), jf.Buffer(np.ones(128, np.float32), "var")
optimizer = jf.optim.AdamW(params, lr=jf.optim.Cosine(3e-3, steps=EPOCHS * 23, warmup=23))


@jf.fuse(training=True)
def step(x: Any, y: Any) -> Any:
    """Return the loss and how many are right; move the parameters in training."""
    h = jf.nn.batch_norm(jf.nn.linear(x, params["w1"]), params["scale"], params["shift"], mean, var)
    logits = jf.nn.linear(jf.nn.dropout(jf.nn.relu(h), 0.2), params["w2"], params["b2"])
    loss = jf.nn.cross_entropy(logits, y)
    optimizer.minimize(loss)
    return loss, np.sum(np.argmax(logits, axis=1) == y)


jf.optim.audit(step, x[:64], y[:64])
losses, table = [], Table("epoch", "loss", "loss of the test", "right in the test")
for epoch in track(range(1, EPOCHS + 1), "training"):
    for batch in np.split(rng.permutation(len(y)), range(64, len(y), 64)):
        losses.append(float(step(x[batch], y[batch])[0]))
    loss, right = step(x_test, y_test, training=False)
    if epoch % max(EPOCHS // 5, 1) == 0:
        table.add_row(f"{epoch}", f"{np.mean(losses[-22:]):.3f}", f"{loss:.3f}", f"{right / len(y_test):.1%}")
Console().print(table)
print(step.stats())

folder = Path("demo-output")
folder.mkdir(exist_ok=True)
jf.nn.save(folder / "digits.safetensors", {"model": params, "mean": mean, "var": var, "optimizer": optimizer})
picture = ImageDraw.Draw(image := Image.new("RGB", (660, 340), "white"))
for k in range(6):  # a line for each half of a unit of loss
    picture.line([(30, 320 - k * 60), (650, 320 - k * 60)], "lightgray")
    picture.text((5, 314 - k * 60), f"{k / 2}", "black")
picture.line([(30 + 620 * k / len(losses), 320 - 120 * v) for k, v in enumerate(losses)], "black", 2)
picture.text((300, 325), f"loss over {len(losses)} steps", "black")
image.save(folder / "digits.png")
print("demo-output/digits.png, demo-output/digits.safetensors")
