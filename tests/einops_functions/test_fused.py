"""Patterns in fused functions: steps of the program, without graph breaks, for NumPy and torch."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import einops


def patches(x: Any) -> Any:
    x = einops.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4)
    x = einops.rearrange(x, "b n d -> n b d") * 2
    return einops.rearrange(x, "n b (d e) -> b n d e", e=2)


def centred(x: Any) -> Any:
    return x - einops.reduce(x, "b h w c -> b 1 1 c", "mean")


def products(x: Any) -> Any:
    return einops.einsum(x, x, "b h w c, b h w d -> b c d")


def packed(x: Any) -> Any:
    both, shapes = einops.pack([x, x[:, 0]], "b * c")
    one, other = einops.unpack(both * einops.parse_shape(x, "b ... _")["b"], shapes, "b * c")
    return one + other[:, None]


def repeated(x: Any) -> Any:
    return einops.repeat(x, "b h w c -> n b (h 2) w c", n=1) + 1


def listed(x: Any) -> Any:
    return einops.reduce([x, x + 1], "n b ... c -> b n c", lambda y, axes: y.sum(axes))


def ellipsis(x: Any) -> Any:
    return einops.reduce(x, "b ... c -> c b", "max")


def arrays(library: str) -> Any:
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    return x if library == "numpy" else pytest.importorskip("torch").from_numpy(x)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("function", [patches, centred, products, packed, repeated, listed, ellipsis])
def test_patterns_are_traced(function: Callable[[Any], Any], library: str) -> None:
    x, fused = arrays(library), jf.fuse(function)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(fused(x)), np.asarray(function(x)), rtol=1e-4, atol=1e-5)
    stats = fused.stats()
    assert (stats["traces"], stats["splits"], stats["fallbacks"]) == (1, 0, 0)


def test_three_rearrangements_and_an_operator_are_one_launch() -> None:
    fused = jf.fuse(patches)
    fused(arrays("numpy"))
    assert fused.stats()["launches"] == 1


def test_new_sizes_are_new_programs() -> None:
    fused = jf.fuse(lambda x, n: einops.rearrange(x, "b (h p) w c -> b h p w c", p=n) + 0)
    assert fused(arrays("numpy"), 2).shape == (2, 4, 2, 8, 3)
    assert fused(arrays("numpy"), 4).shape == (2, 2, 4, 8, 3)


def test_mistakes_are_einops_errors() -> None:
    fused = jf.fuse(lambda x: einops.rearrange(x, "a b -> b a"))
    with pytest.raises(einops.EinopsError, match="array 1 has 4 axes"):
        fused(arrays("numpy"))


def test_layers_are_traced() -> None:
    torch = pytest.importorskip("torch")
    from jitfuse.einops.layers.torch import EinMix, Rearrange, Reduce

    model = torch.nn.Sequential(
        Rearrange("b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4), EinMix("b n d -> b n e", "d e", "e", d=48, e=5),
        Reduce("b n e -> b e", "max"))
    fused, x = jf.fuse(model), arrays("torch")
    with torch.no_grad():
        torch.testing.assert_close(fused(x), model(x))
    assert (fused.stats()["splits"], fused.stats()["fallbacks"]) == (0, 0)
