"""Calls with torch tensors that native code answers: what it tells apart, what it returns, what it leaves to Python."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.backends.llvm.runtime import exchange
from jitfuse.compile import interface as compiler
from jitfuse.errors import FallbackWarning
from jitfuse.fuse import FusedFunction

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.skipif(exchange.exchange() is None, reason="this torch has no exchange table")


@pytest.fixture(autouse=True)
def _runtime() -> None:
    compiler.native_runtime()


def natively(f: FusedFunction, *args: Any, **kwargs: Any) -> Any:
    """Return what a call returns that must not enter Python."""
    def refuse(frame: Any, event: str, arg: Any) -> None:
        raise AssertionError(f"{frame.f_code.co_qualname} ran")

    gc.disable()
    sys.setprofile(lambda frame, event, arg: refuse(frame, event, arg) if event == "call" else None)
    try:
        return f(*args, **kwargs)
    finally:
        sys.setprofile(None)
        gc.enable()


def scaled(x: Any, y: Any) -> Any:
    return x * y + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "float16"])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (1,), ()])
def test_calls_run_no_python(dtype: str, shape: tuple[int, ...]) -> None:
    f = jf.fuse(lambda x: (x * 2, x))
    x = torch.ones(shape, dtype=getattr(torch, dtype))
    f(x)
    got, same = natively(f, x)
    want = x * 2
    assert same is x and got.dtype == want.dtype and torch.equal(got, want)
    assert not x.numel() or got.data_ptr() != x.data_ptr()


def test_modules_and_attributes_run_no_python() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    f = jf.fuse(lambda x: model(x))
    x = torch.rand(3, 5)
    with torch.no_grad():
        f(x)
        for _ in range(3):
            got = f(x)
            assert torch.allclose(got, model(x), atol=1e-6)
            model[0].weight.add_(0.5)
        misses = f.parts.entries.misses
        f(x)
        assert f.parts.entries.misses == misses
        model[2].bias = torch.nn.Parameter(torch.ones(2))
        assert torch.allclose(f(x), model(x), atol=1e-6)
    assert f(x).requires_grad


def test_gradients_are_asked_for_in_each_call() -> None:
    f = jf.fuse(scaled)
    x, y = torch.rand(3), torch.rand(3)
    f(x, y)
    natively(f, x, y)
    y.requires_grad_()
    assert f(x, y).requires_grad
    with torch.no_grad():
        assert torch.equal(natively(f, x, y), scaled(x, y))


def test_kinds_of_arguments_are_told_apart() -> None:
    f = jf.fuse(scaled)
    x, y = torch.rand(3), torch.rand(3)
    a, b = x.numpy(), y.numpy()
    wanted = scaled(a, b)
    for _ in range(3):
        for one, two, kind in ((x, y, torch.Tensor), (a, b, np.ndarray), (x, b, torch.Tensor)):
            got = f(one, two)
            assert isinstance(got, kind) and np.array_equal(np.asarray(got), wanted)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_an_argument_that_nothing_reads() -> None:
    """A tensor among the arguments makes no tensors of NumPy's results."""
    f, g = jf.fuse(lambda x, n: n * 2), jf.fuse(lambda x, n: (x * 2, n.mean(), np.float32(2.0)))
    x, n = torch.rand(3), np.arange(3.0)
    for _ in range(3):
        assert type(f(n, n)) is np.ndarray and type(f(x, n)) is np.ndarray and type(f(n, x)) is torch.Tensor
        assert list(map(type, g(x, n))) == [torch.Tensor, np.float64, np.float32]
    assert "result is NumPy's, in a function that reads torch tensors" in str(f.explain(x, n))


LAYOUTS: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: x.T.contiguous().T, lambda x: x[:, ::2], lambda x: x[1:], lambda x: x[:0],
    lambda x: x[1:2, :1], lambda x: x.expand(2, 4, 6).transpose(0, 2), lambda x: x.double(), lambda x: x.bfloat16(),
    lambda x: torch.nn.Parameter(x), lambda x: x.reshape(-1)[1:].unsqueeze(0),
]


def test_layouts_and_dtypes_are_told_apart() -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1, x.sum(dim=0)

    f = jf.fuse(function)
    whole = torch.arange(24.0).reshape(4, 6)
    with torch.no_grad():
        for _ in range(3):
            for layout in LAYOUTS:
                x = layout(whole)
                for got, want in zip(f(x), function(x), strict=True):
                    assert got.dtype == want.dtype and got.shape == want.shape
                    assert torch.allclose(got.double(), want.double(), rtol=1e-6)
    assert f.stats()["fallbacks"] == 0


def test_negated_and_conjugated_memory() -> None:
    f, g = jf.fuse(lambda x: x * 2), jf.fuse(lambda x: x * 2)
    c = torch.tensor([1 + 2j, 3 - 1j])
    for lazy in (False, True, False, True):
        given = c.conj() if lazy else c
        assert torch.equal(f(given), given * 2)
        part = given.imag
        assert part.is_neg() == lazy and torch.equal(g(part), part * 2)


