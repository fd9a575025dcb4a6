"""A noisy picture cleaned by an Ising prior: exact marginals of all pixels, and the most probable picture.

    python examples/denoising.py [noise]
"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from jitfuse import factors

NOISE = float(sys.argv[1]) if len(sys.argv) > 1 else 0.15  # how often a pixel has flipped
COUPLING = 1.0  # neighbours are exp(COUPLING) times as likely to be equal as to differ
PICTURE = """
................................
.......####..######..#########..
.......####..######..#########..
.......####...####...#########..
.......####...####......###.....
.......####...####......###.....
.......####...####......###.....
..###..####...####......###.....
..#########...####......###.....
...########..######.....###.....
....######...######.....###.....
................................
"""


def prior(rows: int, columns: int) -> factors.FactorGraph:
    """Return the graph of all pixels (row, column), with a factor for each pair of neighbours."""
    equal = np.exp(COUPLING * np.eye(2))
    pixels = [(i, j) for i in range(rows) for j in range(columns)]
    down = [((i, j), (i + 1, j)) for i, j in pixels if i + 1 < rows]
    right = [((i, j), (i, j + 1)) for i, j in pixels if j + 1 < columns]
    return factors.FactorGraph(dict.fromkeys(pixels, 2), [(pair, equal) for pair in down + right])


def draw(panels: dict[str, np.ndarray], path: Path, zoom: int = 8) -> None:
    """Write arrays of numbers from 0 (white) to 1 (black) next to each other."""
    rows, columns = next(iter(panels.values())).shape
    width = columns * zoom + 10
    image = Image.new("L", (width * len(panels) + 10, rows * zoom + 35), 205)
    pen = ImageDraw.Draw(image)
    for number, (title, values) in enumerate(panels.items()):
        gray = Image.fromarray(np.round(255 * (1 - values)).astype(np.uint8))
        image.paste(gray.resize((columns * zoom, rows * zoom), Image.Resampling.NEAREST), (10 + number * width, 25))
        pen.text((10 + number * width, 7), title, 0)
    path.parent.mkdir(exist_ok=True)
    image.save(path)


def main() -> None:
    original = np.array([[pixel == "#" for pixel in row] for row in PICTURE.split()], int)
    noisy = original ^ (np.random.default_rng(0).random(original.shape) < NOISE)
    graph = prior(*original.shape)
    likelihood = np.where(np.eye(2, dtype=bool), 1 - NOISE, NOISE)  # of what is seen (row) in each state of a pixel
    seen = {pixel: likelihood[noisy[pixel]] for pixel in graph.variables}  # other noise compiles nothing

    marginals, states = graph.marginals(seen), graph.map(seen)[0]
    black = np.array([marginals[pixel][1] for pixel in graph.variables]).reshape(original.shape)
    best = np.array([states[pixel] for pixel in graph.variables]).reshape(original.shape)
    print(f"{original.size} pixels, width {graph.plan().width}: the marginals are exact")
    for name, found in (("noisy", noisy), ("marginals, cut at 1/2", black > 0.5), ("most probable picture", best)):
        print(f"{name}: {np.sum(found != original)} pixels wrong")
    draw({"original": original, f"noisy: {NOISE:.0%} flipped": noisy, "marginals": black,
          "most probable picture": best}, Path("demo-output", "denoising.png"))
    print("demo-output/denoising.png")


if __name__ == "__main__":
    main()
