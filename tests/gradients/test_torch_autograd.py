"""Fused functions of tensors that require gradients are nodes of torch's graph, with compiled passes."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
nn, F = torch.nn, torch.nn.functional


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) * self.scale
        return x


def _convolutions() -> Any:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(16, 3))


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...], Any]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), (4, 5), None),
    "batch_norm": (lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3)), (4, 5), None),
    "convolutions": (_convolutions, (2, 3, 4, 4), None),
    "layer_norm": (lambda: nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 3), nn.Softmax(-1)), (4, 5), None),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (2, 3, 4), None),
    "lstm": (lambda: nn.LSTM(4, 3, batch_first=True), (2, 3, 4), lambda net, x: net(x)[0].pow(2).mean()),
    "embedding": (lambda: nn.Embedding(9, 4), (3, 2), lambda net, x: net(x.abs().long().clamp(max=8)).pow(2).sum()),
    "residual": (Residual, (3, 4), None),
    "classes": (lambda: nn.Linear(4, 3), (5, 4), lambda net, x: F.cross_entropy(net(x), torch.tensor([0, 1, 2, 0, 1]))),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_as_in_torch(name: str) -> None:
    make, shape, loss = NETWORKS[name]
    torch.manual_seed(0)
    net = make()
    plain, loss = copy.deepcopy(net), loss or (lambda net, x: net(x).pow(2).mean())
    fused = jf.fuse(lambda x: loss(net, x))
    steps = [torch.optim.SGD(module.parameters(), 0.05) for module in (net, plain)]
    for _ in range(3):
        x = torch.randn(shape)
        for step, value in zip(steps, (lambda x: fused(x), lambda x: loss(plain, x)), strict=True):
            step.zero_grad()
            value(x).backward()
            step.step()
    for (key, found), want in zip(net.state_dict().items(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5, msg=key)


def test_arguments_and_results_of_all_kinds() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = jf.fuse(lambda x: {"double": x * 2, "best": x.argmax(), "x": x, "none": None, "k": "k", "pair": (x.sum(), 3)})
    found = f(x)
    assert found["x"] is x and found["none"] is None and found["k"] == "k" and found["pair"][1] == 3
    assert found["double"].requires_grad and not found["best"].requires_grad
    (found["double"].sum() + found["pair"][0] + found["x"].sum()).backward()
    assert torch.equal(x.grad, torch.full((3,), 4.0))
    same = jf.fuse(lambda x: x)
    assert same(x) is x


def test_frozen_parameters_and_their_thaw() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    net[0].requires_grad_(False)
    f, x = jf.fuse(lambda x: net(x).pow(2).sum()), torch.randn(3, 4)
    f(x).backward()
    assert [p.grad is None for p in net.parameters()] == [True, True, False, False]
    net[0].requires_grad_(True)
    f(x).backward()
    assert not any(p.grad is None for p in net.parameters())


def test_second_derivatives() -> None:
    x = torch.randn(3, requires_grad=True)
    f = jf.fuse(lambda x: torch.sin(x) * x.exp())
    for function in (f, f.__wrapped__):
        (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        torch.testing.assert_close(h, (2 * torch.cos(x) * x.exp()).detach())


def test_gradcheck() -> None:
    a, b = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(jf.fuse(lambda a, b: torch.tanh(a @ b).cumsum(0)), (a, b))
    assert torch.autograd.gradgradcheck(jf.fuse(lambda a, b: torch.tanh(a @ b).cumsum(0)), (a, b))


def test_torchs_rules_hold() -> None:
    f = jf.fuse(lambda x: x.pow(3).sum())
    x = torch.randn(3, requires_grad=True)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() ** 2)
    with torch.no_grad():
        assert not f(x).requires_grad
    with torch.inference_mode():
        assert not f(x).requires_grad
    moved = x * 1
    y = f(moved)
    with torch.no_grad():
        moved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    x.grad = None
    y = f(x * 2)
    y.register_hook(lambda g: g * 10)
    y.backward()
    torch.testing.assert_close(x.grad, 240 * x.detach() ** 2)


def test_the_results_that_backward_needs_are_watched() -> None:
    x = torch.randn(3, requires_grad=True)
    y = jf.fuse(lambda x: x.exp())(x)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_plain_python_where_there_are_no_such_passes() -> None:
    x = torch.randn(3, requires_grad=True)

    def writes(x: Any) -> Any:
        y = x * 1
        z = jf.fuse(lambda v: v.mul_(2).sum())(y)
        return z + y.sum()

    (found,) = torch.autograd.grad(writes(x), x)
    torch.testing.assert_close(found, torch.full((3,), 4.0))
    (found,) = torch.autograd.grad(jf.fuse(lambda x: x[:2] if x.sum() > 100 else x * 2)(x).sum(), x)
    torch.testing.assert_close(found, torch.full((3,), 2.0))
    torch.testing.assert_close(torch.func.grad(jf.fuse(lambda x: x.pow(2).sum()))(torch.ones(3)), torch.full((3,), 2.0))


def test_dropout_uses_the_same_elements_in_both_passes() -> None:
    x = torch.ones(1000, requires_grad=True)
    f = jf.fuse(lambda x, training=False: F.dropout(x, 0.5, training) * 3)
    y = f(x, training=True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and set(y.tolist()) == {0.0, 6.0}
    x.grad = None
    f(x).sum().backward()
    assert torch.equal(x.grad, torch.full((1000,), 3.0))


def test_grad_of_torch_in_torchs_graph() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    gradient = jf.grad(lambda x, w: (x**2 * w).sum())
    x = torch.tensor([3.0, 4.0])
    gradient(x, w).sum().backward()
    torch.testing.assert_close(w.grad, 2 * x)
