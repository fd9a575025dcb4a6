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


@pytest.mark.filterwarnings("error::jitfuse.FallbackWarning")
def test_each_shape_is_traced_once() -> None:
    f = jf.fuse(lambda x, c: torch.tanh(x) * c)
    for n in (3, 4, 5) * 3:
        x, c = torch.randn(n, requires_grad=True), torch.randn(n)
        f(x, c).sum().backward()
        torch.testing.assert_close(x.grad, (1 - torch.tanh(x.detach()) ** 2) * c)
    (forward,) = f.parts.gradients._forward.values()  # type: ignore[union-attr]
    assert forward[1].stats()["traces"] == 3


def test_modules_themselves_after_calls_without_gradients() -> None:
    net, x = nn.Linear(3, 2), torch.ones(1, 3)
    f = jf.fuse(net)
    with torch.no_grad():
        for _ in range(3):
            assert not f(x).requires_grad
    f(x).sum().backward()
    torch.testing.assert_close(net.weight.grad, torch.ones(2, 3))
    net.weight = nn.Parameter(torch.zeros(2, 3))
    f(x).sum().backward()
    torch.testing.assert_close(net.weight.grad, torch.ones(2, 3))


def test_launches_from_python_return_the_parameters_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitfuse.compile.native_entries.is_supported", False)
    net, w = nn.Linear(3, 2), torch.ones(3, requires_grad=True)
    jf.fuse(net)(torch.ones(1, 3)).sum().backward()
    assert net.weight.grad is not None
    jf.fuse(lambda x: (x * w).sum())(torch.ones(3)).backward()
    assert torch.equal(w.grad, torch.ones(3))


def test_buffers_that_the_function_writes() -> None:
    def f(x: Any, b: Any) -> Any:
        before = b * 1.0
        b.mul_(3)
        return torch.sin(x * before)

    fused, b, c = jf.fuse(f), torch.full((3,), 2.0), torch.full((3,), 2.0)
    for _ in range(3):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        fused(x, b).sum().backward()
        f(y, c).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(b, c)


def test_results_without_a_graph() -> None:
    def f(x: Any, c: Any) -> Any:
        y = x * 2
        with torch.no_grad():
            m = y.sum()
        return y.sum(), (y * y).mean().detach(), m, c * 2, torch.ones(2), y.floor(), y.sum() * 0 + y.argmax()

    x = torch.randn(3, requires_grad=True)
    found, want = jf.fuse(f)(x, torch.ones(3)), f(x, torch.ones(3))
    assert [r.requires_grad for r in found] == [r.requires_grad for r in want]


def test_what_no_cotangent_reaches_has_no_gradient() -> None:
    def f(x: Any, w: Any) -> Any:
        return x * w, torch.sin(x @ x), w.exp()

    for function in (jf.fuse(f), f):
        for pick, has in ((0, (True, True)), (1, (True, False)), (2, (False, True))):
            x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
            function(x, w)[pick].sum().backward()
            assert (x.grad is not None, w.grad is not None) == has


def test_second_derivatives_of_arguments_that_depend_on_each_other() -> None:
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    arguments = jf.fuse(lambda x, y: x * y * torch.sin(x))
    names = jf.fuse(lambda y: w * y * torch.sin(y))
    for function, leaf, args in (
            (arguments, x, lambda: (x, x * 2)), (names, w, lambda: (w * w,)), (arguments, x, lambda: (x, x))):
        found = []
        for f in (function, function.__wrapped__):
            (g,) = torch.autograd.grad(f(*args()).sum(), leaf, create_graph=True)
            found += [g.detach(), *torch.autograd.grad(g.sum(), leaf)]
        torch.testing.assert_close(found[:2], found[2:])


def test_calls_that_cannot_be_compiled_later_on() -> None:
    def f(x: Any, how: str = "") -> Any:
        if how == "if" and x.sum() > 0:
            return x * 3
        return x[:2] if how == "view" else x * 2

    fused = jf.fuse(f)
    for how in ("", "if", "", "view", ""):
        x = torch.ones(3, requires_grad=True)
        if how:
            with pytest.warns(jf.FallbackWarning):
                found = fused(x, how)
        else:
            found = fused(x)
        found.sum().backward()
        y = torch.ones(3, requires_grad=True)
        f(y, how).sum().backward()
        assert torch.equal(x.grad, y.grad)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_after_three_tries_calls_are_plain() -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append(type(x))
        return x * 3 if x.sum() > 0 else x * 2

    fused, x = jf.fuse(f), torch.ones(3, requires_grad=True)
    for _ in range(4):
        fused(x)
    runs.clear()
    fused(x)
    assert runs == [torch.Tensor]


