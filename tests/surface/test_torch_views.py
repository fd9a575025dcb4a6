"""Results that share memory with arguments in torch share it in fused functions, and the others do not."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

TRACED = (
    lambda x: x[1, 2], lambda x: x[-1, -2], lambda x: x[1, 2, None], lambda x: x.select(0, 1).select(0, 2),
    lambda x: x[0].unbind()[3], lambda x: list(x[2])[1], lambda x: x.view(-1)[5], lambda x: x.diagonal(),
    lambda x: x.diagonal(1), lambda x: x.diagonal(-2), lambda x: torch.diagonal(x.view(2, 2, 6), 1, 0, 2),
    lambda x: x.t().diagonal(7), lambda x: x.expand(4, 6), lambda x: x.expand(-1, -1), lambda x: x.expand_as(x),
    lambda x: torch.broadcast_tensors(x, x)[1], lambda x: x.unfold(0, 2, 2), lambda x: x.unfold(1, 2, 3),
    lambda x: x.unfold(0, 1, 1), lambda x: x.unfold(-1, 6, 9), lambda x: x.unfold(1, 3, 3).unfold(0, 2, 2),
    lambda x: x.view(-1).unfold(0, 0, 1), lambda x: torch.einsum("ij->ji", x), lambda x: F.dropout(x, 0.5, False),
    lambda x: F.pixel_shuffle(x.view(1, 1, 4, 6), 1), lambda x: F.unfold(x.view(1, 1, 4, 6), 1),
    lambda x: F.pixel_unshuffle(x.view(1, 1, 4, 6), 1), lambda x: F.adaptive_avg_pool1d(x, 6),
    lambda x: torch.channel_shuffle(x.view(1, 4, 6, 1), 1), lambda x: x.reshape(-1), lambda x: x.t().reshape(-1),
)
PLAIN = (
    lambda x: x.unfold(0, 3, 1), lambda x: x.view(-1).unfold(0, 2, 23), lambda x: torch.einsum("ii->i", x[:, :4]),
    lambda x: torch.view_as_real(torch.complex(x, x)), lambda x: torch.view_as_complex(x.view(4, 3, 2)),
    lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0], lambda x: x[0].expand(3, 6),
)
"""Views into which a write is not traced."""


def _written(part: Callable[[Any], Any], into: str) -> Callable[..., Any]:
    """Return a function that writes into a part of its argument, or into the argument that has a part."""
    def f(x: Any, own: bool) -> Any:
        x = x * 1 if own else x
        y = part(x)
        if into == "part":
            y.add_(100)
        else:
            x.mul_(2)
        return y.real * 1 if y.is_complex() else y * 1, x.sum(), x * 1

    return f


def _x() -> Any:
    return torch.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(("part", "into", "own"), amount.crossed(
    2, TRACED + PLAIN, ["part", "whole"], [False, True]))
def test_writes_are_seen_where_memory_is_shared(part: Any, into: str, own: bool) -> None:
    function = _written(part, into)
    plain, ours = _x(), _x()
    try:
        expected = function(plain, own)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)[:30]):
            jf.fuse(function)(ours, own)
        return
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore" if part in PLAIN else "error"):
        for _ in range(2):
            ours = _x()
            assert all(map(torch.equal, (*fused(ours, own), ours), (*expected, plain)))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 7), (2, 5, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool])
def test_windows(shape: tuple[int, ...], dtype: Any) -> None:
    x = (torch.arange(float(np.prod(shape))) % 3).reshape(shape).to(dtype)

    def f(x: Any) -> Any:
        made = []
        for axis, size, step in ((-1, 1, 1), (-1, 3, 2), (1, 2, 1), (0, 1, 3), (-1, 0, 2)):
            if size <= x.shape[axis]:
                w = x.unfold(axis, size, step)
                made += [w, w.sum(-1), w.transpose(0, -1) * 1]
        return made

    for given in (x, x.transpose(-1, 0).contiguous().transpose(-1, 0)):
        for got, want in zip(jf.fuse(f)(given), f(given), strict=True):
            assert got.dtype is want.dtype and torch.equal(got, want)


def test_windows_of_a_number() -> None:
    assert torch.equal(jf.fuse(lambda x: x.unfold(0, 1, 1) + 1)(torch.tensor(2.0)), torch.tensor([3.0]))


def test_elements_of_arrays_stay_what_they_were() -> None:
    def f(x: Any, a: Any) -> Any:
        here, there = x[1], a[1]
        x[1] = 7
        a[1] = 7
        return here + 0, torch.zeros(()) + float(there)

    for function in (f, jf.fuse(f)):
        assert [float(v) for v in function(torch.ones(3), np.ones(3))] == [7.0, 1.0]


def test_plain_python_gets_the_tensors_themselves() -> None:
    class Marked(torch.Tensor):
        pass

    def f(x: Any, more: Any) -> Any:
        x.resize_(3, 4)
        return x, type(more["m"]), x.storage_offset()

    fused = jf.fuse(f)
    for _ in range(2):
        x = torch.arange(12.0)
        with warnings.catch_warnings(action="ignore"):
            same, kind, _ = fused(x, {"m": torch.ones(2).as_subclass(Marked)})
        assert same is x and x.shape == (3, 4) and kind is Marked


def test_windows_of_arrays_show_what_is_written_later() -> None:
    def f(x: Any) -> Any:
        w = np.lib.stride_tricks.sliding_window_view(x, 3)
        v = np.lib.stride_tricks.sliding_window_view(x[:8].reshape(2, 4), (2, 2))[:, ::2]
        x[2:4] = 50
        d = np.einsum("ii->i", x[:9].reshape(3, 3))
        return w.sum(axis=1), w[::2] * 2, v + 1, d

    fused = jf.fuse(f)
    for _ in range(2):
        x, y = np.arange(9.0), np.arange(9.0)
        for got, want in zip(fused(x), f(y), strict=True):
            assert got.shape == want.shape and np.array_equal(got, want)
        assert np.array_equal(x, y) and fused.stats()["fallbacks"] == 0


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 2), "permuted": lambda x: x.permute(2, 0, 1), "stepped": lambda x: x[:, ::2],
    "expanded": lambda x: x[:, :1].expand(3, 4, 5), "of one": lambda x: x[:, :1].transpose(0, 2),
}
KEEPING = {
    "a number": lambda x: x * 2, "the second decides": lambda x: x + x.contiguous(),
    "the first decides": lambda x: x.contiguous() + x, "a row": lambda x: x + torch.arange(x.shape[-1]),
    "a column": lambda x: x * x[:, :1], "cast": lambda x: x.double(), "clone": lambda x: x.clone(),
    "where": lambda x: torch.where(x > 0.5, x, 0.0), "masked_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "sort": lambda x: x.sort(0).values, "flip": lambda x: x.flip(0), "zeros_like": torch.zeros_like,
    "sum": lambda x: x.sum(0), "softmax": lambda x: x.softmax(-1), "cumsum": lambda x: x.cumsum(0),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), "cat": lambda x: torch.cat([x, x]),
    "matmul": lambda x: x @ x.transpose(-1, -2), "celu": torch.nn.functional.celu,
}


@pytest.mark.parametrize(("name", "layout"), amount.crossed(2, KEEPING, LAYOUTS))
def test_results_have_torchs_strides(name: str, layout: str) -> None:
    function, x = KEEPING[name], LAYOUTS[layout](torch.rand(3, 4, 5))

    def strides(t: Any) -> list[int]:
        return [s for s, n in zip(t.stride(), t.shape, strict=True) if n != 1]

    def part_written(x: Any) -> Any:
        made = function(x)
        made.reshape(-1)[0] = 7  # a view or a copy, by the strides
        return made

    with torch.no_grad():
        assert strides(jf.fuse(function)(x)) == strides(function(x))
        torch.testing.assert_close(jf.fuse(part_written)(x), part_written(x), check_stride=False)
