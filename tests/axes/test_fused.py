"""Operations in fused functions: steps of the program, one launch where nothing needs two, with derivatives."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.axes import TensorOp, ax, axes, contract, einop, packs, rearrange, reduce, repeat, view

b, c, d, h, w, n = axes("b", "c", "d", "h", "w", "n")
(tail,) = packs("tail")

FIRST = rearrange(ax[b, h, w, c], ax[b, c, h, w])
SECOND = rearrange(ax[b, c, h, w], ax[b, c * h, w])
THIRD = rearrange(ax[b, c, w], ax[w, b, c])

OPERATIONS: dict[str, tuple[TensorOp, list[tuple[int, ...]]]] = {
    "view": (view(ax[b, h, w], ax[b, h * w]), [(2, 3, 4)]),
    "merge": (rearrange(ax[b, h, w, c], ax[b * w, h * c]), [(2, 3, 4, 2)]),
    "split": (rearrange(ax[b, h + w], ax[h + w, b]), [(2, 5)]),
    "cut": (rearrange(ax[b, h + w], (ax[b, h], ax[w, b])).with_sizes(h=2), [(2, 5)]),
    "join": (rearrange((ax[b, h], ax[w, b]), ax[b, h + w]), [(2, 3), (4, 2)]),
    "repeat": (repeat(ax[tail, b], ax[b, n, tail]).with_sizes(n=3), [(2, 3, 4)]),
    "diagonal": (rearrange(ax[b, h, b], ax[h, b]), [(3, 2, 3)]),
    "embedded": (repeat(ax[b], ax[b, b, 2]), [(3,)]),
    "row in front": (einop((ax[b, h, d], ax[d]), ax[b, 1 + h, d]), [(2, 3, 4), (4,)]),
    "product": (contract((ax[tail, h, d], ax[d, w]), ax[tail, w, h]), [(2, 3, 4, 5), (5, 6)]),
    "three": (contract((ax[b, h], ax[h, w], ax[w, b, d]), ax[d, b]), [(2, 3), (3, 4), (4, 2, 5)]),
    "projections": (
        contract((ax[b, h, d], ax[d, w + c + n]), (ax[b, h, w], ax[b, h, c], ax[b, h, n])).with_sizes(w=2, c=3),
        [(2, 3, 4), (4, 9)]),
    **{name: (reduce(ax[b, h, w, c], ax[w, b]).reduce_by(name), [(2, 3, 4, 2)])
       for name in ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var")},
    "phases": (reduce(ax[b, h, w], ax[b]).reduce_by((ax[h], "max"), (ax[w], "mean")), [(2, 3, 4)]),
}


def arrays(shapes: list[tuple[int, ...]], dtype: str = "float64") -> list[np.ndarray]:
    r = np.random.default_rng(len(shapes))
    return [r.normal(size=shape).astype(dtype) for shape in shapes]


def compare(one: Any, other: Any, rtol: float) -> None:
    one, other = (x if isinstance(x, tuple) else (x,) for x in (one, other))
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_outside(name: str) -> None:
    op, shapes = OPERATIONS[name]
    xs = arrays(shapes)
    f = jf.fuse(lambda *xs: op(*xs), strict=True)
    compare(f(*xs), op(*xs), 1e-12)
    if name != "view":  # of an array that runs backwards there is none
        compare(f(*(x[..., ::-1] for x in xs)), op(*(x[..., ::-1] for x in xs)), 1e-12)
    assert f.stats()["fallbacks"] == f.stats()["splits"] == 0


@pytest.mark.parametrize("name", ["repeat", "row in front", "join", "embedded"])
def test_plans_of_arrays_are_not_those_of_traced_ones(name: str) -> None:
    op, shapes = OPERATIONS[name]
    op = op.with_sizes()  # without the functions of other tests
    xs = arrays(shapes)
    want = op(*xs)  # first outside
    f = jf.fuse(lambda *xs: op(*xs), strict=True)
    compare(f(*xs), want, 1e-12)
    assert f.stats()["fallbacks"] == f.stats()["splits"] == 0
    again = op(*xs)
    compare(again, want, 0)
    assert type(again) is np.ndarray and again.flags.writeable


@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_functions_too(name: str) -> None:
    torch = pytest.importorskip("torch")
    op, shapes = OPERATIONS[name]
    xs = [torch.from_numpy(x) for x in arrays(shapes)]
    f = jf.fuse(lambda *xs: op(*xs), strict=True)
    compare(f(*xs), op(*xs), 1e-12)
    made, want = op(*xs), op(*(x.numpy() for x in xs))
    compare(tuple(m.numpy() for m in made) if isinstance(made, tuple) else made.numpy(), want, 1e-12)


def test_a_chain_with_an_elementwise_function_is_one_launch() -> None:
    f = jf.fuse(lambda x: np.tanh(THIRD(SECOND(FIRST(x)))) * 2, strict=True)
    x = arrays([(2, 4, 6, 3)])[0]
    compare(f(x), np.tanh(x.transpose(0, 3, 1, 2).reshape(2, 12, 6).transpose(2, 0, 1)) * 2, 1e-14)
    before = f.stats()["launches"]
    f(x)
    assert f.stats()["launches"] == before + 1


def test_another_operation_under_the_name_is_seen() -> None:
    state = {"op": rearrange(ax[b, h], ax[h, b])}
    f = jf.fuse(lambda x: state["op"](x) * 1.0)
    x = arrays([(3, 3)])[0]
    assert np.array_equal(f(x), x.T)
    state["op"] = rearrange(ax[b, h], ax[b, h])
    assert np.array_equal(f(x), x)


def test_operations_made_in_the_function() -> None:
    f = jf.fuse(lambda x, y: contract((ax[b, h], ax[h, w]), ax[w, b])(x, y), strict=True)
    x, y = arrays([(2, 3), (3, 4)])
    compare(f(x, y), (x @ y).T, 1e-12)


@pytest.mark.parametrize("name", [k for k in OPERATIONS if k not in ("any", "all")])
def test_derivatives(name: str) -> None:
    op, shapes = OPERATIONS[name]
    xs = arrays(shapes)

    def loss(*xs: Any) -> Any:
        made = op(*xs)
        return sum((m * m).sum() for m in (made if isinstance(made, tuple) else (made,)))

    gradients = jf.grad(loss, argnums=tuple(range(len(xs))))(*xs)
    for k, x in enumerate(xs):
        step = np.zeros_like(x)
        step[(0,) * x.ndim] = 1e-6
        up, down = (loss(*xs[:k], x + s * step, *xs[k + 1 :]) for s in (1, -1))
        assert np.isclose(gradients[k][(0,) * x.ndim], (up - down) / 2e-6, rtol=1e-5, atol=1e-7)


def test_mistakes_in_a_trace_name_the_line() -> None:
    f = jf.fuse(lambda x: rearrange(ax[b, h * w], ax[h, b, w])(x))
    with pytest.raises(jf.errors.AxesError, match=r"test_fused\.py:") as caught:
        f(np.zeros((2, 6)))
    assert caught.value.code == "ambiguous_sizes"


def test_jitfuse_arrays() -> None:
    x, y = arrays([(2, 3), (3, 4)])
    op = contract((ax[b, h], ax[h, w]), ax[w, b])
    made = op(jf.asarray(x), jf.asarray(y))
    assert type(made) is type(jf.asarray(x))
    compare(np.asarray(made), op(x, y), 1e-12)
    compare(np.asarray(op(jf.asarray(x), y)), op(x, y), 1e-12)


def test_the_same_list_of_axes_twice_in_a_function() -> None:
    def function(x: Any) -> Any:
        return (contract((ax[b], ax[c]), ax[b])(x, x) * rearrange(ax[b], ax[b])(x)).sum()

    x = np.array([1.0, 2.0, 4.0])
    fused = jf.fuse(function, strict=True)
    assert np.isclose(fused(x), function(x)) and fused.stats()["fallbacks"] == 0
    np.testing.assert_allclose(jf.grad(function)(x), 2 * x * x.sum() + (x * x).sum(), rtol=1e-12)
