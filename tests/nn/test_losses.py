"""jf.nn's losses, fused and plain, beside torch's: values and gradients of all options."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest

import jitfuse as jf

REDUCTIONS = ("mean", "sum", "none")
NEAR = {"float64": {"rtol": 1e-12, "atol": 1e-12}, "float32": {"rtol": 2e-5, "atol": 2e-5}}
GAPS = np.array([0.0, 1.0, -1.0, 0.5, -0.5, 0.25, 3.0, -2.5, 1e-9, 0.999, 1.001, -40.0])
"""Differences at the kinks, beside them and far away."""


def draw(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape)


def shares(*shape: int, axis: int = -1) -> Any:
    e = np.exp(draw(*shape) * 2 + 1)
    return e / e.sum(axis=axis, keepdims=True)


def beside_torch(
    ours: Callable[..., Any], theirs: Callable[..., Any], arrays: tuple[Any, ...], dtype: str, wanted: tuple[int, ...],
) -> None:
    """Compare a loss and its gradients with torch's, for each reduction; `wanted`: operands with a gradient."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    arrays = tuple(a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays)
    oracle.check(lambda *xs: tuple(ours(*xs, reduction=r) for r in REDUCTIONS), arrays, within=oracle.REDUCED)

    def total(*xs: Any) -> Any:
        mean, whole, each = (ours(*xs, reduction=r) for r in REDUCTIONS)
        return mean * 3.0 + whole * 0.5 + (each * each).sum()

    values = jf.fuse(lambda *xs: tuple(ours(*xs, reduction=r) for r in REDUCTIONS))(*arrays)
    gradients = jf.fuse(jf.grad(total, argnums=wanted))(*arrays)
    tensors = [torch.tensor(a, requires_grad=k in wanted) for k, a in enumerate(arrays)]
    expected = [theirs(*tensors, reduction=r) for r in REDUCTIONS]
    (expected[0] * 3.0 + expected[1] * 0.5 + (expected[2] * expected[2]).sum()).backward()
    for got, want in zip(values, expected, strict=True):
        assert got.dtype == dtype and got.shape == tuple(want.shape)
        np.testing.assert_allclose(got, want.detach().numpy(), **NEAR[dtype])
    for got, k in zip(gradients, wanted, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, tensors[k].grad.numpy(), **NEAR[dtype])


