"""torch's own code runs on traced tensors: composite functions, decompositions, factories inside, buffers, refusals."""
from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

COMPOSED: Final[dict[str, Callable[[Any], Any]]] = {
    "a decomposition": lambda x: F.celu(x * 2, 0.7) + F.mish(x),
    "a composite of C++": lambda x: torch.linalg.matrix_norm(x * 2, 1) + torch.trapezoid(x),
    "Python of torch's": lambda x: F.huber_loss(x, x * 0.5, reduction="none") * F.pairwise_distance(x, -x)[:, None],
    "a factory inside": lambda x: F.one_hot((x * 3).long().abs(), 5).sum(-1) * x,
    "a lazy conjugate": lambda x: torch.complex(x, x * 2).H.imag * 2,
    "torch.softmax's own arguments": lambda x: torch.softmax(x, 0, torch.float64),
    "numbers of the shape": lambda x: x.new_full((x.shape[0], 2), x.shape[1]) + x.unflatten(1, (-1, 1)).sum(),
    "a masked tensor function": lambda x: torch.masked._ops.mean(x, 1, mask=x > 0),
    "views by strides": lambda x: x.t().reshape(-1) + x.t().flatten(),
    "in place, composed": lambda x: x.clone().addcmul_(x, x, value=0.5).t_().lerp_(x.t(), 0.25),
}


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchs_code_is_traced(name: str, dtype: Any) -> None:
    function, rng = COMPOSED[name], torch.Generator().manual_seed(1)
    fused = jf.fuse(function)
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 5, generator=rng, dtype=dtype) - 0.5
            kept = x.clone()
            torch.testing.assert_close(fused(x), function(x), check_stride=False, equal_nan=True)
            assert torch.equal(x, kept)
    assert not fused.stats()["fallbacks"], fused.why()


def test_norms_are_limited_in_the_table_itself() -> None:
    f = jf.fuse(lambda table, at: F.embedding(at, table, max_norm=0.5) * 2)
    tables = [torch.linspace(-1, 1, 20).reshape(4, 5) for _ in range(2)]
    at = torch.tensor([0, 3])
    with torch.no_grad():
        assert torch.allclose(f(tables[0], at), F.embedding(at, tables[1], max_norm=0.5) * 2)
    assert torch.allclose(tables[0], tables[1])


@pytest.mark.parametrize("read", [
    lambda x: x.data_ptr() % 2, lambda x: x.untyped_storage().nbytes(), lambda x: x.storage_offset() + x.stride(1),
    lambda x: x._version,
])
def test_what_reads_memory_is_plain_python(read: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return x * read(x)

    f = jf.fuse(function)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (torch.rand(3, 4), torch.rand(6, 4)[1:, 1:]):
            assert torch.equal(f(x), function(x))


@pytest.mark.parametrize("name", ["requires_grad", "grad", "mark", "data"])
def test_attributes_are_set_by_plain_python(name: str) -> None:
    def function(x: Any) -> Any:
        setattr(x, name, None if name == "grad" else x.detach() * 2 if name == "data" else False)
        return x + 1

    f = jf.fuse(function)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            x, y = torch.ones(3), torch.ones(3)
            assert torch.equal(f(x), function(y)) and torch.equal(x, y)
            assert hasattr(x, name)


def test_constants_of_numbers() -> None:
    f = jf.fuse(lambda x, n: (torch.hann_window(n) * x.sum(), torch.hann_window(4), torch.logspace(0, 1, n),
                              torch.tril_indices(n, 3)))
    with torch.no_grad():
        for n in (3, 5, 3):
            x = torch.rand(3)
            results = f(x, n)
            torch.testing.assert_close(results, (
                torch.hann_window(n) * x.sum(), torch.hann_window(4), torch.logspace(0, 1, n),
                torch.tril_indices(n, 3)))
            results[1].zero_()
    assert not f.stats()["fallbacks"], f.why()


def test_another_number_is_not_another_program() -> None:
    f = jf.fuse(lambda x, rate: x.clone().mul_(rate).add_(x, alpha=rate).clamp_(max=rate))
    x = torch.rand(3, 4)
    with torch.no_grad():
        for k in range(5):
            rate = 0.5 + k / 7
            torch.testing.assert_close(f(x, rate), x.clone().mul_(rate).add_(x, alpha=rate).clamp_(max=rate))
    assert f.stats()["traces"] == 1


class _Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = torch.nn.Parameter(torch.ones(3)), torch.ones(3)

    def forward(self, x: Any) -> Any:
        three = self.w, self.b, x
        return x * self.w + torch.tensor([
            sum(isinstance(v, torch.nn.Parameter) for v in three), sum(type(v) is torch.nn.Parameter for v in three),
            sum(type(v) is torch.Tensor for v in three)])


def test_types_are_those_of_plain_python() -> None:
    module, x = _Counting(), torch.rand(3)
    f = jf.fuse(module)
    with torch.no_grad():
        assert torch.equal(f(x), module(x)) and not f.stats()["fallbacks"]


@pytest.mark.parametrize("read", [
    lambda w: w.requires_grad, lambda w: w.grad is not None, lambda w: w.is_leaf, lambda w: w.grad_fn is None])
def test_what_autograd_knows_of_tensors_from_outside(read: Callable[[Any], bool]) -> None:
    w, x = torch.nn.Parameter(torch.ones(3)), torch.rand(3)

    def function(x: Any) -> Any:
        return x * 2 * w if read(w) else x * w

    f = jf.fuse(function)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(f(x), function(x))
        w.grad = torch.ones(3)
        assert torch.equal(f(x), function(x))
        w.requires_grad_(False)
        assert torch.equal(f(x), function(x))


def test_draws_inside_of_torchs_code_are_new_in_each_call() -> None:
    f = jf.fuse(lambda x: F.gumbel_softmax(x, dim=1))
    x = torch.rand(3, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not torch.equal(f(x), f(x))


@pytest.mark.full
def test_no_process_is_lost() -> None:
    command = [sys.executable, str(Path(__file__).parent / "torch_signals.py"), "--every", "80"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0 and ", 0 processes lost" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("function", [F.relu6, F.gelu, F.softmin, np.linalg.norm, np.roll])
def test_a_librarys_function_may_be_fused_and_others_of_its_module_stay_as_they_are(function: Any) -> None:
    x = torch.linspace(-3, 9, 7)
    given = x.numpy() if function in (np.linalg.norm, np.roll) else x
    more = {F.softmin: (0,), np.roll: (2,)}.get(function, ())
    fused, later = jf.fuse(function, strict=True), jf.fuse(lambda a, b: F.mse_loss(a, b) + F.l1_loss(a, b), strict=True)
    assert np.allclose(fused(given, *more), function(given, *more), rtol=1e-6, atol=1e-6)
    assert np.allclose(later(x, x * 2), F.mse_loss(x, x * 2) + F.l1_loss(x, x * 2), rtol=1e-6)
