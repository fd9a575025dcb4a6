"""jf.grad of torch's factorisations, order statistics and layers, against its autograd and central differences."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import extended

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional
STEP = 1e-6
pytestmark = pytest.mark.filterwarnings("ignore:index_reduce")


def drawn(*shape: int, dtype: Any = None, seed: int = 0) -> Any:
    return torch.randn(shape, dtype=dtype or torch.float64, generator=torch.Generator().manual_seed(seed))


def reflections(x: Any) -> Any:
    return torch.linalg.householder_product(x.tril(-1), x[..., 0, :].sin())


def turned(x: Any) -> Any:
    square, other = x[..., :3, :3], x[..., :3, :2]
    tau = square[..., 0, :].cos()
    return torch.cat([torch.ormqr(square, tau, other).flatten(), torch.ormqr(square, tau, other, True, True).flatten(),
                      torch.ormqr(square, tau, other.mT, False, True).flatten()])


def solved(x: Any) -> Any:
    square, other = x[..., :3, :3], x[..., :3, :2]
    whole, pivots = torch.linalg.lu_factor(square)
    return torch.cat([torch.linalg.lu_solve(whole, pivots, other).flatten(),
                      torch.linalg.lu_solve(whole, pivots, other, adjoint=True).flatten(),
                      torch.linalg.lu_solve(whole, pivots, other.mT, left=False).flatten(),
                      torch.lu_solve(other, whole, pivots).flatten()])


def unpacked(x: Any) -> Any:
    whole, pivots, info = torch.linalg.lu_factor_ex(x)
    return torch.cat([part.flatten() for part in torch.lu_unpack(whole, pivots)]) * (info.sum() + 1)


def triangular(x: Any) -> Any:
    a, b = x[..., :3, :3], x[..., :3, :2]
    return torch.cat([
        torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True).flatten(),
        torch.linalg.solve_triangular(a, b.mT, upper=False, left=False).flatten(),
        torch.linalg.solve_triangular(a, b.mT, upper=True, left=False, unitriangular=True).flatten(),
        torch.triangular_solve(b, a, upper=False, transpose=True)[0].flatten()])


def of_nothing(x: Any) -> Any:
    empty = x[..., :0, :0]
    return torch.linalg.det(empty) + torch.linalg.inv(empty).sum() + sum(
        part.sum() for part in torch.linalg.svd(x[..., :0, :])) + x.sum()


def from_a_tensor(x: Any) -> Any:
    return x.narrow(-1, x.detach()[..., 0].sum().abs().long() % 2, 2) ** 2


MATRICES: dict[str, Callable[[Any], Any]] = {
    "lu": lambda x: torch.cat([p.flatten() for p in torch.linalg.lu(x)]), "unpacked": unpacked, "solved": solved,
    "torch.lu": lambda x: torch.lu(x)[0], "triangular": triangular, "of nothing": of_nothing,
    "inverse": lambda x: torch.linalg.inv_ex(x @ x.mH)[0], "Cholesky": lambda x: torch.linalg.cholesky_ex(x @ x.mH)[0],
    "solve_ex": lambda x: torch.linalg.solve_ex(x @ x.mH, x)[0],
    "inverse of a factor": lambda x: torch.cholesky_inverse((x @ x.mH).triu(), upper=True),
    "exponential": lambda x: torch.linalg.matrix_exp(x @ x.mT), "reflections": reflections, "turned": turned,
    "tensors": lambda x: torch.linalg.tensorinv((x @ x.mH).reshape(-1, 3, 3)[0], 1) + torch.linalg.tensorsolve(
        x.reshape(-1, 3, 3)[0], x.reshape(-1, 3)[0]),
    "pseudo-inverse": lambda x: torch.linalg.pinv(x @ x.mH, atol=1e-3, hermitian=True),
}


def judged(function: Callable[[Any], Any], x: Any, *, second: bool = True) -> None:
    """Compare both modes and second derivatives of a function of one tensor."""
    w, t, s = drawn(*function(x).shape, dtype=function(x).dtype, seed=1), drawn(*x.shape, dtype=x.dtype, seed=2), drawn(
        *x.shape, dtype=x.dtype, seed=3)

    def weighed(x: Any) -> Any:
        return (function(x) * w).sum().real if w.is_complex() else (function(x) * w).sum()

    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(weighed(leaf), leaf, create_graph=True)
    torch.testing.assert_close(jf.grad(weighed)(x), first.detach(), rtol=1e-7, atol=1e-9)
    moved = jf.jvp(function, (x,), (t,))[1]
    differences = (function(x + STEP * t) - function(x - STEP * t)) / (2 * STEP)
    torch.testing.assert_close(moved, differences, rtol=1e-5, atol=1e-6)
    if second and first.requires_grad:
        (second,) = torch.autograd.grad((first * s).sum().real, leaf)
        found = jf.grad(lambda x: (jf.grad(weighed)(x) * s).sum().real)(x)
        torch.testing.assert_close(found, second, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of functions that have other names now
        shapes = ((3, 4), (4, 3)) if name in ("lu", "unpacked", "reflections") else ((3, 3), (2, 3, 3))
        turn = list(MATRICES).index(name) + (dtype == "float64")
        for shape in shapes if extended() else shapes[turn % 2 :: 2]:
            x = drawn(*shape if name != "reflections" else sorted(shape, reverse=True), dtype=getattr(torch, dtype))
            judged(MATRICES[name], x, second=turn % 2 == 0 or extended())


AT = torch.tensor([[0, 3, 1], [2, 2, 0]])
BAGS = {"offsets": torch.tensor([0, 2, 2, 5])}


def in_bags(mode: str, **options: Any) -> Callable[[Any], Any]:
    return lambda x: F.embedding_bag(AT.flatten(), x, mode=mode, **options)


def largest(x: Any) -> Any:
    values, at = F.adaptive_max_pool1d(x[None], 3, return_indices=True)
    return values * at


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantile": lambda x: torch.quantile(x, torch.tensor([0.3, 0.71], dtype=x.dtype), dim=1) ** 2,
    "quantile of all": lambda x: torch.quantile(x, 0.4, interpolation="midpoint") ** 2,
    "quantile of a number": lambda x: torch.quantile(x.sum(), 0.4, dim=0) ** 2,
    "nanquantile": lambda x: torch.nanquantile(x.masked_fill(x > 1, torch.nan), 0.4, dim=0) ** 2,
    "nanmedian": lambda x: torch.nanmedian(x.masked_fill(x > 1, torch.nan), dim=1, keepdim=True).values ** 2,
    "nanmedian of all": lambda x: torch.nanmedian(x) ** 3,
    "mode": lambda x: torch.mode(torch.cat([x, x[1:3]]), 0).values ** 2,
    "polygamma": lambda x: torch.polygamma(2, x.abs() + 0.5) + x.polygamma(1) + torch.special.polygamma(0, x + 4),
    "erfcx": lambda x: torch.special.erfcx(torch.cat([x, x.abs() * 30 + 26])),
    "frexp": lambda x: torch.frexp(x).mantissa ** 2, "pdist": lambda x: F.pdist(x, 3.0),
    "cdist": lambda x: torch.cdist(x, x.flip(0) * 2, 1.5),
    "put": lambda x: x.put(torch.tensor([[3, 9, -1], [0, 7, 4]]), x.flatten()[:6].sin().reshape(2, 3)) * x,
    "sum in bags": in_bags("sum", **BAGS), "mean in bags": in_bags("mean", padding_idx=2, **BAGS),
    "largest in bags": in_bags("max", padding_idx=-1, include_last_offset=True, offsets=torch.tensor([0, 2, 2, 6])),
    "padding in bags": lambda x: F.embedding_bag(AT, x, mode="mean", padding_idx=0),
    "weights in bags": lambda x: F.embedding_bag(AT, x, mode="sum", per_sample_weights=x[:2, :3], padding_idx=3),
    "products": lambda x: x.scatter_reduce(1, AT, x[:2, :3].sin(), "prod"),
    "largest": lambda x: x.scatter_reduce(1, AT, x[:2, :3] * 2, "amax", include_self=False),
    "reduced by index": lambda x: x.index_reduce(0, AT[0], x[:3] * 2, "amin"),
    "means by index": lambda x: x.index_reduce(1, AT[1], x[:, :3].exp(), "mean", include_self=False),
    "indices of a pool": largest, "narrow": from_a_tensor,
    "operators as functions": lambda x: torch.Tensor.__rsub__(x, 2) * torch.Tensor.__rpow__(x, 3) + torch.Tensor.mul(
        torch.Tensor.__getitem__(x, 1), x),
    "operators of ATen": lambda x: torch.ops.aten.mul.Tensor(torch.ops.aten.sin(x), x),
    "shorter than nothing": lambda x: F.pad(x[None, None], (-5, 7, 1, 1), "replicate") + F.pad(x, (-5, 7, 1, 1)),
    "distance of one's own": lambda x: F.triplet_margin_with_distance_loss(
        x, x.sin(), x.cos(), distance_function=torch.nn.PairwiseDistance(), swap=True),
    "groups": lambda x: torch.cat([p.flatten() for p in torch.native_group_norm(
        x[:, :4].reshape(2, 4, 2), None, None, 2, 4, 2, 2, 1e-5)]),
    "other steps": lambda x: torch.as_strided(x.sin(), (2, 3), (1, 2)) ** 2,
}


ONCE = frozenset({"pdist", "cdist", "weights in bags"})
"""torch has no second derivative of them."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    judged(FUNCTIONS[name], drawn(4, 5, seed=4), second=name not in ONCE)