# ---------------------------------------------------------------- differences
DIFFERENCES: dict[str, tuple[str, dict[str, float]]] = {
    "mse": ("mse_loss", {}), "l1": ("l1_loss", {}), "huber": ("huber_loss", {}),
    "huber of 0.5": ("huber_loss", {"delta": 0.5}), "smooth": ("smooth_l1_loss", {}),
    "smooth of 0.25": ("smooth_l1_loss", {"beta": 0.25}), "smooth of 0": ("smooth_l1_loss", {"beta": 0.0}),
}


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("case", DIFFERENCES)
def test_differences(case: str, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    name, options = DIFFERENCES[case]
    target = np.round(draw(4, 3) * 4) / 4
    x = target + GAPS.reshape(4, 3)
    beside_torch(lambda x, t, **r: getattr(jf.nn, name)(x, t, **options, **r),
                 lambda x, t, **r: getattr(torch.nn.functional, name)(x, t, **options, **r), (x, target), dtype, (0, 1))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_derivatives_of_differences_at_zero_are_zero(name: str) -> None:
    gradient = jf.fuse(jf.grad(lambda x, t: getattr(jf.nn, name)(x, t)))(np.ones(3), np.ones(3))
    assert gradient.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("weights", ["none", "weight", "pos_weight", "both"])
def test_binary_cross_entropy(weights: str, dtype: str) -> None:
    F = pytest.importorskip("torch", reason="torch is not installed").nn.functional
    x = draw(4, 3)
    x[0] = 0.0, 90.0, -90.0
    weight = draw(4, 1) ** 2 if weights in ("weight", "both") else None
    pos_weight = draw(3) ** 2 if weights in ("pos_weight", "both") else None
    given = tuple(a for a in (weight, pos_weight) if a is not None)

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        def loss(x: Any, t: Any, *rest: Any, **r: Any) -> Any:
            at = iter(rest)
            options = {n: next(at) for n, w in (("weight", weight), ("pos_weight", pos_weight)) if w is not None}
            return function(x, t, **options, **r)

        return loss

    beside_torch(of(jf.nn.binary_cross_entropy_with_logits), of(F.binary_cross_entropy_with_logits),
                 (x, np.abs(draw(4, 3)) % 1.0, *given), dtype, (0, 1))


def test_binary_cross_entropy_neither_overflows_nor_is_nan() -> None:
    x, t = np.array([1e4, -1e4, 1e4, -1e4, 0.0]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    loss = jf.nn.binary_cross_entropy_with_logits
    value = jf.fuse(lambda x, t: loss(x, t, reduction="none"))(x, t)
    np.testing.assert_allclose(value, [0.0, 0.0, 1e4, 1e4, np.log(2)])
    gradient = jf.fuse(jf.grad(lambda x, t: loss(x, t, reduction="sum")))(x, t)
    np.testing.assert_allclose(gradient, [0.0, 0.0, 1.0, -1.0, -0.5])


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")  # torch's mean of all elements
@pytest.mark.parametrize("dtype", NEAR)
def test_divergence(dtype: str) -> None:
    F = pytest.importorskip("torch", reason="torch is not installed").nn.functional
    beside_torch(jf.nn.kl_div, F.kl_div, (np.log(shares(4, 3)), shares(4, 3)[::-1].copy()), dtype, (0, 1))
    zeros = shares(4, 3)
    zeros[1, 2] = zeros[3] = 0.0
    beside_torch(jf.nn.kl_div, F.kl_div, (np.log(shares(4, 3)), zeros), dtype, (0,))


def test_the_divergence_at_zero_has_finite_derivatives() -> None:
    gradient = jf.fuse(jf.grad(lambda t, x: jf.nn.kl_div(x, t, reduction="sum")))
    np.testing.assert_allclose(gradient(np.array([0.0, 0.5]), np.array([-2.0, -1.0])), [2.0, np.log(0.5) + 2.0])
    with np.errstate(invalid="ignore"):
        assert np.isnan(jf.nn.kl_div(np.zeros(1), np.array([-1.0]), reduction="none")).all()


# ---------------------------------------------------------------- classes
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "weighted": {"weight": True}, "ignored": {"ignore_index": 1}, "smooth": {"label_smoothing": 0.2},
    "weighted smooth": {"weight": True, "label_smoothing": 0.1},
    "all": {"weight": True, "ignore_index": 2, "label_smoothing": 0.3},
}
SHAPES = {"rows": ((7, 5), -1), "one row": ((5,), 0), "images": ((2, 5, 3, 2), 1), "one class": ((4, 1), 1)}


def classes(shape: tuple[int, ...], axis: int) -> Any:
    count = shape[axis]
    places = int(np.prod(shape)) // count
    found = (np.arange(places) * 3 + 1) % count
    return found.reshape([n for k, n in enumerate(shape) if k != axis % len(shape)])


def compare_classes(name: str, options: dict[str, Any], shape: tuple[int, ...], axis: int, target: Any, dtype: str,
                    wanted: tuple[int, ...] = (0,)) -> None:
    F = pytest.importorskip("torch", reason="torch is not installed").nn.functional
    options = dict(options)
    weight = draw(shape[axis]) ** 2 + 0.1
    arrays: tuple[Any, ...] = (draw(*shape) * 3, target)
    if options.pop("weight", False):
        arrays = *arrays, weight
    if name == "nll_loss":
        options.pop("label_smoothing", None)
    beside_torch(lambda x, t, weight=None, **r: getattr(jf.nn, name)(x, t, axis=axis, weight=weight, **options, **r),
                 lambda x, t, weight=None, **r: getattr(F, name)(x, t, weight, **options, **r), arrays, dtype, wanted)


@pytest.mark.parametrize(("case", "where", "dtype"), [
    *((case, "rows", dtype) for case in OPTIONS for dtype in NEAR), ("all", "images", "float64"),
    ("plain", "images", "float32"), ("plain", "one row", "float64"), ("smooth", "one class", "float64"),
])
def test_cross_entropy_of_classes(case: str, where: str, dtype: str) -> None:
    shape, axis = SHAPES[where]
    compare_classes("cross_entropy", OPTIONS[case], shape, axis, classes(shape, axis), dtype)


@pytest.mark.parametrize(("case", "where", "dtype"), [
    ("plain", "rows", "float64"), ("weighted", "rows", "float32"), ("smooth", "rows", "float64"),
    ("weighted smooth", "images", "float64"), ("smooth", "one row", "float64"),
])
def test_cross_entropy_of_probabilities(case: str, where: str, dtype: str) -> None:
    shape, axis = SHAPES[where]
    compare_classes("cross_entropy", OPTIONS[case], shape, axis, shares(*shape, axis=axis), dtype, wanted=(0, 1))


@pytest.mark.parametrize(("case", "where", "dtype"), [
    ("plain", "rows", "float64"), ("all", "rows", "float32"), ("all", "images", "float64"),
    ("plain", "one row", "float64"),
])
def test_nll_loss(case: str, where: str, dtype: str) -> None:
    shape, axis = SHAPES[where]
    compare_classes("nll_loss", OPTIONS[case], shape, axis, classes(shape, axis), dtype)


def test_the_last_axis_has_the_classes_and_any_integers_are_targets() -> None:
    x, t = draw(2, 3, 4), classes((2, 3, 4), -1)
    want = jf.nn.cross_entropy(np.moveaxis(x, -1, 1).copy(), t, axis=1)
    f = jf.fuse(lambda x, t: jf.nn.cross_entropy(x, t))
    for dtype in ("int64", "uint8", "int16"):
        np.testing.assert_allclose(f(x, t.astype(dtype)), want, rtol=1e-14)


def test_large_logits_and_classes_that_cannot_be() -> None:
    x = np.array([[1e4, 0.0, -np.inf], [-np.inf, 2.0, 2.0]])
    for targets, ignore in ((np.array([1, 2]), -100), (np.array([1, 0]), 0)):
        def loss(x: Any, t: Any, ignore: int = ignore) -> Any:
            return jf.nn.cross_entropy(x, t, ignore_index=ignore, reduction="sum")

        value, gradient = jf.fuse(jf.value_and_grad(loss))(x, targets)
        assert value == pytest.approx(1e4 + (np.log(2) if ignore else 0.0))
        second = [0.0, 0.5, -0.5] if ignore else [0.0, 0.0, 0.0]
        np.testing.assert_allclose(gradient, [[1.0, -1.0, 0.0], second])


def test_targets_that_all_are_ignored_have_no_mean() -> None:
    x, t = draw(3, 4), np.full(3, -100)
    with np.errstate(invalid="ignore"):
        assert np.isnan(jf.nn.cross_entropy(x, t))
    assert jf.nn.cross_entropy(x, t, reduction="sum") == 0.0


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("wrong", [4, -1, 700])
def test_a_class_that_is_not_there_raises(name: str, wrong: int) -> None:
    x, t = draw(3, 4), np.array([0, wrong, 1])
    function = getattr(jf.nn, name)
    with pytest.raises(jf.errors.BoundsError, match=f"no class {wrong} among 4"):
        function(x, t)
    fused = jf.fuse(lambda x, t: function(x, t))
    with pytest.raises(jf.errors.BoundsError, match="out of bounds"):
        fused(x, t)
    assert fused(x, np.array([0, 3, -100])) == pytest.approx(float(function(x, np.array([0, 3, -100]))))


# ---------------------------------------------------------------- dtypes and errors
def test_a_loss_has_the_dtype_of_the_predictions() -> None:
    x, t = draw(4, 3).astype("float32"), draw(4, 3)
    assert jf.nn.mse_loss(x, t).dtype == jf.nn.mse_loss(x, np.ones((4, 3), int)).dtype == "float32"
    assert jf.fuse(lambda x: jf.nn.huber_loss(x, 0, delta=2.0))(x).dtype == "float32"
    half = np.linspace(200, 300, 500).astype("float16")
    for loss in (jf.nn.mse_loss(half, 0.0), jf.fuse(lambda x: jf.nn.mse_loss(x, 0.0))(half)):
        assert loss.dtype == "float16" and np.isfinite(jf.nn.mse_loss(half, 100.0))
    assert float(jf.nn.l1_loss(half, 0.0)) == pytest.approx(250.0, rel=1e-3)  # the sum is too large for float16


def test_arrays_of_jitfuse_give_arrays_of_jitfuse() -> None:
    x = jf.asarray(draw(3, 4))
    loss = jf.nn.cross_entropy(x, np.array([0, 1, 2]))
    assert type(loss) is type(x) and float(loss) == float(jf.nn.cross_entropy(np.asarray(x), np.array([0, 1, 2])))


X, T = np.ones((3, 4)), np.zeros(3, int)
ERRORS: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "float classes": (lambda: jf.nn.cross_entropy(X, np.ones(3)), jf.DTypeError, r"integers.*float64 of shape \(3,\)"),
    "bool classes": (lambda: jf.nn.nll_loss(X, T > 0), jf.DTypeError, "integers as targets, not bool"),
    "float nll": (lambda: jf.nn.nll_loss(X, X), jf.DTypeError, "integers"),
    "integer predictions": (lambda: jf.nn.mse_loss(T, T), jf.DTypeError, "floats for the predictions, not int64"),
    "integer logits": (lambda: jf.nn.cross_entropy(X.astype(int), T), jf.DTypeError, "floats"),
    "complex target": (lambda: jf.nn.l1_loss(X, X + 1j), jf.DTypeError, "real targets"),
    "shapes": (lambda: jf.nn.mse_loss(X, X[:, 0]), jf.ShapeError, r"\(3, 4\).*\(3,\)"),
    "one more axis": (lambda: jf.nn.l1_loss(X[:, 0], X[:, :1]), jf.ShapeError, r"\(3,\).*\(3, 1\)"),
    "targets": (lambda: jf.nn.cross_entropy(X, T[:2]), jf.ShapeError, r"\(3, 4\).*axis 1.*\(2,\)"),
    "one-hot integers": (lambda: jf.nn.cross_entropy(X, X.astype(int)), jf.ShapeError, r"\(3, 4\).*\(3, 4\)"),
    "class weights": (lambda: jf.nn.nll_loss(X, T, weight=np.ones(3)), jf.ShapeError, r"\(3, 4\).*\(3,\)"),
    "weight": (lambda: jf.nn.binary_cross_entropy_with_logits(X, X, np.ones((2, 3, 4))), jf.ShapeError,
               r"\(3, 4\).*\(2, 3, 4\)"),
    "pos_weight": (lambda: jf.nn.binary_cross_entropy_with_logits(X, X, pos_weight=np.ones(3)), jf.ShapeError,
                   r"\(3, 4\).*\(3,\)"),
    "axis": (lambda: jf.nn.cross_entropy(X, T, axis=2), jf.errors.AxisError, "axis 2"),
    "smoothing": (lambda: jf.nn.cross_entropy(X, T, label_smoothing=1.5), jf.ArgumentError, "label_smoothing"),
    "delta": (lambda: jf.nn.huber_loss(X, X, delta=0.0), jf.ArgumentError, "delta"),
    "beta": (lambda: jf.nn.smooth_l1_loss(X, X, beta=-1.0), jf.ArgumentError, "beta"),
    **{f"reduction of {name}": (lambda name=name: getattr(jf.nn, name)(X, T, reduction="avg"), jf.ArgumentError,
                                f"{name}: reduction is .* not 'avg'")
       for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits", "kl_div",
                    "nll_loss", "cross_entropy")},
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_typed_and_say_what_does_not_fit(case: str) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()
    with pytest.raises(kind, match=text):
        jf.fuse(lambda: call(), strict=True)()
