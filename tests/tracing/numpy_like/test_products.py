"""Products of arrays: NumPy's values within what their sums allow, its shapes, dtypes and errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import crossed
from hypothesis import given
from hypothesis import strategies as st
from oracle import EQUAL, check

import jitfuse as jf

RNG = np.random.default_rng(17)


def array(*shape: int, dtype: str = "float64") -> Any:
    return RNG.integers(-4, 5, shape).astype(dtype)  # products and sums of small integers are exact


EINSUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ij,kj->ki", [(3, 4), (5, 4)]),
    ("ij->ji", [(3, 4)]), ("ba", [(3, 4)]), ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("iij->j", [(3, 3, 4)]),
    ("ij->", [(3, 4)]), ("ij->j", [(3, 4)]), ("i,i", [(5,), (5,)]), ("i,j->ij", [(3,), (4,)]), ("i,i->i", [(5,), (5,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("bij,jk->bik", [(2, 3, 4), (4, 5)]), ("bi,bi->b", [(3, 7), (3, 7)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("...ij,...jk->...ik", [(6, 1, 3, 4), (2, 4, 5)]),
    ("i...,i...->...", [(3, 4), (3, 4)]), ("...i->...", [(2, 3, 4)]), ("...ii->...i", [(2, 3, 3)]),
    ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]), ("abcd,cdef->abef", [(2, 3, 4, 2), (4, 2, 3, 2)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]), ("ij,jk,kl,lm->im", [(3, 4), (4, 5), (5, 2), (2, 6)]),
    ("ea,fb,abcd,gc,hd->efgh", [(2, 3), (2, 3), (3, 3, 3, 3), (2, 3), (2, 3)]), ("i,ij,j->", [(3,), (3, 4), (4,)]),
    ("ij,ij,ij->ij", [(3, 4)] * 3), ("ab,bc,ca->", [(2, 3), (3, 4), (4, 2)]), ("iij,jkk->ik", [(3, 3, 4), (4, 2, 2)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]), ("ij,ij->i", [(1, 4), (3, 1)]), ("i,->i", [(3,), ()]), (",", [(), ()]),
    ("ij,jk->ik", [(0, 4), (4, 5)]), ("ij,jk->ik", [(3, 0), (0, 5)]), ("aij,bj->iab", [(2, 3, 4), (5, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("ij,k->k", [(3, 4), (5,)]), ("Ab,bC->AC", [(2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("einsum", "dtype"), crossed(2, EINSUMS, ["float64", "float32", "int32", "bool"]))
def test_einsum(einsum: tuple[str, list[tuple[int, ...]]], dtype: str) -> None:
    text, shapes = einsum
    operands = [array(*s, dtype=dtype) for s in shapes]
    check(lambda *xs: np.einsum(text, *xs), (*operands,), within=EQUAL)
    if dtype == "float64":
        turned = lambda *xs: [x[..., ::-1] if x.ndim else x for x in xs]  # noqa: E731
        check(lambda *xs: np.einsum(text, *turned(*xs), optimize=True) + 1, (*operands,), within=EQUAL)


def test_infinities_nan_and_empty_sums() -> None:
    x, y = np.array([2.0, -1.0]), np.array([[np.inf, np.nan, 1.0], [1.0, 2.0, 3.0]])
    check(lambda x, y: (np.einsum("a,uv->v", x, y), np.einsum("u,uv->v", x, y)), (x, y))
    check(lambda x, y: np.einsum("a,uv->v", x, y), (x[:0], y))


def test_options_of_einsum() -> None:
    a, b, c = array(3, 4), array(4, 5), array(5, 2)
    for optimize in (False, "greedy", "optimal", ["einsum_path", (0, 1), (0, 1)], ["einsum_path", (1, 2), (0, 1)]):
        check(lambda a, b, c, optimize=optimize: np.einsum("ij,jk,kl", a, b, c, optimize=optimize), (a, b, c))
    check(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), (a, b))
    check(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), (a, b))
    check(lambda a: np.einsum(a, [..., 0], [0, ...]), (a,))
    check(lambda a, b: np.einsum("ij,jk", a, b, dtype="float64"), (a.astype("float32"), b.astype("int32")))

    def into(a: Any, b: Any) -> Any:
        out = np.zeros((3, 5))
        np.einsum("ij,jk->ik", a, b, out=out)
        return out

    check(into, (a, b))


def test_a_program_shows_the_einsum_and_sums_without_matmul_are_fused() -> None:
    x, y = array(8, 30), array(8, 30)
    fused = jf.fuse(lambda x, y: np.einsum("ij,ij->i", x * 2, y) + 1)
    assert [s.op_name for s in fused.program(x, y).steps if s.op_name == "einsum"] == ["einsum"]
    np.testing.assert_array_equal(fused(x, y), np.einsum("ij,ij->i", x * 2, y) + 1)
    assert "library call " not in fused.explain(x, y)
    assert fused.stats()["launches"] == 1


@pytest.mark.parametrize(("text", "shapes"), [
    ("ij,jk->ik", [(3, 4), (5, 6)]), ("ij,jk->ik", [(3, 4)]), ("ijk->i", [(3, 4)]), ("ii->i", [(3, 4)]),
    ("ij->k", [(3, 4)]), ("ij->ii", [(3, 4)]), ("i$->i", [(3, 4)]),
])
def test_mistakes_in_subscripts(text: str, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError):
        jf.fuse(lambda *xs: np.einsum(text, *xs))(*[array(*s) for s in shapes])


@pytest.mark.parametrize("a", [(), (4,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("b", [(), (4,), (4, 5), (2, 4, 3)])
def test_dot_inner_outer(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = array(*a) if a else np.float64(3), array(*b) if b else np.float64(2)
    check(lambda x, y: (np.dot(x, y), np.outer(x, y)), (x, y))
    y = np.moveaxis(y, -1, -2) if np.ndim(y) > 1 and np.shape(y)[-1] != 4 else y
    if np.ndim(x) and np.ndim(y):
        check(lambda x, y: np.inner(x, y), (x, y))


def test_products_of_vectors() -> None:
    x, y, m = array(2, 3, 4), array(3, 4), array(2, 3, 5, 4)
    check(lambda x, y: (np.vdot(x[0], y), np.vecdot(x, y), np.linalg.vecdot(x, y, axis=-2), x.dot(y.T)), (x, y))
    check(lambda x, m: (np.matvec(m, x), np.vecmat(x, np.swapaxes(m, -1, -2))), (x, m))
    check(lambda y: (np.linalg.outer(y[0], y[1]), np.linalg.matmul(y, y.T), y.T @ y), (y,))


@pytest.mark.parametrize("axes", [0, 1, 2, ([1], [0]), ((0, 1), (1, 0)), ([-1, 0], [0, 1]), (1, 0)])
def test_tensordot(axes: Any) -> None:
    check(lambda x, y: np.tensordot(x, y, axes), (array(4, 4, 4), array(4, 4, 4)), within=EQUAL)


def test_tensordot_over_all_axes_is_an_array() -> None:
    def f(x: Any, y: Any) -> Any:
        total = np.tensordot(x, y, 2)
        total[...] += 1
        np.multiply(total, total, out=total)
        return total

    check(f, (array(2, 3), array(2, 3)))


def test_products_of_chains() -> None:
    parts = [array(4, 3), array(3, 6), array(6, 2), array(2, 5)]
    check(lambda *p: np.linalg.multi_dot(p), (*parts,))
    check(lambda *p: np.linalg.multi_dot([p[0][0], *p[1:3], p[3][:, 0]]), (*parts,))
    check(lambda a, b: np.linalg.multi_dot([a, b]), (*parts[:2],))


@pytest.mark.parametrize("function", [
    lambda x: np.tensordot(x, x, 1), lambda x: np.tensordot(x, x, 3), lambda x: np.linalg.multi_dot([x]),
    lambda x: np.inner(x, x.T),
    lambda x: np.einsum("ij,jk,kl", x, x.T, x, optimize="magic"), lambda x: np.inner(x, x[0, :2]),
    lambda x: np.linalg.outer(x, x), lambda x: np.dot(x, x),
])
def test_mistakes(function: Any) -> None:
    with pytest.raises(jf.JitfuseError):
        jf.fuse(function, strict=True)(array(3, 4))


@pytest.mark.full
@given(st.data())
def test_any_einsum(data: st.DataObject) -> None:
    labels = "abcde"
    sizes = {c: data.draw(st.integers(1, 3)) for c in labels}
    count = data.draw(st.integers(1, 4))
    terms = [data.draw(st.text(labels, max_size=3)) for _ in range(count)]
    output = "".join(data.draw(st.permutations(sorted(set("".join(terms))))))
    output = output[: data.draw(st.integers(0, len(output)))]
    operands = [array(*(sizes[c] for c in t)) for t in terms]
    drawn = tuple(np.asarray(o) for o in operands)
    check(lambda *xs: np.einsum(f"{','.join(terms)}->{output}", *xs) * 2, drawn, within=EQUAL)
