"""Products, decompositions of matrices, and Fourier transforms."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from derivatives_checked import of_tensors

from rule_cases import Case, both, case, uniform


@case("matmul")
def _() -> Iterator[Case]:
    for a, b in (((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 2)),
                 ((3, 4), (5, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (5, 4, 2)), ((2, 3, 4), (4,)),
                 ((1, 3, 4), (5, 4, 2))):
        yield Case((uniform(-2, 2, a), uniform(-2, 2, b, 1)))
    yield Case((both(-2, 2, (3, 4)), uniform(-2, 2, (2, 4, 3), 1)))
    yield Case((uniform(-2, 2, (4,)), both(-2, 2, (4, 3), 1)))
    yield Case((uniform(-2, 2, (3, 4)), uniform(-2, 2, (4, 3), 1)), {}, (1,))


@case("einsum")
def _() -> Iterator[Case]:
    for subscripts, *shapes in (("ij,jk->ik", (3, 4), (4, 2)), ("ij,ij->", (3, 4), (3, 4)), ("ii->i", (3, 3)),
                                ("ij->j", (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)), ("ii,i->", (3, 3), (3,)),
                                ("i,j->ji", (3,), (2,)), ("ai,i->a", (2, 3), (3,))):
        yield Case(tuple(uniform(-2, 2, shape, k) for k, shape in enumerate(shapes)), {
            "subscripts": subscripts, "path": ((0, 1),) if len(shapes) == 2 else ((0,),)})
    yield Case((both(-2, 2, (3, 4)), both(-2, 2, (4, 2), 3)), {"subscripts": "ij,jk->ki", "path": ((0, 1),)})


def regular(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Return matrices with separate singular values, far from 0."""
    x = both(-1, 1, shape) if dtype == "complex128" else uniform(-1, 1, shape)
    return x + 3 * np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)


SYMMETRIC = ("cholesky", "eigvalsh", "eigh")
"""They read one triangle, and have the derivatives along symmetric tangents, as in torch and JAX."""


def of_symmetric(name: str, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    def function(x: Any) -> Any:
        turned = x.call("conj") if x.dtype == "complex128" else x
        turned = turned.call("transpose", axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
        return x.add(turned).multiply(0.5).call(name, **attrs)

    return of_tensors(operands, function)


@case("inv", "det", "slogdet", "svdvals", "pinv", "svd", "qr", *SYMMETRIC)
def _(name: str) -> Iterator[Case]:
    options: dict[str, list[dict[str, Any]]] = {
        "cholesky": [{"upper": False}, {"upper": True}], "eigvalsh": [{"lower": True}, {"lower": False}],
        "eigh": [{"lower": True}, {"lower": False}], "svd": [{"full_matrices": False}],
    }
    gauged = name in ("svd", "qr", "eigh")  # the phases of complex vectors are any: test_decompositions has them
    shapes = [(3, 3), (2, 3, 3)]
    if name in ("svd", "svdvals", "pinv"):
        shapes += [(4, 3), (3, 4)]
    if name == "qr":
        shapes += [(4, 3)]
    for dtype in ("float64",) if gauged else ("float64", "complex128"):
        for shape in shapes:
            x = regular(shape, dtype)
            if name == "cholesky":
                x = x @ np.swapaxes(x, -1, -2).conj()
            for attrs in options.get(name, [{}]):
                yield Case((x, np.array(1e-15)) if name == "pinv" else (x,), attrs, (0,), tolerance=2e-6)


@case("eigvals")
def _() -> Iterator[Case]:
    for shape in ((3, 3), (2, 3, 3)):
        yield Case((regular(shape),), tolerance=1e-6)
        yield Case((regular(shape, "complex128"),), tolerance=1e-6)


@case("solve")
def _() -> Iterator[Case]:
    for a, b in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (3,))):
        yield Case((regular(a), uniform(-2, 2, b, 3)))
        yield Case((regular(a), uniform(-2, 2, b, 3)), {}, (0,))
        yield Case((regular(a), uniform(-2, 2, b, 3)), {}, (1,))
    yield Case((regular((3, 3), "complex128"), both(-2, 2, (3, 2), 3)))
    yield Case((regular((3, 3)), both(-2, 2, (3,), 3)))


NORMS = ("backward", "ortho", "forward")


@case("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
def _(name: str) -> Iterator[Case]:
    for n, axis, norm in ((5, -1, "backward"), (4, 0, "ortho"), (7, 1, "forward"), (6, 0, "backward")):
        attrs = {"n": n, "axis": axis, "norm": norm}
        yield Case((uniform(-2, 2, (5, 6)),), attrs)
        if name not in ("rfft", "ihfft"):
            yield Case((both(-2, 2, (5, 6)),), attrs)


@case("fftn", "ifftn", "rfftn", "irfftn")
def _(name: str) -> Iterator[Case]:
    for s, axes, norm in (((4, 5), (0, 2), "backward"), ((3, 6), (1, 2), "ortho"), ((5, 4, 3), (2, 0, 1), "forward")):
        attrs = {"s": s, "axes": axes, "norm": norm}
        yield Case((uniform(-2, 2, (3, 4, 5)),), attrs)
        if name != "rfftn":
            yield Case((both(-2, 2, (3, 4, 5)),), attrs)
