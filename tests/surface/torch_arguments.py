"""The arguments that the examples of torch's functions are called with. Importing this module imports torch."""
from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

KINDS: Final = ("float32", "float64", "bfloat16", "float16", "int64", "int16", "strided")
"""What `x`, `y`, `v`, `w`, `q`, `img` and `ker` are: of these dtypes, or float32 in strided memory."""


def torch_arguments(kind: str = "float32") -> dict[str, Any]:
    """Return the arguments by name: x, y (4, 5); v, w (6,); q (2, 3, 4, 5); img (2, 4, 6, 6); ker (2, 4, 3, 3); m a
    matrix of float64; z a number of float64; i indices below 5; n small integers of int32; b a mask; o float64 to be
    written into.
    """
    draw = np.random.default_rng(7)
    dtype = getattr(torch, kind if kind != "strided" else "float32")

    def made(*shape: int) -> Any:
        size = int(np.prod(shape))
        values = draw.permutation(size).reshape(shape) / size + draw.random(shape) * 1e-3 + 0.02
        if not dtype.is_floating_point:
            values = values * size % 7 + 1
        tensor = torch.from_numpy(values).to(dtype)
        if kind == "strided":
            return tensor.mT.contiguous().mT if len(shape) > 1 else torch.stack([tensor, tensor], 1)[:, 0]
        return tensor

    return {
        "x": made(4, 5), "y": made(4, 5), "v": made(6), "w": made(6), "q": made(2, 3, 4, 5), "img": made(2, 4, 6, 6),
        "ker": made(2, 4, 3, 3), "m": torch.from_numpy(np.eye(4) * 3 + draw.random((4, 4))),
        "z": torch.tensor(1.5, dtype=torch.float64), "i": torch.tensor([0, 3, 1, 4, 2, 0]),
        "n": torch.from_numpy(draw.integers(0, 5, (4, 5)).astype("int32")),
        "b": torch.from_numpy(draw.random((4, 5)) > 0.4), "o": torch.zeros(4, 5, dtype=torch.float64),
    }
