"""Linear algebra over the matrices of the last two axes: library steps, computed by LAPACK."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.dtypes import COMPONENT, is_narrow, kind, promote
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import linear_algebra

_COMPLEX_OF = {real: whole for whole, real in COMPONENT.items()}
Shapes = Callable[[tuple[int, ...], dict[str, Any]], tuple[int, ...]]


def _dtype(name: str, metas: Sequence[Meta]) -> str:
    """Return the dtype in which LAPACK computes; raise DTypeError for 16-bit floats."""
    for m in metas:
        if is_narrow(m.dtype):
            raise DTypeError(f"{name} does not take {m.dtype}; cast first with astype")
    common = promote([m.dtype for m in metas])
    return "float64" if kind(common) in ("bool", "int", "uint") else common


def _matrix(name: str, m: Meta, square: bool) -> tuple[int, ...]:
    if m.ndim < 2 or (square and m.shape[-1] != m.shape[-2]):
        raise ShapeError(f"{name} takes {'square ' if square else ''}matrices in the last two axes, not {m.shape}")
    return m.shape


def _row(
    name: str, shape: Shapes, doc: str, *, attrs: dict[str, Any] | None = None, square: bool = True, dtype: str = "",
) -> None:
    """Enter a row; `dtype` is "real" or "complex" if the result is so for any operand."""
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        result = _dtype(name, metas)
        given = _matrix(name, m, square)
        if "mode" in attrs and attrs["mode"] not in ("reduced", "complete"):
            raise ArgumentError(f"{name}: mode is 'reduced' or 'complete', not {attrs['mode']!r}")
        target = {"real": COMPONENT, "complex": _COMPLEX_OF}.get(dtype, {}).get(result, result)
        return Meta(shape(given, attrs), target, m.device)

    add(Op(name, 1, LIBRARY, attrs or {}, infer, getattr(linear_algebra, name), doc=doc))


def _side_by_side(name: str) -> Shapes:
    def shape(given: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
        return (*given[:-2], linear_algebra.offsets(linear_algebra.parts(name, given, **attrs))[-1])

    return shape


_row("cholesky", lambda s, _: s, "The triangular factor of a positive definite matrix.", attrs={"upper": False})
_row("det", lambda s, _: s[:-2], "The determinant.")
_row("inv", lambda s, _: s, "The inverse; a singular matrix raises.")
_row("slogdet", _side_by_side("slogdet"), "The sign and the logarithm of the determinant, in one array.")
_row("svd", _side_by_side("svd"), "U, singular values and Vh, in one array.", attrs={"full_matrices": True},
     square=False)
_row("svdvals", lambda s, _: (*s[:-2], min(s[-2:])), "The singular values in descending order.", square=False,
     dtype="real")
_row("qr", _side_by_side("qr"), "Q and R, in one array.", attrs={"mode": "reduced"}, square=False)
_row("eigh", _side_by_side("eigh"), "Eigenvalues and eigenvectors of a Hermitian matrix, in one array.",
     attrs={"lower": True})
_row("eigvalsh", lambda s, _: s[:-1], "The eigenvalues of a Hermitian matrix in ascending order.",
     attrs={"lower": True}, dtype="real")
_row("eig", _side_by_side("eig"), "Eigenvalues and eigenvectors, complex, in one array.", dtype="complex")
_row("eigvals", lambda s, _: s[:-1], "The eigenvalues, complex.", dtype="complex")


def _infer_solve(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    dtype = _dtype("solve", metas)
    n = _matrix("solve", a, True)[-1]
    vector = b.ndim == 1
    if not b.ndim or b.shape[-1 if vector else -2] != n:
        raise ShapeError(f"solve: matrices of {a.shape} and a right-hand side of {b.shape}")
    lead = shape_rules.broadcast("solve", [a.shape[:-2], () if vector else b.shape[:-2]])
    return Meta((*lead, n) if vector else (*lead, *b.shape[-2:]), dtype, meta_rules.common_device("solve", metas))


def _infer_pinv(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    x, rtol = metas
    dtype = _dtype("pinv", [x])
    m, n = _matrix("pinv", x, False)[-2:]
    if shape_rules.broadcast("pinv", [rtol.shape, x.shape[:-2]]) != x.shape[:-2]:
        raise ShapeError(f"pinv: tolerances of {rtol.shape} do not broadcast to the matrices of {x.shape}")
    dtype = dtype if m * n else x.dtype  # for an empty matrix, NumPy's result has its dtype
    return Meta((*x.shape[:-2], n, m), dtype, meta_rules.common_device("pinv", metas))


add(Op("solve", 2, LIBRARY, {}, _infer_solve, linear_algebra.solve, doc="(a, b): x with a @ x = b; b may be a vector."))
add(Op("pinv", 2, LIBRARY, {}, _infer_pinv, linear_algebra.pinv, doc="(x, rtol): the pseudo-inverse."))
