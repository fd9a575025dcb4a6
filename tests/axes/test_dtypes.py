"""Dtypes: products of several, sums that are asked for and that are not, complex numbers; repeats in own memory."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import einops
from jitfuse.axes import NamedAxis, TensorOp, ax, axes, contract, einop, rearrange, reduce, repeat, view
from jitfuse.errors import AxesError

a, b, c, i, j, k, n = axes("a", "b", "c", "i", "j", "k", "n")
DTYPES = ["bool", "int8", "int32", "float16", "float32", "float64", "complex64"]

PRODUCTS: dict[str, tuple[TensorOp, str, list[tuple[int, ...]]]] = {
    "sums first": (contract((ax[i, j], ax[i]), ax[i]), "ij,i->i", [(2, 5), (2,)]),
    "matrices": (contract((ax[i, j], ax[j, k]), ax[i, k]), "ij,jk->ik", [(2, 5), (5, 3)]),
    "three": (contract((ax[i], ax[i], ax[j]), ax[i, j]), "i,i,j->ij", [(3,), (3,), (2,)]),
    "alone": (contract((ax[i], ax[j]), ax[i]), "i,j->i", [(3,), (2,)]),
    "batch": (contract((ax[i, j], ax[i, j]), ax[i]), "ij,ij->i", [(2, 5), (2, 5)]),
}


def ones(shapes: list[tuple[int, ...]], dtypes: tuple[str, ...]) -> list[np.ndarray]:
    return [np.full(shape, 1 if dtype == "bool" else 100 if dtype == "int8" else 3, dtype)
            for shape, dtype in zip(shapes, dtypes)]


@pytest.mark.parametrize("second", DTYPES)
@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_several_dtypes_are_those_of_einsum(name: str, first: str, second: str) -> None:
    op, equation, shapes = PRODUCTS[name]
    for dtypes in ((first, second, second), (first, first, second)):
        xs = ones(shapes, dtypes)
        want = np.einsum(equation, *xs)
        got = op(*xs)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-3)


@pytest.mark.parametrize("name", PRODUCTS)
def test_torch_and_fused_functions_promote_too(name: str) -> None:
    op, equation, shapes = PRODUCTS[name]
    xs = ones(shapes, ("int8", "float64", "float64"))
    want = np.einsum(equation, *xs)
    np.testing.assert_array_equal(jf.fuse(lambda *xs: op(*xs), strict=True)(*xs), want)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(op(*map(torch.from_numpy, xs)).numpy(), want)
    np.testing.assert_array_equal(jf.fuse(lambda *xs: op(*xs))(*map(torch.from_numpy, xs)).numpy(), want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_torch_sums_products_in_their_dtype(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")  # whose einsum gives int64 where one operand is summed alone
    op, equation, shapes = PRODUCTS[name]
    xs = ones(shapes, (dtype,) * 3)
    for call in (op, jf.fuse(lambda *xs: op(*xs), strict=True)):
        made = call(*map(torch.from_numpy, xs)).numpy()
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, np.einsum(equation, *xs))


def test_arrays_are_joined_in_the_dtype_of_all_of_them() -> None:
    op = rearrange((ax[a, c], ax[a, k], ax[b, c], ax[b, k]), ax[a + b, c + k])
    xs = ones([(2, 2), (2, 3), (1, 2), (1, 3)], ("int8", "uint16", "float32", "float32"))
    assert np.result_type(np.result_type("int8", "uint16"), "float32") == "float64"
    assert op(*xs).dtype == jf.fuse(lambda *xs: op(*xs), strict=True)(*xs).dtype == "float32"


def test_einops_products_promote() -> None:
    mask, v = np.ones((2, 5), bool), np.ones(2)
    assert einops.einsum(mask, v, "b n, b -> b").tolist() == [5, 5]


def test_sums_that_are_asked_for_are_the_library_s() -> None:
    x = np.full((1, 5), 100, "int8")
    assert einop(ax[a, b], ax[a]).reduce_by("sum")(x).tolist() == [500]
    assert einop((ax[a, b], ax[c]), (ax[a], ax[c])).reduce_by("sum")(x, np.zeros(2))[0].tolist() == [500]
    assert einop(ax[a, b], ax[a])(x).tolist() == np.einsum("ab->a", x).tolist()


def test_logsumexp_of_complex_numbers() -> None:
    x = np.array([1j, 2 + 1j, -np.inf])
    got = reduce(ax[a], ax[()]).reduce_by("logsumexp")(x[:2])
    assert np.isclose(got, np.log(np.exp(x[:2]).sum()))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_repeats_never_share_memory(size: int) -> None:
    x = np.ones(3)
    for op in (repeat(ax[a], ax[a, n]), repeat(ax[a], ax[n, a]), repeat(ax[a], ax[n * a])):
        assert not np.shares_memory(op.with_sizes(n=size)(x), x)


def test_sizes_of_numpy_are_sizes() -> None:
    op = rearrange(ax[a * b], ax[b, a]).with_sizes(a=np.int64(2))
    assert op(np.arange(6)).shape == (3, 2) and repr(op).endswith(".with_sizes(a=2)")
    assert rearrange(ax[np.int64(1), a], ax[a])(np.zeros((1, 3))).shape == (3,)
    (own,) = axes("self")
    assert repeat(ax[a], ax[own, a]).with_sizes(self=2)(np.zeros(3)).shape == (2, 3)


def test_views_of_jitfuse_arrays_are_proved() -> None:
    x = jf.asarray(np.zeros((2, 3)))
    assert view(ax[a, b], ax[a * b])(x).shape == (6,)
    with pytest.raises(AxesError, match="not_a_view"):
        view(ax[a, b], ax[b * a])(x)


@pytest.mark.parametrize("wrong", [(("sum",),), ((ax[a], "sum", 1),), (("a", "sum"),)])
def test_reducers_of_other_forms_are_refused(wrong: Any) -> None:
    with pytest.raises(AxesError, match="bad_reducer"):
        reduce(ax[a, b], ax[b]).reduce_by(*wrong)


def test_names_that_are_no_identifiers_are_refused() -> None:
    with pytest.raises(AxesError, match="bad_term"):
        ax[NamedAxis("p.0")]
