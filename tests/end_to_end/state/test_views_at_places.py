"""Results that are views of arguments at places of data: the same memory as in NumPy and torch, in every call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from amount import crossed
from oracle import outcome, same, same_outcome

import jitfuse as jf


class Kept:
    """An object of the caller's."""

    def __init__(self) -> None:
        self.row: Any = None
        self.table = np.arange(20.0).reshape(5, 4)


class Two(NamedTuple):
    """A result with names."""

    row: Any
    rest: Any


def written_first(a: Any, p: Any) -> Any:
    """Write into the view that is returned."""
    row = a[p[0]]
    row += 1
    a[p[1]] = 7
    return row


def looking(a: Any, p: Any) -> Any:
    """Return views from segments of a program that is split."""
    row = a[p[2]]
    if a[0, 0] > 0.5:
        return row, a[p[0]] * 2
    return a[p[1]][1:], row


def collected(a: Any, p: Any) -> Any:
    """Return several views in a list and a dict."""
    rows = [a[p[k]] for k in range(3)]
    return {"rows": rows, "sum": sum(rows)}


def of_minimum(a: Any, p: Any) -> Any:
    """Return the row of the smallest first element."""
    return a[np.argmin(a[:, 0])]


def kept(a: Any, p: Any, owner: Any) -> Any:
    """Keep a view in an object, and return one of its own array."""
    owner.row = a[p[0]]
    return owner.table[p[1]]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "a row": lambda a, p: a[p[0]],
    "a column": lambda a, p: a[:, p[0]],
    "by an int": lambda a, p: a[int(p[0])],
    "a part": lambda a, p: a[p[0], 1:],
    "a part of a row": lambda a, p: a[p[0]][::-2],
    "under another shape": lambda a, p: Two(a[p[0]].reshape(2, 2), a.T[p[1]]),
    "a row of rows": lambda a, p: a[1:][p[0]],
    "at two places": lambda a, p: a.reshape(5, 2, 2)[p[0], :, p[1] % 2],
    "a transposed block": lambda a, p: a.reshape(5, 2, 2)[p[0]].T,
    "an array of rank 0": lambda a, p: a[p[0], p[1], ...],
    "a number": lambda a, p: (a[p[0], p[1]], float(a[p[0], 0])),
    "a mixed number beside": lambda a, p: (max(0.5, a[0, 0]), a[p[0]]),
    "written first": written_first, "looking": looking, "collected": collected, "of a minimum": of_minimum,
    "without axes left": lambda a, p: a[p[0]][p[1]],
    "a copy": lambda a, p: (a[p[0]].copy(), a[p[:2]], a[p[0]] + 0),
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda a: a, "transposed": lambda a: np.asfortranarray(a), "backwards": lambda a: a[::-1, ::-1],
    "with gaps": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3], "single": lambda a: a.astype("f4"),
    "whole": lambda a: (a * 10).astype("i2"), "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else [value]


def _check(got: Any, want: Any, ours: list[Any], plain: list[Any]) -> None:
    same_outcome(got, want)
    if isinstance(want, Exception):
        return
    for a, b in zip(_leaves(got), _leaves(want), strict=True):
        if isinstance(b, np.ndarray):
            assert [np.shares_memory(a, x) for x in ours] == [np.shares_memory(b, x) for x in plain]
            assert a.flags.writeable == b.flags.writeable
    for a, b in zip(_leaves(got), _leaves(want), strict=True):
        if isinstance(b, np.ndarray) and b.flags.writeable:
            a += 3
            b += 3
    same(ours, plain)


def _arguments(seed: int, layout: str) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [LAYOUTS[layout](draw.random((5, 4))), draw.integers(-4, 4, 6)]


@pytest.mark.parametrize(("name", "layout"), crossed(2, FUNCTIONS, LAYOUTS))
def test_numpy(name: str, layout: str) -> None:
    f = FUNCTIONS[name]
    fused = jf.fuse(f)
    for seed in range(5):
        ours, plain = _arguments(seed, layout), _arguments(seed, layout)
        _check(outcome(fused, *ours), outcome(f, *plain), ours, plain)


def test_an_index_out_of_bounds_raises() -> None:
    fused = jf.fuse(lambda a, p: a[p[0]])
    a = np.arange(6.0).reshape(3, 2)
    for p in (2, -3, 3, -4, 0):
        if -3 <= p < 3:
            assert np.shares_memory(fused(a, np.array([p])), a[p])
        else:
            with pytest.raises(IndexError):
                fused(a, np.array([p]))


def test_both_modes() -> None:
    @jf.fuse
    def f(a: Any, p: Any, training: bool = False) -> Any:
        return a[p[0]] if training else a[p[1]]

    a, p = np.arange(20.0).reshape(5, 4), np.array([3, 1])
    for _ in range(3):
        assert np.shares_memory(f(a, p, training=True), a[3])
        assert np.shares_memory(f(a, p), a[1])


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_views_that_objects_keep() -> None:
    fused = jf.fuse(kept)
    for seed in range(4):
        owners = Kept(), Kept()
        ours, plain = _arguments(seed, "in order"), _arguments(seed, "in order")
        _check(fused(*ours, owners[0]), kept(*plain, owners[1]), [*ours, owners[0].table], [*plain, owners[1].table])
        assert np.shares_memory(owners[0].row, ours[0])


def test_torch() -> None:
    torch: Any = pytest.importorskip("torch")

    def numbers(a: Any, p: Any) -> Any:
        one, row = a[p[0], p[1] % 3], a[p[2]]
        one += 1
        row *= 2
        a[p[3]] = a[p[4]]
        return one, row, a[..., p[0]], a[p[1]][1:], a.t()[p[2]], a.reshape(5, 2, 2)[p[0]].t(), a.sum()

    def selected_first(a: Any, p: Any) -> Any:
        b, i, mask = a[None].repeat(2, 1, 1), torch.tensor([0, 1, 0]), torch.tensor([True, False, True, True])
        b[0, :, i] = 1
        b[:, p[0] % 2, mask] = 2
        b[1, i, p[1] % 3] += 5
        return (b, b[0, :, mask], b[..., 0, mask], b[0, [0, 1], 1:], b[None, 0, :, i], b[1, ..., i], b[0, b[0] > 0.5],
                b[-1, [1, 2], None, p[0] % 2], b[i, :, 0], b[i, 0], b[:, i, 0])

    def swapped(a: Any, p: Any) -> Any:
        for k in range(3):
            a[k], a[p[k]] = a[p[k]], a[k]
        return a, a[:, 0][p[0]]

    for f in (numbers, selected_first, swapped):
        fused = jf.fuse(f)
        for seed in range(4):
            ours, plain = ([torch.from_numpy(x) for x in _arguments(seed, "in order")] for _ in range(2))
            for _ in range(2):
                got, want = fused(*ours), f(*plain)
                torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
                for a, b in zip(got, want, strict=True):
                    a += 1
                    b += 1
                torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)
