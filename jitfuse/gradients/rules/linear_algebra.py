"""Linear algebra, by tangents (Giles 2008, "Collected matrix derivative results"; Townsend 2016 for the SVD)."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.errors import DerivativeError
from jitfuse.gradients.rule import RULES, Call, Over, Parts, Rule, by_tangents, composite, product
from jitfuse.gradients.rules.contractions import transposed
from jitfuse.gradients.values import Tensor, cast, choose, conjugate, part, positions
from jitfuse.ir.semantics import linear_algebra


# ---------------------------------------------------------------- matrices
def _parts(call: Call) -> list[Tensor]:
    """Return the parts of a decomposition, which its step gives in one array."""
    return parts_of(call.op_name, call.x, call.y, **call.attrs)


def parts_of(name: str, x: Tensor, whole: Tensor, **attrs: Any) -> list[Tensor]:
    """Return the parts of a decomposition of x."""
    shapes = linear_algebra.parts(name, x.shape, **attrs)
    starts = linear_algebra.offsets(shapes)
    return [part(whole, -1, start, math.prod(shape)).reshape((*x.shape[:-2], *shape))
            for start, shape in zip(starts, shapes, strict=False)]


def _decomposed(name: str, x: Tensor, **attrs: Any) -> list[Tensor]:
    return parts_of(name, x, x.call(name, **attrs), **attrs)


def _joined(call: Call, made: Sequence[Tensor]) -> list[Tensor]:
    lead = call.x.shape[:-2]
    flat = [cast(t, str(call.y.dtype)).reshape((*lead, math.prod(t.shape[len(lead):]))) for t in made]
    return [flat[0].call("concat", *flat[1:], axis=len(lead))]


def _times(a: Tensor, *others: Tensor) -> Tensor:
    for b in others:
        a = a.call("matmul", b)
    return a


def _adjoint(x: Tensor) -> Tensor:
    return transposed(conjugate(x))


def _trace(x: Tensor) -> Tensor:
    return x.call("diagonal").call("sum", axis=(-1,), keepdims=False)


def _row(x: Tensor) -> Tensor:
    """Return vectors as matrices of one row."""
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))


def _column(x: Tensor) -> Tensor:
    return x.reshape((*x.shape, 1))


def _identity(n: int, like: Tensor) -> Tensor:
    i = like.create("arange", start=0, step=1, count=n, dtype="int64")
    return cast(i.reshape((n, 1)).equal(i.reshape((1, n))), str(like.dtype))


def _lower(x: Tensor, diagonal: float = 1.0) -> Tensor:
    """Return what lies below the diagonal, and the diagonal times a factor."""
    rows, columns = positions(x, -2), positions(x, -1)
    return x.multiply(choose(rows.greater(columns), 1.0, choose(rows.equal(columns), diagonal, 0.0)))


def _over_gaps(inner: Tensor, values: Tensor, guarded: bool) -> Tensor:
    """Return the elements off the diagonal over (value of column - value of row).

    Of equal values the vectors are any: what moves them is infinite, and what does not, 0, is 0 where `guarded`.
    """
    diagonal = _identity(values.shape[-1], values.call("real")).equal(1)
    gaps = choose(diagonal, 1, _row(values).subtract(_column(values)))
    return product(choose(diagonal, 0, inner), Over(gaps), guarded)


def _by_gaps(name: str) -> Callable[[Callable[..., Parts]], None]:
    """Enter an operator by ``forward(call, tangents, guarded)`` with quotients that are guarded in the forward mode.

    They are linear where they are not guarded; the quotients of their transpose always are.
    """
    def enter(forward: Callable[..., Parts]) -> None:
        RULES[name] = Rule(functools.partial(forward, guarded=True),
                           transposed=functools.partial(forward, guarded=False))

    return enter


@by_tangents("inv")
def _(call: Call, tangents: Parts) -> Parts:
    return [_times(call.y, tangents[0], call.y).negative()]


_MINOR = 3
"""The order of derivatives of determinants that hold whatever the rank."""


def determinant(x: Tensor) -> Tensor:
    """Return the determinant by steps whose derivatives hold for singular matrices and equal singular values too.

    Between singular vectors, as constants, the matrix is diagonal. There the block of the largest singular values is
    eliminated, and the rest's determinant is a polynomial. Where that block is singular as well, the determinant and
    its derivatives up to the third are 0.
    """
    n, m = x.shape[-1], x.shape[-1] - _MINOR
    if m <= 0:
        return _minor(x, range(n)) if n else x.create("full", shape=x.shape[:-2], value=1.0, dtype=str(x.dtype))
    u, s, vh = _decomposed("svd", x.call("stop_gradient"), full_matrices=False)
    turned = _times(_adjoint(u), x, _adjoint(vh))
    over = _column(choose(s.equal(0), 1, s).call("reciprocal"))
    upper, lower = part(turned.multiply(over), -2, 0, m), part(turned, -2, m, _MINOR)
    largest = part(s, -1, 0, m).call("real")
    block = part(upper, -1, 0, m).add(_identity(m, x).multiply(_column(cast(largest.equal(0), str(x.dtype)))))
    rest = part(lower, -1, m, _MINOR).subtract(_times(
        part(lower, -1, 0, m), block.call("solve", part(upper, -1, m, _MINOR))))
    sign, log = _decomposed("slogdet", block)
    lead = x.shape[:-2]
    sides = u.call("det").multiply(vh.call("det")).multiply(largest.call("prod", axis=(-1,), keepdims=False))
    moved = sign.reshape(lead).multiply(log.call("real").reshape(lead).exp())
    return sides.multiply(moved).multiply(_minor(rest, range(_MINOR)))


def _minor(x: Tensor, columns: Sequence[int]) -> Tensor:
    """Return the determinant of the last rows at these columns, along the first of these rows."""
    row, made = x.shape[-2] - len(columns), None
    for k, column in enumerate(columns):
        term = part(part(x, -2, row, 1), -1, column, 1).reshape(x.shape[:-2])
        if len(columns) > 1:
            term = term.multiply(_minor(x, [c for c in columns if c != column]))
        made = term if made is None else made.subtract(term) if k % 2 else made.add(term)
    return made


composite("det", through=determinant)


@by_tangents("slogdet")
def _(call: Call, tangents: Parts) -> Parts:
    sign, _ = _parts(call)
    rate = _trace(call.x.call("solve", tangents[0]))
    if kind(str(rate.dtype)) != "complex":
        return _joined(call, [rate.multiply(0), rate])
    return _joined(call, [sign.multiply(rate.subtract(rate.call("real"))), rate.call("real")])


def _solve_forward(call: Call, tangents: Parts) -> Parts:
    (a, b), (ta, tb) = call.xs, tangents
    columns = _column if b.ndim == 1 else _same
    right = None if tb is None else columns(tb)
    if ta is not None:
        moved = ta.call("matmul", columns(call.y)).negative()
        right = moved if right is None else right.add(moved)
    return [a.call("solve", right).reshape(call.y.shape)]


def _solve_reverse(call: Call, cotangents: Parts) -> Parts:
    a, b = call.xs
    columns = _column if b.ndim == 1 else _same
    back = _adjoint(a).call("solve", columns(cotangents[0]))
    left = _times(back, _adjoint(columns(call.y))).negative() if call.wanted[0] else None
    return [left, back.reshape(call.y.shape)]


def _same(x: Tensor) -> Tensor:
    return x


RULES["solve"] = Rule(_solve_forward, _solve_reverse)


@by_tangents("cholesky")
def _(call: Call, tangents: Parts) -> Parts:
    """Solve for the factor's tangent: L phi(L^-1 t L^-H), phi being the lower half."""
    upper = call.attrs["upper"]
    factor = _adjoint(call.y) if upper else call.y
    t = tangents[0]
    t = t.add(_adjoint(t)).multiply(0.5)
    inner = factor.call("solve", _adjoint(factor.call("solve", t)))
    made = _times(factor, _lower(inner, 0.5))
    return [_adjoint(made) if upper else made]


