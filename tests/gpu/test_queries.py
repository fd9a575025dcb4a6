"""Queries of factor graphs on the GPU: any table of records, and fused functions next to the CPU's."""
from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from amount import drawn
from semiring_tables import FIRST, SECOND, attributes, products, random_table, record, walks

import jitfuse as jf
from jitfuse.backends.wgsl.codegen import record_table
from jitfuse.compile.gpu import records
from jitfuse.compile.rebuild import Verdict, check
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.reference import semiring_sums

RNG = np.random.default_rng(0)
CARRIERS = ("log", "sum_product")


def filled(carrier: str, shape: Any, dtype: str = "float32") -> Any:
    values = RNG.random(shape) + 0.1
    return (np.log(values) if carrier == "log" else values).astype(dtype)


def on_gpu(x: Any) -> Any:
    return jf.asarray(x, device="gpu")


def step(attrs: dict[str, Any], view: Callable[[Any], Any] = lambda x: x) -> Any:
    """Return a fused function of the stacks that runs one step, with no way out."""
    def function(*stacks: Any) -> Any:
        first, *others = map(view, stacks)
        return first.call("semiring_sums", *others, **attrs)

    return jf.fuse(function, device="gpu", strict=True)


def same(got: Any, stacks: Sequence[Any], attrs: dict[str, Any], tolerance: float) -> None:
    wanted = semiring_sums(*(np.asarray(s, "float64") for s in stacks), **attrs)
    found = np.asarray(got)
    assert isinstance(got, jf.gpu.GpuTensor) and found.dtype == stacks[0].dtype
    absolute = tolerance if attrs["carrier"] == "log" else 0
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=absolute)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
def test_products_and_matrices_of_any_size(carrier: str, dtype: str, tolerance: float) -> None:
    for n in (1, 2, 37, 300):
        stacks = [filled(carrier, (n, n), dtype), filled(carrier, n, dtype)]
        same(step(walks(carrier, n))(*stacks), stacks, walks(carrier, n), tolerance)
    for n in (1, 1024, 1025, 5000):
        stacks = [filled(carrier, n, dtype) for _ in range(2)]
        same(step(products(carrier, n))(*stacks), stacks, products(carrier, n), tolerance)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("limit", [1024, 16], ids=["small levels", "large ones too"])
@pytest.mark.parametrize("unshared", [1 << 22, 0], ids=["a workspace for all", "a workspace written again"])
def test_random_tables(carrier: str, limit: int, unshared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_table, "ONE_GROUP", limit)
    monkeypatch.setattr(record_table, "MOST_UNSHARED", unshared)
    for _ in range(drawn(8)):
        stacks = [filled(carrier, 300), filled(carrier, 257)]
        attrs = random_table(RNG, carrier, (300, 257))
        same(step(attrs)(*stacks), stacks, attrs, 1e-5)


def test_infinite_logs_and_nan() -> None:
    inf, nan = np.inf, np.nan
    matrix = np.array([[-inf] * 5, [-inf, 1, -inf, 2, 0], [inf, 0, 0, 0, 0], [nan, 0, -inf, 0, 0],
                       [-1e30, -2e30, -inf, -1e30, -1e30]], "float32")
    vector = np.array([0, 0, 0, -inf, 0], "float32")
    attrs = attributes("log", [
        record([5, 5], (w.RESULT, 0, (1, 0)), (FIRST, 0, (5, 1)), (SECOND, 0, (0, 1))),
        record([5, 5], (w.RESULT, 5, (5, 1)), (FIRST, 0, (5, 1)), (SECOND, 0, (0, 1)))], 0, 30)
    found = np.asarray(step(attrs)(matrix, vector))
    with np.errstate(invalid="ignore"):
        wanted = semiring_sums(matrix, vector, **attrs)
    assert np.isneginf(found[0]) and np.isposinf(found[2]) and np.isnan(found[3])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_sums_of_terms_far_apart_are_stable() -> None:
    for shift in (-1e4, 0, 1e4):
        matrix = filled("log", (3, 3)) * 100 + np.float32(shift)
        stacks = [matrix, filled("log", 3)]
        same(step(walks("log", 3))(*stacks), stacks, walks("log", 3), 1e-6 * max(abs(shift), 100))


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x[1:, 2:][:2, :2], lambda x: x[::2, ::-2],
], ids=["transposed", "backwards", "columns backwards", "a window", "both"])
def test_operands_that_are_views(view: Callable[[Any], Any]) -> None:
    x, y = (filled("sum_product", (5, 5)) for _ in range(2))
    stacks = [np.ascontiguousarray(view(each)) for each in (x, y)]
    attrs = products("sum_product", stacks[0].size)
    same(step(attrs, view)(on_gpu(x), on_gpu(y)), stacks, attrs, 1e-6)
    same(step(attrs)(view(on_gpu(x)), view(on_gpu(y))), stacks, attrs, 1e-6)


