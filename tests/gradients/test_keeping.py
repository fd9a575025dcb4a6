"""What the backward pass keeps and what it computes again, and how reports show it."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def kept_by(function: Callable[..., Any], *args: Any) -> list[str]:
    """Return the lines about what the passes of a torch function keep."""
    fused = jf.fuse(function)
    found = fused.explain(*args)
    block = found.split("kept for the backward pass\n")[1].split("\n\n")[0]
    return [line.strip() for line in block.split("\n")]


def matches_torch(function: Callable[..., Any], *args: Any) -> None:
    import torch

    fused = jf.fuse(function)
    fused(*args).backward()
    found = [x.grad.clone() for x in args]
    for x in args:
        x.grad = None
    function(*args).backward()
    for x, gradient in zip(args, found, strict=True):
        torch.testing.assert_close(gradient, x.grad, rtol=1e-10, atol=1e-12)
    assert fused.stats()["fallbacks"] == 0


def test_cheap_steps_are_computed_again() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(100, dtype=torch.float64, requires_grad=True)

    def f(x: Any) -> Any:
        y = x * 2 + 1
        return (y * y * (y + 3)).sum()

    assert kept_by(f, x) == ["float64[100], 800 B: from outside"]
    matches_torch(f, x)


def test_the_end_of_a_long_chain_is_kept() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(100, dtype=torch.float64, requires_grad=True)

    def f(x: Any) -> Any:
        y = x
        for _ in range(30):  # linear: their derivatives need none of them
            y = y * 0.9 + 0.1
        return (y * y).sum()

    (line,) = kept_by(f, x)
    assert re.search(r"float64\[100\], 800 B: add, .*test_keeping.py:\d+$", line)
    matches_torch(f, x)


def test_products_reductions_and_dear_steps_are_kept() -> None:
    torch = pytest.importorskip("torch")
    x, w = (torch.randn(8, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def f(x: Any, w: Any) -> Any:
        h = torch.tanh(torch.exp(x @ w) * 0.1)
        return (h * torch.softmax(h * 2, dim=1)).sum()

    lines = kept_by(f, x, w)
    assert sum("from outside" in line for line in lines) == 2
    assert all(any(f"B: {name}," in line for line in lines) for name in ("exp", "tanh"))
    assert not any("B: multiply," in line for line in lines)
    matches_torch(f, x, w)


def test_masks_of_random_numbers_are_drawn_again() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(50, 50, requires_grad=True)
    lines = kept_by(jf.fuse(lambda x: torch.nn.functional.dropout(x, 0.5, True).sum(), training=True), x)
    assert all("bool" not in line and "50, 50" not in line for line in lines)


@pytest.mark.parametrize("sizes", [(100, 120), (1000, 1030)])
def test_nearby_shapes_keep_the_same(sizes: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")

    def f(x: Any, b: Any) -> Any:
        y = torch.erf(x) ** 3.5 + torch.sin(b) * x
        return (torch.exp(y) * y).sum()

    kinds = []
    for size in sizes:
        x, b = torch.rand(size, size, requires_grad=True), torch.rand(size, requires_grad=True)
        kinds.append([re.sub(r"\[.*\], \d+ B", "", line) for line in kept_by(f, x, b)])
    assert kinds[0] == kinds[1]


def test_the_report_tells_forward_from_backward() -> None:
    def loss(first: Any, second: Any, x: Any) -> Any:
        h = np.tanh(x @ first)
        return np.sum((np.exp(-h * h) * h @ second) ** 2)

    fused = jf.fuse(lambda first, second, x: jf.grad(loss, argnums=(0, 1))(first, second, x))
    args = np.random.default_rng(0).normal(size=(3, 64, 64))
    phases = fused.explain(*args).split("phases\n")[1].split("\n\n")[0]
    assert re.search(r"kernel 0: forward\n", phases)
    assert re.search(r"kernel \d: backward, computes \d+ of the function's steps", phases)
    assert re.search(r"kept: %\d+: float64\[64, 64\] = \w+, .*test_keeping.py:\d+, by kernel 0 for kernel", phases)
    assert re.search(r"kept in all: \d+ B", phases)
    plain = jf.fuse(loss).explain(*args)
    assert "phases\n" not in plain and "(backward)" not in plain


def test_tangents_have_a_phase() -> None:
    found = jf.fuse(lambda x: jf.jvp(np.sin, (x,), (x,))).program(np.ones(3))
    assert "(tangent)" in str(found)


def test_pages_of_both_passes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(10, requires_grad=True)
    found = jf.fuse(lambda x: torch.sin(x).sum(), name="f").explain(x, html=tmp_path / "f.html")
    assert found.startswith("forward pass of f") and "backward pass of f" in found
    for which in ("forward", "backward"):
        assert f"{which} pass of f" in (tmp_path / f"f.{which}.html").read_text()


@pytest.mark.parametrize("function", [lambda x: x.detach() * 2, lambda x: x, lambda x: None])
def test_the_report_of_results_without_gradients(function: Any) -> None:
    torch = pytest.importorskip("torch")
    assert "no backward pass" in jf.fuse(function).explain(torch.ones(3, requires_grad=True))


def test_functions_that_stay_torchs_own_say_so() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(10, requires_grad=True)
    found = jf.fuse(lambda x: x * float(x.sum()), name="f").explain(x)
    assert found.startswith("f runs as torch's own code where tensors require gradients: ")
