"""Decompositions of rearrangements into slices, joins, masks and broadcasts, over AbstractTensor methods.

Kernels read such programs as index maps and masks, without copies. Each function takes tensors and the operator's
attributes, like the operator's method. Does not own padding (`jitfuse.ir.decompositions.padding`).
"""
from __future__ import annotations

from typing import Any

Tensor = Any


def cut(x: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
    """Return `count` elements of one axis from `start` on, and all elements of the other axes."""
    starts = tuple(start if k == axis and count else 0 for k in range(x.ndim))
    steps = tuple(step if k == axis else 1 for k in range(x.ndim))
    counts = tuple(count if k == axis else n for k, n in enumerate(x.shape))
    return x.call("slice", starts=starts, steps=steps, counts=counts)


def join(parts: list[Tensor], axis: int) -> Tensor:
    """Join non-empty parts of one dtype along an axis."""
    full = [p for p in parts if p.shape[axis]] or parts[:1]
    return full[0] if len(full) == 1 else full[0].call("concat", *full[1:], axis=axis)


def roll(x: Tensor, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """Move elements along axes, around the end. Several shifts of one axis add up."""
    for axis in sorted({a % x.ndim for a in axes}):
        n = x.shape[axis]
        shift = sum(s for s, a in zip(shifts, axes, strict=True) if a % x.ndim == axis) % n if n else 0
        x = join([cut(x, axis, n - shift, shift), cut(x, axis, 0, n - shift)], axis)
    return x


def stack(*xs: Tensor, axis: int) -> Tensor:
    """Join along a new axis."""
    shape = xs[0].shape
    axis %= len(shape) + 1
    first, *rest = (x.call("reshape", shape=(*shape[:axis], 1, *shape[axis:])) for x in xs)
    return first.call("concat", *rest, axis=axis)


def tile(x: Tensor, *, reps: tuple[int, ...]) -> Tensor:
    """Repeat the whole tensor along each axis."""
    rank = max(x.ndim, len(reps))
    shape = (1,) * (rank - x.ndim) + tuple(x.shape)
    reps = (1,) * (rank - len(reps)) + reps
    return _repeated(x, shape, [(r, n) for r, n in zip(reps, shape, strict=True)], reps, times_first=True)


def repeat(x: Tensor, *, times: int, axis: int) -> Tensor:
    """Repeat each element along an axis."""
    counts = tuple(times if k == axis % x.ndim else 1 for k in range(x.ndim))
    pairs = [(n, r) for r, n in zip(counts, x.shape, strict=True)]
    return _repeated(x, tuple(x.shape), pairs, counts, times_first=False)


def _repeated(
    x: Tensor, shape: tuple[int, ...], pairs: list[tuple[int, int]], counts: tuple[int, ...], *, times_first: bool
) -> Tensor:
    """Insert an axis beside each repeated one, broadcast along it, and merge the two."""
    split_shape: list[int] = []
    wide: list[int] = []
    for n, r, pair in zip(shape, counts, pairs, strict=True):
        split_shape += [n] if r == 1 else [1, n] if times_first else [n, 1]
        wide += [n] if r == 1 else pair
    x = x.call("reshape", shape=tuple(split_shape)).call("broadcast_to", shape=tuple(wide))
    return x.call("reshape", shape=tuple(n * r for n, r in zip(shape, counts, strict=True)))


def _below(x: Tensor, k: int) -> Tensor:
    """Return a mask of the elements of a matrix on or below its k-th diagonal."""
    rows, columns = x.shape[-2:]
    i = x.create("arange", count=rows, dtype="int64").call("reshape", shape=(rows, 1))
    return i.call("greater_equal", x.create("arange", start=-k, count=columns, dtype="int64"))


def _zero(x: Tensor) -> Tensor:
    return x.create("zeros", shape=(), dtype=x.dtype)


def tril(x: Tensor, *, k: int) -> Tensor:
    """Keep elements on or below the k-th diagonal; the others become 0."""
    return _below(x, k).call("where", x, _zero(x))


def triu(x: Tensor, *, k: int) -> Tensor:
    """Keep elements on or above the k-th diagonal; the others become 0."""
    return _below(x, k - 1).call("where", _zero(x), x)


def diag(x: Tensor, *, k: int) -> Tensor:
    """Return a matrix with these elements on its k-th diagonal, zeros elsewhere."""
    n = x.shape[0] + abs(k)
    before, after = max(-k, 0), max(k, 0)
    zeros = x.create("zeros", shape=(n,), dtype=x.dtype)
    column = zeros.call("update_slice", x, starts=(before,), steps=(1,), counts=x.shape) if n else zeros
    assert before + x.shape[0] + after == n
    i = x.create("arange", start=k, count=n, dtype="int64").call("reshape", shape=(n, 1))
    on = i.call("equal", x.create("arange", count=n, dtype="int64"))
    return on.call("where", column.call("reshape", shape=(n, 1)), _zero(x))
