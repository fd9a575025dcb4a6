"""Draw the program of a train step: writes demo-output/train_step.svg, or the file that is named."""
from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

import jitfuse as jf

PICTURE = Path("demo-output", "train_step.svg")


@jf.fuse
def train_step(w: Any, x: Any, y: Any, rate: float) -> Any:
    """One step of a linear layer with dropout; w changes in place."""
    hidden = jf.nn.dropout(np.maximum(x @ w, 0), 0.1)
    error = hidden - y
    w -= rate * (x.T @ error) / len(x)
    return np.mean(error * error)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    target.parent.mkdir(exist_ok=True)
    arrays = [np.ones(shape, "float32") for shape in ((4, 3), (8, 4), (8, 3))]
    program = train_step.program(*arrays, 0.1, training=True)
    lines = {step: Path(line).name for step, line in program.sources.items()}  # without this machine's folders
    target.write_text(dataclasses.replace(program, sources=lines).to_svg(), encoding="utf-8")
    print(f"{target.name}: {len(program.steps)} steps")


if __name__ == "__main__":
    main()