def test_ties_of_scattered_elements_are_shared() -> None:
    def function(x: Any) -> Any:
        return (x.scatter_reduce(0, AT[0], torch.stack([x[0], x[0], x[1]]), "amax") * torch.arange(1.0, 5.0)).sum()

    x = torch.tensor([1.0, 1.0, 0.0, 1.0], requires_grad=True)
    function(x).backward()
    torch.testing.assert_close(jf.grad(function)(x.detach()), x.grad)


def test_zeros_in_scattered_products() -> None:
    def function(x: Any) -> Any:
        return (x[:4].scatter_reduce(0, AT.flatten(), x[4:], "prod") * torch.arange(1.0, 5.0)).sum()

    x = torch.tensor([2.0, 0.0, 3.0, 1.0, 5.0, 0.0, 4.0, 0.0, 0.0, 7.0], requires_grad=True)
    function(x).backward()
    torch.testing.assert_close(jf.grad(function)(x.detach()), x.grad)


@pytest.mark.parametrize("name", ["native_layer_norm", "native_batch_norm"])
def test_statistics_of_normalisations_are_constants(name: str) -> None:
    def function(x: Any) -> Any:
        whole, mean, scale = torch.native_layer_norm(x, (5,), None, None, 1e-5) if name == "native_layer_norm" else (
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5))
        return ((whole * mean + scale) * torch.arange(5.0)).sum()

    x = drawn(4, 5, dtype=torch.float32).requires_grad_()
    function(x).backward()
    torch.testing.assert_close(jf.grad(function)(x.detach()), x.grad)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_dropouts_that_keep_mean_and_deviation(name: str) -> None:
    """Elements that are kept have one derivative, and the others 0, as torch's have."""
    def function(x: Any) -> Any:
        return getattr(F, name)(x, 0.25, training=True)

    x = drawn(40, 50, 2)
    found = jf.grad(lambda x: function(x).sum())(x)
    leaf = x.clone().requires_grad_()
    function(leaf).sum().backward()
    torch.testing.assert_close(found.unique(), leaf.grad.unique())
    assert 0.2 < (found == 0).double().mean() < 0.3
    ones = torch.ones_like(x)
    torch.testing.assert_close(jf.fuse(function)(ones).unique(), function(ones).unique())


