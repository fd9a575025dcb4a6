"""One program for training and evaluation: the flag changes what runs, and nothing is traced again.

    python examples/training_flag.py
"""
from __future__ import annotations

from typing import Any

import numpy as np

import jitfuse as jf


@jf.fuse
def layer(x: Any, weights: Any, bias: Any) -> Any:
    """Return a dense layer of x (batch, n) with a ReLU, and dropout where the call trains."""
    return jf.nn.dropout(jf.nn.relu(x @ weights + bias), 0.5)


if __name__ == "__main__":
    jf.random.seed(0)
    generator = np.random.default_rng(0)
    x, weights = (generator.standard_normal(shape).astype(np.float32) for shape in ((64, 256), (256, 128)))
    bias = np.zeros(128, np.float32)
    for _ in range(3):
        trained = layer(x, weights, bias, training=True)
        evaluated = layer(x, weights, bias)
        print(f"zeros in training {np.mean(trained == 0):.2f}, in evaluation {np.mean(evaluated == 0):.2f}")
    print(layer.stats())
    print(layer.program(x, weights, bias))
