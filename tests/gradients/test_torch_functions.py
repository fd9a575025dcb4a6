"""jf.grad of torch functions: torch's own subgradients, constants and in-place rules, against its autograd."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional
TIES = torch.tensor([[1.0, 1, 0, 1, 0], [2, 2, 2, 0, 1], [0, 1, 0, 1, 2], [1, 1, 2, 2, 0]])
AT = torch.tensor([1, 0, 2, 2, 3])


def without_gradients(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2 + F.relu(x)
    return (y * x).sum()


def limited_without_gradients(x: Any) -> Any:
    y = x * 3
    with torch.no_grad():
        y.clamp_(min=1.5)  # torch's graph stays that of y before
    return (y * x).sum()


def in_place(x: Any) -> Any:
    y = x * 2
    y[1] += x[0] * x[2]
    y.mul_(x)
    y[:, 0] = x[:, 1].sin()
    y.relu_()
    return y.pow(2).sum()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "detach": lambda x: (x * x.detach()).sum(), "data": lambda x: (x * x.data).sum(), "no_grad": without_gradients,
    "in place under no_grad": limited_without_gradients, "in place": in_place,
    "straight through": lambda x: (x.round() - x.detach() + x).pow(2).sum(),
    "max of an axis": lambda x: (x.max(dim=1).values * x.amax(0)[:4]).sum() + x.max(),
    "min of an axis": lambda x: x.min(dim=0)[0].pow(2).sum(), "median": lambda x: x.median() * 3,
    "median of an axis": lambda x: x.median(dim=1).values.pow(2).sum(),
    "clamp": lambda x: x.clamp(0, 1).sum() + x.clamp(min=torch.zeros(5)).pow(2).sum(),
    "padding of an embedding": lambda x: F.embedding(AT, x, padding_idx=2).pow(2).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_torchs(name: str) -> None:
    f, x = FUNCTIONS[name], TIES.clone().requires_grad_()
    f(x).backward()
    torch.testing.assert_close(jf.grad(f)(TIES), x.grad)


def test_writes_into_arrays_from_outside_happen_once() -> None:
    log, x = np.zeros(3), np.array([1.0, 2.0, 3.0])

    def loss(x: Any) -> Any:
        log[:] = x * 2
        log[0] += 1
        return np.sum(x * log)

    value, gradient = jf.value_and_grad(loss)(x)
    assert value == 29 and np.array_equal(gradient, [5, 8, 12]) and np.array_equal(log, [3, 4, 6])


def test_running_statistics_move_once() -> None:
    norm, plain = (torch.nn.BatchNorm1d(3, affine=False) for _ in range(2))
    x = torch.randn(5, 3)
    found = jf.grad(lambda x: (norm(x) * torch.arange(3.0)).pow(3).sum())(x)
    x.requires_grad_()
    (plain(x) * torch.arange(3.0)).pow(3).sum().backward()
    torch.testing.assert_close(found, x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_mean, plain.running_mean)
    assert norm.num_batches_tracked == 1


@pytest.mark.parametrize("training", [True, False])
def test_modules_with_other_parameters(training: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Tanh()).double()
    model.train(training)
    before = {name: x.detach().clone() for name, x in model.state_dict().items()}

    def loss(parameters: Any, buffers: Any, x: Any) -> Any:
        return (torch.func.functional_call(model, (parameters, buffers), (x,)) ** 3).sum()

    gradient, fused = jf.grad(loss), jf.fuse(loss)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(5, 4, dtype=torch.float64)
        parameters = {name: torch.randn_like(p) for name, p in model.named_parameters()}
        ours, theirs = ({name: b.clone() for name, b in model.named_buffers()} for _ in range(2))
        torch.testing.assert_close(fused(parameters, dict(ours), x), loss(parameters, dict(theirs), x))
        expected = torch.func.grad(loss)(parameters, theirs, x)
        torch.testing.assert_close(gradient(parameters, ours, x), expected)
        torch.testing.assert_close(ours, theirs)
    assert fused.stats()["fallbacks"] == 0
    for name, x in model.state_dict().items():
        torch.testing.assert_close(x, before[name], rtol=0, atol=0)


def test_a_checkpoint_without_gradients() -> None:
    def loss(x: Any) -> Any:
        with torch.no_grad():
            y = jf.checkpoint(torch.sin)(x)
        return (y * jf.checkpoint(torch.exp)(x)).sum()

    x = torch.tensor([0.3, 0.5], dtype=torch.float64)
    torch.testing.assert_close(jf.grad(loss)(x), x.sin() * x.exp())


def test_functions_whose_decompositions_choose_by_zero() -> None:
    """Where torch's own decompositions take a constant, or the size of x, for x = 0, their derivatives lose it."""
    y = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    for function in (
        lambda x: torch.special.xlog1py(x, y).sum(), lambda x: torch.special.xlog1py(x, 2.0 * x).sum(),
        lambda x: torch.nn.functional.multilabel_soft_margin_loss(x, y / 2),
        lambda x: torch.nn.functional.logsigmoid(x).sum(),
    ):
        x = torch.tensor([0.0, 1.0, -0.0], dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        second = torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else torch.zeros(3)
        torch.testing.assert_close(jf.grad(function)(x.detach()), first.detach())
        found = jf.grad(lambda x, f=function: jf.grad(f)(x).sum())(x.detach())
        torch.testing.assert_close(found, second.to(found.dtype))


@pytest.mark.parametrize("function", [
    lambda x: F.relu6(x), lambda x: F.hardtanh(x), lambda x: F.hardtanh(x * 1, -0.5, 3, inplace=True),
    lambda x: F.relu6(x * 1, inplace=True),
])
def test_bounded_activations_are_flat_at_their_bounds(function: Callable[..., Any]) -> None:
    x = torch.tensor([-3.0, -1, -0.5, 0, 0.5, 1, 3, 6, 7, np.nan], requires_grad=True)
    (want,) = torch.autograd.grad(function(x).sum(), x)
    assert torch.equal(jf.grad(lambda x: function(x).sum())(x.detach()), want)
    jf.fuse(function)(x).sum().backward()
    assert torch.equal(x.grad, want)