def test_writes_into_negated_and_conjugated_memory_are_left_to_torch() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x[0] = 7
        x += 1
        return x * 2

    for lazy in (lambda t: t.conj(), lambda t: t.conj().imag):
        want, got = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1 + 2j, 3 - 1j])
        with pytest.warns(FallbackWarning, match="read-only"):
            result = jf.fuse(write)(lazy(got))
        assert torch.equal(result, write(lazy(want))) and torch.equal(got, want)


def test_subclasses_and_unaligned_memory_are_left_to_python() -> None:
    class Own(torch.Tensor):
        pass

    f = jf.fuse(scaled)
    y = torch.rand(3)
    own = torch.rand(3).as_subclass(Own)
    raw = torch.frombuffer(bytearray(20), dtype=torch.uint8)[1:13].numpy().view(np.float32)
    unaligned = torch.from_numpy(raw)
    for x in (y, own, unaligned, y, own, unaligned):
        assert torch.equal(torch.Tensor(f(x, y)), torch.Tensor(scaled(x, y)))
    assert f.stats()["fallbacks"] == 0


def test_views_share_memory_at_their_offset() -> None:
    f = jf.fuse(lambda x: (x[1:, ::2], x))
    whole = torch.arange(40.0).reshape(5, 8)
    for _ in range(3):
        for x in (whole, whole[1:4, 2:6]):
            view, same = f(x)
            assert same is x and torch.equal(view, x[1:, ::2])
            assert view.data_ptr() == x[1:, ::2].data_ptr() and view.untyped_storage().data_ptr() == (
                x.untyped_storage().data_ptr())


def test_writes_reach_the_callers_tensors() -> None:
    def function(x: Any, y: Any) -> Any:
        x += y * 1
        return x.sum()

    f = jf.fuse(function)
    for _ in range(3):
        x, y = torch.rand(4), torch.rand(4)
        mine = x.clone()
        want = function(x, y)
        assert torch.allclose(f(mine, y), want) and torch.equal(mine, x)
    both = torch.rand(8)
    mine = both.clone()
    with pytest.warns(jf.FallbackWarning):
        got = f(mine[:4], mine[2:6])
    assert torch.allclose(got, function(both[:4], both[2:6])) and torch.equal(mine, both)


def test_results_of_all_kinds() -> None:
    def function(x: Any, n: Any) -> Any:
        return {"rank 0": x.mean(), "narrow": x.bfloat16(), "pair": (x.max(dim=0), n), "number": x.shape[0],
                "turned": (x + 1).T, "part": n[1:]}

    f = jf.fuse(function)
    x, n = torch.rand(3, 4), torch.arange(3)
    for _ in range(3):
        got = f(x, n)
        assert torch.allclose(got["rank 0"], x.mean()) and got["rank 0"].shape == ()
        assert got["narrow"].dtype is torch.bfloat16 and torch.equal(got["narrow"], x.bfloat16())
        assert torch.equal(got["pair"][0].values, x.max(dim=0).values) and got["number"] == 3
        assert torch.equal(got["turned"], (x + 1).T)
        assert got["pair"][1] is n and torch.equal(got["part"], n[1:])


def test_results_own_their_memory() -> None:
    f = jf.fuse(lambda x: (x * 2, x.sum()))
    kept = [f(torch.full((100,), float(k))) for k in range(20)]
    gc.collect()
    for k, (many, total) in enumerate(kept):
        assert torch.equal(many, torch.full((100,), 2.0 * k)) and total == 100.0 * k
        many.add_(1)


@pytest.mark.usefixtures("still")
def test_nothing_is_kept() -> None:
    f = jf.fuse(scaled)
    x, y = torch.rand(3), torch.rand(3)
    for _ in range(3):
        f(x, y)
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(torch.Tensor), sys.getrefcount(False)
    for _ in range(1000):
        f(x, y)
    after = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(torch.Tensor), sys.getrefcount(False)
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True))


def test_keywords_and_modes() -> None:
    f = jf.fuse(lambda x, *, scale: x * scale + (1 if jf.is_training() else 0))
    x, scale = torch.rand(3), torch.rand(3)
    for _ in range(3):
        assert torch.equal(f(x, scale=scale), x * scale)
        assert torch.equal(f(x, scale=scale, training=True), x * scale + 1)


def test_without_an_exchange_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older torch: arguments are read through NumPy."""
    monkeypatch.setattr("jitfuse.function.adapters.exchange", lambda: None)
    weights = torch.arange(3.0)
    f, g = jf.fuse(scaled), jf.fuse(lambda x: weights * x)
    x, y = torch.rand(3), torch.rand(3)
    for _ in range(3):
        assert torch.equal(f(x, y), scaled(x, y)) and torch.equal(g(x), x * weights)
        assert isinstance(g(np.ones(3, "float32")), torch.Tensor)


def test_more_signatures_than_are_kept() -> None:
    f = jf.fuse(scaled, budget=jf.Budget(subgraphs=3))
    for _ in range(3):
        for n in range(1, 9):
            x = torch.rand(n)
            assert torch.equal(f(x, x + 1), scaled(x, x + 1))
            assert np.array_equal(f(np.ones(n), np.ones(n)), np.full(n, 2.0))