def test_a_table_without_records() -> None:
    assert np.asarray(step(products("log", 0))(*(np.zeros(0, "float32"),) * 2)).shape == (0,)


# ---------------------------------------------------------------------- graphs
def grid(n: int) -> list[tuple[int, int]]:
    places = np.arange(n * n).reshape(n, n)
    pairs = [*zip(places[:, :-1].flat, places[:, 1:].flat), *zip(places[:-1].flat, places[1:].flat)]
    return [(int(a), int(b)) for a, b in pairs]


MODELS = {
    "a chain": ([3] * 12, [(k, k + 1) for k in range(11)]), "a grid": ([2] * 64, grid(8)),
    "a circle": ([2, 3, 4, 2], [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "sizes of one": ([1, 3, 1, 2], [(0, 1), (1, 2), (2, 3), (0, 3)]),
}


def log_partition(name: str) -> Callable[..., Any]:
    sizes, scopes = MODELS[name]

    def function(*tables: Any) -> Any:
        factors = zip(scopes, tables[0] if len(tables) == 1 else tables)
        return jf.factors.FactorGraph(sizes, list(factors), log=True).log_partition()

    return function


def tables_of(name: str) -> list[Any]:
    """Return the tables of a model; those of a grid, more than a kernel binds buffers, as one array."""
    sizes, scopes = MODELS[name]
    tables = [RNG.normal(size=[sizes[v] for v in scope]).astype("float32") for scope in scopes]
    return tables if len(tables) < 16 else [np.stack(tables)]


@pytest.mark.parametrize("name", MODELS)
def test_log_partition_and_its_gradient(name: str) -> None:
    function, tables = log_partition(name), tables_of(name)
    numbers = tuple(range(len(tables)))
    doubles = [t.astype("float64") for t in tables]
    before, given = jf.gpu.transfers(), [on_gpu(t) for t in tables]
    total = jf.fuse(function, strict=True)(*given)
    value, gradients = jf.value_and_grad(function, argnums=numbers)(*given)
    assert jf.gpu.transfers().downloads == before.downloads
    wanted, marginals = jf.value_and_grad(function, argnums=numbers)(*doubles)
    for found in (total, value):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)
    for found, marginal in zip(gradients, marginals, strict=True):
        np.testing.assert_allclose(np.asarray(found), marginal, rtol=1e-4, atol=1e-5)


def test_impossible_states_and_models() -> None:
    function, tables = log_partition("a circle"), tables_of("a circle")
    tables[1][0] = tables[2][:, 1] = -np.inf
    gradients = jf.grad(function, argnums=(0, 1, 2, 3))
    for found, wanted in zip(gradients(*map(on_gpu, tables)), gradients(*tables), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)
    tables[0][:] = -np.inf
    assert float(jf.fuse(function, strict=True)(*map(on_gpu, tables))) == -np.inf


def test_other_queries_of_a_batch() -> None:
    sizes, scopes = MODELS["a circle"]

    def queries(weights: Any, *tables: Any) -> Any:
        graph = jf.factors.FactorGraph(sizes, list(zip(scopes, tables)))
        marginals = graph.marginals({1: weights})
        return graph.log_partition({1: weights}), graph.entropy(2, given=(0,)), *(marginals[v] for v in range(4))

    given = [(RNG.random((7, 3)) + 0.1).astype("float32"), *map(np.exp, tables_of("a circle"))]
    found = jf.fuse(queries, strict=True)(*map(on_gpu, given))
    for got, wanted in zip(found, jf.fuse(queries, strict=True)(*(x.astype("float64") for x in given)), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-5)


LENGTH, LABELS, FEATURES, BATCH = 6, 3, 4, 8


def conditional_random_field(put: Callable[[Any], Any]) -> Any:
    """Return the train step of `examples/crf.py` with its parameters on a device."""
    rng = np.random.default_rng(1)
    shapes = {"w": (FEATURES, LABELS), "b": (LABELS,), "moves": (LABELS, LABELS)}
    params = jf.nn.parameters({k: put(rng.normal(size=s).astype("float32")) for k, s in shapes.items()})
    optimizer = jf.optim.Adam(params, lr=0.03)

    @jf.fuse(training=True, strict=True)
    def chain(x: Any, labels: Any) -> Any:
        scores = jf.nn.log_softmax(jf.nn.linear(x, params["w"], params["b"]))
        pairs = [((t, t + 1), params["moves"]) for t in range(LENGTH - 1)]
        graph = jf.factors.FactorGraph([LABELS] * LENGTH, pairs, log=True)
        seen = {t: np.exp(scores[:, t]) for t in range(LENGTH)}
        moved = np.einsum("bti,btj->ij", labels[:, :-1], labels[:, 1:])
        path = (scores * labels).sum() + (moved * params["moves"]).sum()
        loss = (graph.log_partition(seen).sum() - path) / (BATCH * LENGTH)
        optimizer.minimize(loss)
        return loss

    return chain


def test_a_train_step_has_the_losses_of_the_cpu() -> None:
    on_cpu, gpu = conditional_random_field(lambda x: x), conditional_random_field(on_gpu)
    for _ in range(5):
        x = RNG.normal(size=(BATCH, LENGTH, FEATURES)).astype("float32")
        labels = np.eye(LABELS, dtype="float32")[RNG.integers(LABELS, size=(BATCH, LENGTH))]
        np.testing.assert_allclose(float(gpu(on_gpu(x), on_gpu(labels))), on_cpu(x, labels), rtol=1e-5)


# ---------------------------------------------------------------------- kernels
def test_kernels_are_cached_and_can_be_made_again() -> None:
    def made() -> Any:
        fused = step(walks("log", 4))
        fused(filled("log", (4, 4)), filled("log", 4))
        return [k for k in fused.kernels if "fn compute" in k.source]

    (first,) = made()
    assert first.backend == "wgsl" and len(first.key) == 64 and check(first.entry) == Verdict.SAME
    key = first.key
    del first
    gc.collect()
    (again,) = made()
    assert again.key == key and again.from_cache


def test_what_does_not_fit_runs_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_ELEMENTS", 8)
    stacks, attrs = [filled("log", (3, 3)), filled("log", 3)], walks("log", 3)
    fused = jf.fuse(lambda x, y: x.call("semiring_sums", y, **attrs), device="gpu")
    with pytest.warns(jf.FallbackWarning, match="semiring_sums"):
        same(fused(*stacks), stacks, attrs, 1e-6)


def test_numbers_as_operands_run_on_the_host() -> None:
    fused = jf.fuse(lambda x, y: x.reshape(1).call("semiring_sums", y, **products("log", 1)))
    with pytest.warns(jf.FallbackWarning, match="semiring_sums"):
        found = fused(np.float32(2), on_gpu(np.full(1, 0.5, "float32")))
    assert np.asarray(found).tolist() == [2.5]