def test_an_exponential_of_large_norm() -> None:
    x = drawn(4, 4) * 30
    x = x - x.mT  # a rotation
    leaf = x.clone().requires_grad_()
    torch.linalg.matrix_exp(leaf)[0].sum().backward()
    found = jf.grad(lambda x: torch.linalg.matrix_exp(x)[0].sum())(x)
    torch.testing.assert_close(found, leaf.grad, rtol=1e-8, atol=1e-10)


def test_singular_matrices_raise() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        jf.grad(lambda x: torch.linalg.inv_ex(x)[0].sum())(torch.zeros(3, 3))


def test_long_factorisations_are_refused() -> None:
    with pytest.raises(jf.DerivativeError, match="up to 512 columns"):
        jf.grad(lambda x: torch.linalg.lu(x)[2].sum())(torch.eye(513))


def test_elsewhere_they_are_torchs_own() -> None:
    x = drawn(3, 3)
    assert torch.equal(jf.fuse(lambda x: torch.linalg.lu_factor(x)[0] + 1)(x), torch.linalg.lu_factor(x)[0] + 1)
    leaf = x.clone().requires_grad_()
    with pytest.warns(jf.FallbackWarning):
        jf.fuse(lambda x: torch.linalg.lu_factor(x)[0].sum())(leaf).backward()
    torch.testing.assert_close(leaf.grad, jf.grad(lambda x: torch.linalg.lu_factor(x)[0].sum())(x))