# ---------------------------------------------------------------- eigenvalues and singular values
def _hermitian(t: Any) -> Tensor:
    return t.add(_adjoint(t)).multiply(0.5)


@_by_gaps("eigh")
def _(call: Call, tangents: Parts, guarded: bool) -> Parts:
    values, vectors = _parts(call)
    inner = _times(_adjoint(vectors), _hermitian(tangents[0]), vectors)
    moved = _times(vectors, _over_gaps(inner, values.call("real"), guarded))
    return _joined(call, [inner.call("diagonal").call("real"), moved])


@by_tangents("eigvalsh")
def _(call: Call, tangents: Parts) -> Parts:
    _, vectors = _decomposed("eigh", call.x, **call.attrs)
    return [_times(_adjoint(vectors), _hermitian(tangents[0]), vectors).call("diagonal").call("real")]


@_by_gaps("eig")
def _(call: Call, tangents: Parts, guarded: bool) -> Parts:
    """Keep the vectors' lengths at one: what would change them along themselves is taken off."""
    values, vectors = _parts(call)
    inner = vectors.call("solve", _times(cast(tangents[0], str(values.dtype)), vectors))
    moved = _times(vectors, _over_gaps(inner, values, guarded))
    along = conjugate(vectors).multiply(moved).call("sum", axis=(-2,), keepdims=True).call("real")
    return _joined(call, [inner.call("diagonal"), moved.subtract(vectors.multiply(along))])


