"""torch's functions of bools, integers, infinities, NaN and no elements: values, dtypes and errors are torch's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

FLOATS = torch.tensor([[np.nan, np.inf, -np.inf, 0.25], [-0.75, 1.5, -0.0, 0.5]])
INTS, BYTES = torch.tensor([[-2, -1, 0, 1], [2, 3, -3, 5]]), torch.tensor([[200, 250, 3, 0], [100, 100, 7, 255]]).byte()
BOOLS = torch.tensor([[True, False, True, True], [False, False, True, False]])
NONE = torch.zeros(0, 4)
ARGUMENTS = {
    "floats": FLOATS, "ints": INTS, "bytes": BYTES, "bools": BOOLS, "none": NONE, "halves": INTS.half(),
    "signed bytes": INTS.to(torch.int8), "complex": INTS / (BYTES + 1j),
    "transposed": INTS.double().t().contiguous().t(),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "power of itself": lambda x: x ** x,
    "power of two": lambda x: 2 ** x,
    "power by a tensor": lambda x: torch.pow(torch.tensor(-1), x),
    "minus a mask": lambda x: x - (x == 1),
    "minus True": lambda x: x - True,
    "one minus": lambda x: 1 - x,
    "twice added": lambda x: torch.add(x, x, alpha=2),
    "half added": lambda x: torch.add(x, x, alpha=0.5),
    "twice subtracted": lambda x: torch.sub(x, x, alpha=2),
    "products added": lambda x: torch.addcmul(x, x, x, value=2),
    "square": torch.square,
    "without NaN": lambda x: torch.nan_to_num(x, 7.0, posinf=2.0),
    "running logarithm": lambda x: torch.logcumsumexp(x * 400.0, 1),
    "running logarithm down": lambda x: torch.logcumsumexp(x, 0),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5),
    "trapezoid down": lambda x: torch.trapezoid(x, dim=0),
    "trapezoid between": lambda x: torch.trapezoid(x, torch.tensor([0.0, 1.0, 3.0, 4.0])),
    "running trapezoid": lambda x: torch.cumulative_trapezoid(x, dx=2),
    "chunks": lambda x: x.chunk(2, 0),
    "vander": lambda x: torch.vander(x.reshape(-1), 3),
    "strides": lambda x: x.contiguous().stride(),
    "outer added": lambda x: torch.addr(torch.outer(x[0], x[0]), x[0], x[0]),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "threshold": lambda x: F.threshold(x, 0.3, 9.0),
    "entropy": lambda x: F.cross_entropy(x, x.softmax(1)),
    "divergence": lambda x: F.kl_div(x, x.softmax(1), reduction="batchmean"),
    "ranking": lambda x: F.margin_ranking_loss(x, x.flip(0), x.sign(), margin=0.2),
    "embedding": lambda x: F.cosine_embedding_loss(x, x.flip(0), torch.tensor([1, -1]), margin=0.2),
    "triplet": lambda x: F.triplet_margin_loss(x, x.flip(0), x.flip(1)),
}

MADE: dict[str, Callable[..., Any]] = {
    "an element and numbers": lambda x: torch.tensor([x[0], 2, 3]),
    "a number and an element": lambda x: torch.tensor([2.5, x[0]]),
    "elements and True": lambda x: torch.tensor([[x[0], x[1]], [True, x[2]]]),
    "an element": lambda x: torch.tensor(x[0]),
    "items": lambda x: torch.tensor([x[0].item(), x[1].item(), 1]),
    "floats and truths": lambda x: torch.tensor([float(x[0]), x[1] > 0]),
    "ints": lambda x: (torch.tensor([int(x[0]), 2.5]), torch.tensor(int(x[0])), torch.tensor([bool(x[0] > 0)])),
    "complex numbers": lambda x: torch.tensor([x[0], 1j]),
    "taken as a tensor": lambda x: torch.as_tensor([x[0], 1]),
    "another's": lambda x: x.new_tensor([x[0].item(), 2.5]),
    "filled with an element": lambda x: torch.full((2,), x[0]),
    "filled with an item": lambda x: torch.full((2,), x[0].item()),
    "filled like": lambda x: torch.full_like(x, x[0]),
    "a list": lambda x: torch.tensor(x.tolist()),
}


@pytest.mark.parametrize(("name", "dtype"), amount.crossed(
    2, MADE, ["float32", "float64", "int64", "int32", "bool", "uint8", "float16", "bfloat16"]))
def test_dtypes_of_new_tensors(name: str, dtype: str) -> None:
    f, x = MADE[name], torch.tensor([3, 0, 1, 1]).to(getattr(torch, dtype))
    fused, want = jf.fuse(f), outcome(f, x.clone())
    for _ in range(3):
        got = outcome(fused, x.clone())
        if isinstance(want, Exception):
            assert isinstance(got, type(want)), (got, want)
        else:
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("name", "of"), [pair for pair in amount.crossed(2, FUNCTIONS, ARGUMENTS)
                                          if pair != ("power of itself", "complex")])  # 0 to the 0 is NaN in torch
def test_functions(name: str, of: str) -> None:
    f, tolerance = FUNCTIONS[name], 2e-3 if of == "halves" else 1e-5
    fused = jf.fuse(f)
    want = outcome(f, ARGUMENTS[of].clone())
    for _ in range(3):
        got = outcome(fused, ARGUMENTS[of].clone())
        if isinstance(want, Exception):
            if name in ("minus a mask", "minus True", "half added", "one minus"):
                assert isinstance(got, type(want)), (got, want)
        else:
            assert not isinstance(got, Exception), got
            torch.testing.assert_close(got, want, equal_nan=True, rtol=tolerance, atol=tolerance)


def test_small_logarithms_before_large_ones() -> None:
    x = torch.tensor([-800.0, -700.0, 0.0, 900.0, 1.0], dtype=torch.float64)
    for n in range(6):
        torch.testing.assert_close(jf.fuse(lambda v: torch.logcumsumexp(v, 0))(x[:n]), torch.logcumsumexp(x[:n], 0))
    torch.testing.assert_close(jf.fuse(lambda v: torch.logcumsumexp(v, 0))(x[3]), torch.logcumsumexp(x[3], 0))
