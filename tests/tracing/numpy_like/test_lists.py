"""NumPy's functions of lists that hold traced values: arrays of them, without a look."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import SINGLE, outcome, same_outcome

import jitfuse as jf

REDUCED = {
    "mean": lambda v, x: np.mean(v), "sum": lambda v, x: np.sum(v), "max": lambda v, x: np.max(v),
    "min of rows": lambda v, x: np.min([x, x[::-1], v], axis=0), "argmin": lambda v, x: np.argmin(v),
    "std": lambda v, x: np.std(v), "median": lambda v, x: np.median(v), "cumsum": lambda v, x: np.cumsum(v),
    "norm": lambda v, x: np.linalg.norm([v[0], 3.0]), "norm of a tuple": lambda v, x: np.linalg.norm((v[0], v[-1])),
    "any": lambda v, x: np.any(v), "all": lambda v, x: np.all([t > 1 for t in v]),
    "percentile": lambda v, x: np.percentile(v, 30), "keywords": lambda v, x: np.mean(a=[v, v], axis=1, keepdims=True),
}
ELEMENTS = {
    "sign": lambda v, x: np.sign(v), "exp": lambda v, x: np.exp(v), "abs": lambda v, x: np.abs([v, v]),
    "maximum": lambda v, x: np.maximum(v, 0.5), "hypot": lambda v, x: np.hypot(v, v), "add": lambda v, x: np.add(v, v),
    "power": lambda v, x: np.power(v, 2), "round": lambda v, x: np.round(v, 1), "clip": lambda v, x: np.clip(v, 0, 1),
    "isnan": lambda v, x: np.isnan(v), "where": lambda v, x: np.where([True] * len(v), v, 0.0),
}
ARRANGED = {
    "vstack": lambda v, x: np.vstack([v, v]), "hstack": lambda v, x: np.hstack([v, [1.0]]),
    "columns": lambda v, x: np.column_stack([v, v]), "concatenate": lambda v, x: np.concatenate((v, [v[0]])),
    "stack": lambda v, x: np.stack([v, v], axis=1), "append": lambda v, x: np.append([], v),
    "diff": lambda v, x: np.diff(v), "reshape": lambda v, x: np.reshape(v, (-1, 1)), "tile": lambda v, x: np.tile(v, 2),
    "transpose": lambda v, x: np.transpose([v, v]), "sort": lambda v, x: np.sort(v),
    "meshgrid": lambda v, x: np.meshgrid(v, [1.0, 2.0]), "split": lambda v, x: np.array_split(v, 2),
    "shape": lambda v, x: (np.shape([v, v]), np.size(v), np.ndim([v])),
    "choose": lambda v, x: np.choose([0, 1], [[v[0], v[0]], [v[-1], 2.0]]),
    "select": lambda v, x: np.select([[True] * len(v)], [v], 7.0),
}
PRODUCTS = {
    "dot": lambda v, x: np.dot(v, v), "outer": lambda v, x: np.outer(v, v), "inner": lambda v, x: np.inner(v, v),
    "einsum": lambda v, x: np.einsum("i,j->ij", v, v), "cov": lambda v, x: np.cov([v, list(x)]),
    "det": lambda v, x: np.linalg.det([[v[0] + 3, 1.0], [1.0, v[-1] + 3]]), "fft": lambda v, x: np.fft.fft(v),
    "solve": lambda v, x: np.linalg.solve([[v[0] + 30, 1.0], [1.0, 25.0]], [v[0], v[-1]]),
    "interp": lambda v, x: np.interp(v, [0.0, 1.0], [2.0, 4.0]), "convolve": lambda v, x: np.convolve(v, [1.0, 2.0]),
}
ALL = {**REDUCED, **ELEMENTS, **ARRANGED, **PRODUCTS}
VALUES = {
    "floats": np.array([0.5, 1.25, -2.0]), "one": np.array([1.5]), "float32": np.array([0.5, 4.0], "f4"),
    "ints": np.array([3, 1, -7]), "zeros": np.array([-0.0, 0.0]), "nan": np.array([1.0, np.nan, np.inf]),
}


@pytest.mark.parametrize(("name", "of"), crossed(2, ALL, VALUES))
def test_lists_are_arrays(name: str, of: str) -> None:
    values = VALUES[of]

    def f(x: Any) -> Any:
        return ALL[name]([v * 1 for v in x], x)

    if name in {"det", "solve"} and values.dtype == "f4":
        pytest.skip("library steps of float32 lists")
    fused = jf.fuse(f)
    for _ in range(2):
        same_outcome(outcome(fused, values), outcome(f, values), SINGLE._replace(signs=False))
    if not isinstance(outcome(f, values), Exception):
        assert fused.stats()["fallbacks"] == 0
        assert fused.stats()["splits"] == 0


def of_numbers(x: Any) -> Any:
    losses = []
    for k in range(4):
        losses.append(float(x.sum()) * k)
    return np.mean(losses), np.array(losses).dtype, np.max([len(losses), int(x[0])])


def of_arrays(x: Any) -> Any:
    centres = [x[0]]
    for _ in range(2):
        nearest = np.min([((x - c) ** 2).sum(axis=1) for c in centres], axis=0)
        centres.append(x[np.argmax(nearest)])
    return np.mean(centres, axis=0), np.array(centres)


@pytest.mark.parametrize(("function", "made"), [
    (of_numbers, lambda r: r.random(5) * 3), (of_arrays, lambda r: r.random((6, 3)))])
def test_loops_that_fill_lists(function: Any, made: Any) -> None:
    fused = jf.fuse(function)
    for seed in range(4):
        x = made(np.random.default_rng(seed))
        for got, want in zip(fused(x), function(x)):
            assert type(got) is type(want)
            np.testing.assert_allclose(got, want) if not isinstance(want, np.dtype) else None
    assert fused.stats()["fallbacks"] == 0
    assert fused.stats()["splits"] == 0


@pytest.mark.parametrize("function", [
    lambda x: np.mean([x, [x[0]]]), lambda x: np.fill_diagonal([[x[0]]], 1.0), lambda x: np.put([x[0]], [0], 1.0),
    lambda x: np.vstack([[x[0]], [x[0], x[1]]]), lambda x: np.exp([x[0], "a"]),
    lambda x: np.add([x[0], x[1], 1.0], [x[0], x[1]]),
    lambda x: np.split([x[0], x[1]], 2), lambda x: np.rollaxis([[x[0]]], 1)])
def test_what_numpy_refuses(function: Any) -> None:
    x = np.array([1.0, 2.0])
    want = outcome(function, x)
    assert isinstance(want, Exception)
    same_outcome(outcome(jf.fuse(function), x), want)