def test_autocast_around_a_function() -> None:
    net, x = nn.Linear(3, 2), torch.ones(1, 3)
    f = jf.fuse(lambda x: net(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.warns(jf.FallbackWarning, match="autocast"):
            assert f(x).dtype == torch.bfloat16
        assert [f(x).dtype for _ in range(5)] == [torch.bfloat16] * 5
    before = f.stats()["fallbacks"]
    assert f(x).dtype == torch.float32 and f.stats()["fallbacks"] == before


@pytest.mark.filterwarnings("error::jitfuse.FallbackWarning")
def test_backward_passes_are_dropped_with_signatures() -> None:
    f = jf.fuse(lambda x: x * 2, budget=jf.Budget(subgraphs=2))
    for n in (*range(1, 14), 1, 13, 2):
        x = torch.ones(n, requires_grad=True)
        f(x).sum().backward()
        assert torch.equal(x.grad, torch.full((n,), 2.0))
    assert len(f.parts.gradients._backward) <= 9  # type: ignore[union-attr]


def test_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = jf.fuse(lambda x: x * 2), torch.ones(3, requires_grad=True)
    f(x)
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    f(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_prints_come_in_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("here")
        return x * 2

    fused = jf.fuse(f)
    for _ in range(4):
        fused(torch.ones(3, requires_grad=True)).sum().backward()
    assert capsys.readouterr().out == "here\n" * 4


@pytest.mark.filterwarnings("error::jitfuse.FallbackWarning")
def test_arguments_over_the_same_memory_and_empty_ones() -> None:
    x = torch.randn(3, requires_grad=True)
    f = jf.fuse(lambda x, y: x * y)
    f(x, x.detach()).sum().backward()
    assert torch.equal(x.grad, x.detach())
    x.grad = None
    f(x.view(3), x.view(3)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    empty = torch.randn(0, requires_grad=True)
    f(empty, torch.randn(0)).sum().backward()
    assert empty.grad.shape == (0,)
    first, second = jf.fuse(lambda x: (lambda y: (y, y))(x * 2))(x)
    assert first is second


def test_conjugated_arguments() -> None:
    def f(z: Any) -> Any:
        return (z * (2 + 1j)).imag.sum()

    z = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    with pytest.warns(jf.FallbackWarning, match="lazily conjugated"):
        (found,) = torch.autograd.grad(jf.fuse(f)(z.conj()), z)
    torch.testing.assert_close(found, torch.autograd.grad(f(z.conj()), z)[0])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.filterwarnings("error::jitfuse.FallbackWarning")
def test_torchs_checkpoint(reentrant: bool) -> None:
    f = jf.fuse(lambda x, w: torch.tanh(x @ w))
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    torch.utils.checkpoint.checkpoint(f, x, w, use_reentrant=reentrant).sum().backward()
    want = torch.autograd.grad(torch.tanh(x @ w).sum(), (x, w))
    torch.testing.assert_close((x.grad, w.grad), want)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_derivatives_of_ones_own_hold_in_plain_python() -> None:
    @jf.custom_vjp
    def rounded(x: Any, n: Any) -> Any:
        return {"y": torch.round(x), "n": n}

    rounded.defvjp(lambda x, n: ({"y": torch.round(x), "n": n}, n), lambda n, g: (g["y"] * n, None))

    @jf.custom_jvp
    def scaled(x: Any) -> Any:
        return x * 1

    scaled.defjvp(lambda xs, ts: (xs[0] * 1, ts[0] * 5))

    def breaks(x: Any) -> Any:
        return rounded(x * 3, 2)["y"] + scaled(x * 3) if x.sum() < 1e9 else x

    def same(x: Any) -> Any:
        return rounded(x * 3, 2)["y"] + scaled(x * 3)

    for function in (breaks, same, jf.fuse(breaks), jf.fuse(same)):
        x = torch.randn(3, requires_grad=True)
        function(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 21.0))


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
