"""Draws the pictures of docs/named-axes.md: axes as boxes, before and after.

Writes them into demo-output, or the folder named: ``python examples/axes_pictures.py docs/pictures``.
"""
from __future__ import annotations

import sys
from pathlib import Path

from jitfuse.axes import ax, axes, contract, einop, rearrange

b, c, d, h, i, j, k, n, p, q, w = axes("b", "c", "d", "h", "i", "j", "k", "n", "p", "q", "w")

PICTURES = {
    "axes_patches": (rearrange(ax[b, h * p, w * q, c], ax[b, h * w, p * q * c]).with_sizes(p=4, q=4), [(2, 8, 12, 3)]),
    "axes_row": (einop((ax[b, n, d], ax[d]), ax[b, 1 + n, d]), [(2, 3, 4), (4,)]),
    "axes_product": (contract((ax[i, k], ax[k, j]), ax[j, i]), [(2, 3), (3, 4)]),
}


def main(folder: Path) -> None:
    """Write every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (op, shapes) in PICTURES.items():
        path = folder / f"{name}.svg"
        path.write_text(op.picture(*shapes), encoding="utf-8")
        print(f"{path.name}: {op}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-output"))
