"""torch's functions without operators: torch itself is called at graph breaks, and what it must not do is refused."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

CALLED: dict[str, Callable[[Any], Any]] = {
    "function": lambda x: torch.mode(x * 2)[0] + 1,
    "named results": lambda x: torch.mode(x.round(), dim=0).indices + 1,
    "special": lambda x: torch.special.bessel_j0(x) * 2,
    "linalg": lambda x: torch.linalg.lstsq(x @ x.T + 5 * torch.eye(4), x).solution * 2,
    "method": lambda x: (x * 2).histc(4, -1.0, 1.0) + 1,
    "in place": lambda x: (x * 2).digamma_() + 1,
    "method in place without a function": lambda x: (x * 1).erfinv_().nan_to_num_() + (x + 1),
    "option": lambda x: torch.linalg.norm(x, "nuc") * x,
    "keywords": lambda x: torch.max(x, other=-x) + 1,
    "real tensors among the arguments": lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5])) * 2,
    "dtype": lambda x: torch.softmax(x, 0, dtype=torch.float64).cumsum(0) + torch.polygamma(1, x + 4),
    "nested": lambda x: torch.block_diag(x, x + 1) * 2,
    "integers": lambda x: torch.einsum("ij->", (x * 100).to(torch.uint8)) + 1,
    "16 bits": lambda x: torch.igamma(x.half().abs() + 1, x.half().abs()) * 2,
    "bfloat16": lambda x: torch.special.i1e(x.bfloat16()) * 2 + torch.mode(x.bfloat16())[0][:, None],
    "in a loop": lambda x: sum(torch.polygamma(k, x + 4) for k in range(1, 4)),
    "made of an array": lambda x: torch.tensor(np.arange(5)) + torch.tril_indices(2, 2).sum() + x,
    "transposed": lambda x: torch.mode((x + 1).T).values * 2,
}


@pytest.mark.parametrize("name", CALLED)
def test_torch_is_called(name: str) -> None:
    function = CALLED[name]
    fused, rng = jf.fuse(function), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _ in range(4):
            x = torch.rand(4, 5, generator=rng) - 0.5
            kept = x.clone()
            got, want = fused(x), function(x)
            assert got.dtype == want.dtype and got.shape == want.shape
            torch.testing.assert_close(got, want, equal_nan=True)
            assert torch.equal(x, kept)
    assert fused.stats()["fallbacks"] == 0


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "draws": (lambda x: F.rrelu(x, training=True) * 2, "JF"),
    "draws by a function": (lambda x: torch.binomial(x.abs() * 0 + 8, x * 0 + 0.5), "JF107"),
    "an address": (lambda x: x * 0 + x.data_ptr() % 2, "JF107"),
    "a storage": (lambda x: x * x.untyped_storage().size(), "JF107"),
    "a view": (lambda x: torch.as_strided(x, (2, 2), (1, 1)) + 1, "JF107"),
    "no tensor": (lambda x: torch.set_num_threads(torch.get_num_threads()) or x * 2, "JF107"),
    "of real tensors alone": (lambda x: x * torch.randn_like(torch.ones(5)), "JF1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_seen_is_plain_python(name: str) -> None:
    function, code = REFUSED[name]
    fused = jf.fuse(function)
    with torch.no_grad():
        for seed in range(4):
            x, y = (torch.linspace(-1, 1, 20).reshape(4, 5) for _ in range(2))
            torch.manual_seed(seed)
            with pytest.warns(jf.FallbackWarning, match=rf"\[{code}") if not seed else _nothing():
                got = fused(x)
            torch.manual_seed(seed)
            assert torch.equal(got, function(y)) and torch.equal(x, y)
    assert fused.stats()["fallbacks"] == 4


class _nothing:  # noqa: N801  # a context
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_no_break_no_call() -> None:
    with pytest.raises(jf.errors.UnsupportedError, match=r"mode"):
        jf.fuse(lambda x: torch.mode(x)[0], strict=True)(torch.ones(3))


def test_torchs_errors_are_its_own() -> None:
    with pytest.raises(RuntimeError, match="size"), torch.no_grad():
        jf.fuse(lambda x: torch.igamma(x, torch.ones(7)) + 1)(torch.ones(3))


def test_watching_a_call_does_not_import_torchs_compiler() -> None:
    code = """
import sys, torch, jitfuse as jf
assert jf.fuse(lambda x: torch.mode(x)[0] + 1)(torch.ones(3)) == 2
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