@by_tangents("eigvals")
def _(call: Call, tangents: Parts) -> Parts:
    _, vectors = _decomposed("eig", call.x)
    moved = _times(cast(tangents[0], str(vectors.dtype)), vectors)
    return [vectors.call("solve", moved).call("diagonal")]


@by_tangents("svdvals")
def _(call: Call, tangents: Parts) -> Parts:
    u, _, vh = _decomposed("svd", call.x, full_matrices=False)
    return [_times(_adjoint(u), tangents[0], _adjoint(vh)).call("diagonal").call("real")]


@_by_gaps("svd")
def _(call: Call, tangents: Parts, guarded: bool) -> Parts:
    (t,), (rows, columns) = tangents, call.x.shape[-2:]
    if call.attrs["full_matrices"] and rows != columns:
        raise DerivativeError(f"svd with full_matrices=True of matrices of {rows} by {columns} has no derivative: the "
                              "added vectors are any. Pass full_matrices=False.")
    u, s, vh = _parts(call)
    s, v = s.call("real"), _adjoint(vh)
    inner = _times(_adjoint(u), t, v)
    squares = s.multiply(s)
    right, left = inner.multiply(_row(s)), inner.multiply(_column(s))
    turn = _identity(s.shape[-1], s).multiply(0.5).multiply(_column(choose(s.equal(0), 1, s).call("reciprocal")))
    moved_u = _times(u, _over_gaps(right.add(_adjoint(right)), squares, guarded).add(
        inner.subtract(_adjoint(inner)).multiply(turn)))
    moved_v = _times(v, _over_gaps(left.add(_adjoint(left)), squares, guarded))
    if rows > columns:
        outside = _times(t, v)
        moved_u = moved_u.add(outside.subtract(_times(u, _adjoint(u), outside)).divide(_row(s)))
    elif columns > rows:
        outside = _times(_adjoint(t), u)
        moved_v = moved_v.add(outside.subtract(_times(v, vh, outside)).divide(_row(s)))
    return _joined(call, [moved_u, inner.call("diagonal").call("real"), _adjoint(moved_v)])


@by_tangents("qr")
def _(call: Call, tangents: Parts) -> Parts:
    rows, columns = call.x.shape[-2:]
    if rows < columns or (call.attrs["mode"] == "complete" and rows != columns):
        raise DerivativeError(f"qr of matrices of {rows} by {columns} in mode {call.attrs['mode']!r} has no derivative "
                              "here: it has for as many rows as columns or more, in mode 'reduced'.")
    q, r = _parts(call)
    t = _adjoint(_adjoint(r).call("solve", _adjoint(tangents[0])))
    inner = _times(_adjoint(q), t)
    below = _lower(inner, 0.0)
    turn = below.subtract(_adjoint(below))
    if kind(str(q.dtype)) == "complex":
        turn = turn.add(_identity(columns, q).multiply(inner.subtract(inner.call("real"))))
    return _joined(call, [_times(q, turn.subtract(inner)).add(t), _times(inner.subtract(turn), r)])


@by_tangents("pinv")
def _(call: Call, tangents: Parts) -> Parts:
    """Golub and Pereyra 1973, for matrices whose rank does not change."""
    (x, _), y, (t, _) = call.xs, call.y, tangents
    rows, columns = x.shape[-2:]
    first = _times(y, t, y).negative()
    left = _times(y, _adjoint(y), _adjoint(t), _identity(rows, x).subtract(_times(x, y)))
    right = _times(_identity(columns, x).subtract(_times(y, x)), _adjoint(t), _adjoint(y), y)
    return [first.add(left).add(right)]
