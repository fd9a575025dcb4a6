"""The direct way that a function of the namespace has for eager arrays gives what the function itself gives."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf
from jitfuse.arrays.base import EagerArray
from jitfuse.ir.operators import ops

SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf])
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
ARRAYS: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "special": lambda: SPECIAL.copy(),
    "float32": lambda: SPECIAL.astype("float32"),
    "float16": lambda: np.array([0.5, -3.0, 60000.0], "float16"),
    "int64": lambda: np.array([-7, 0, 3, 7, 2]),
    "uint8": lambda: np.array([0, 1, 255, 7], "uint8"),
    "bool": lambda: np.array([True, False, True]),
    "complex": lambda: np.array([1 + 2j, -0.5j, complex(np.inf, 1.0), complex(0.0, np.nan)]),
    "empty": lambda: np.empty(0),
    "one": lambda: np.array([2.5]),
    "scalar": lambda: np.array(2.5),
    "backwards": lambda: np.arange(5.0)[::-1],
    "spread": lambda: np.broadcast_to(np.array([1.5, -2.0]), (3, 2)),
    "square": lambda: SQUARE.copy(),
    "columns": lambda: np.asfortranarray(SQUARE),
    "stack": lambda: np.stack([SQUARE, SQUARE + np.eye(3)]),
    "no rows": lambda: np.empty((0, 3)),
}
CALLS: dict[str, list[Callable[[Any, Any], Any]]] = {
    **{op.name: [lambda f, x: f(x)] for op in ops.table()
       if op.kind == ops.ELEMENTWISE and op.arity == 1 and not op.attrs and op.name != "stop_gradient"},
    **{{"power": "pow"}.get(op.name, op.name): [
        lambda f, x: f(x, x), lambda f, x: f(x, 2.0), lambda f, x: f(2, x), lambda f, x: f(x, x.array),
    ] for op in ops.table() if op.kind == ops.ELEMENTWISE and op.arity == 2 and not op.attrs},
    **{name: [lambda f, x: f(x), lambda f, x: f(x, axis=0), lambda f, x: f(x, axis=-1, keepdims=True)] for name in (
        "sum", "mean", "std", "var", "prod", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero")},
    "round": [lambda f, x: f(x), lambda f, x: f(x, 1)],
    "clip": [lambda f, x: f(x, 0, 2), lambda f, x: f(x, min=1), lambda f, x: f(x, None, x)],
    "cumulative_sum": [lambda f, x: f(x), lambda f, x: f(x, axis=0, include_initial=True)],
    "diff": [lambda f, x: f(x), lambda f, x: f(x, axis=0, n=2)],
    "sort": [lambda f, x: f(x), lambda f, x: f(x, axis=0, descending=True), lambda f, x: f(x, descending=True)],
    "argsort": [lambda f, x: f(x), lambda f, x: f(x, axis=0, descending=True), lambda f, x: f(x, descending=True)],
    "searchsorted": [lambda f, x: f(x, x)],
    "take": [lambda f, x: f(x, jf.asarray(np.array([0, 0]))), lambda f, x: f(x, jf.asarray(np.array([1])), axis=0)],
    "take_along_axis": [lambda f, x: f(x, jf.asarray(np.zeros(x.shape, int)))],
    "repeat": [lambda f, x: f(x, 2), lambda f, x: f(x, jf.asarray(2)), lambda f, x: f(x, [1, 2, 3], axis=0)],
    "tile": [lambda f, x: f(x, (2,)), lambda f, x: f(x, (2, 1))],
    "where": [lambda f, x: f(jf.isnan(x), x, 0.0), lambda f, x: f(x, x, x)],
    "unstack": [lambda f, x: f(x), lambda f, x: f(x, axis=-1)],
    "reshape": [lambda f, x: f(x, (-1,)), lambda f, x: f(x, (2, 2)), lambda f, x: f(x, (-1,), copy=True)],
    "astype": [lambda f, x: f(x, jf.float32), lambda f, x: f(x, "complex128"), lambda f, x: f(x, x.dtype, copy=False)],
    **{name: [lambda f, x: f(x), lambda f, x: f(x, dtype=jf.float32), lambda f, x: f(x, device="cpu")]
       for name in ("zeros_like", "ones_like")},
    "full_like": [*(lambda f, x, v=v: f(x, v) for v in (1, -2, 300, 2.5, True, 1j, np.nan)),
                  lambda f, x: f(x, 2, dtype=jf.float32), lambda f, x: f(x, jf.asarray(3))],
    "nonzero": [lambda f, x: f(x)],
    "isin": [lambda f, x: f(x, x), lambda f, x: f(x, x, invert=True), lambda f, x: f(x, jf.asarray([1, 2]))],
    **{f"unique_{name}": [lambda f, x: f(x)] for name in ("all", "counts", "inverse", "values")},
    "vecdot": [lambda f, x: f(x, x), lambda f, x: f(x, x, axis=0), lambda f, x: f(x, jf.asarray([1.0, 2.0]))],
    "matmul": [lambda f, x: f(x, x), lambda f, x: f(x, jf.matrix_transpose(x))],
    "concat": [lambda f, x: f([x, x]), lambda f, x: f((x, x), axis=None), lambda f, x: f([x, x], axis=7)],
    "stack": [lambda f, x: f([x, x]), lambda f, x: f((x, x), axis=-1)],
    "broadcast_arrays": [lambda f, x: f(x, jf.asarray([[1.0], [2.0]]))],
    "broadcast_to": [lambda f, x: f(x, (2, *x.shape))],
    "expand_dims": [lambda f, x: f(x, axis=0)], "squeeze": [lambda f, x: f(x, axis=0)], "flip": [lambda f, x: f(x)],
    "roll": [lambda f, x: f(x, 1), lambda f, x: f(x, 1, axis=0)], "moveaxis": [lambda f, x: f(x, 0, -1)],
    "permute_dims": [lambda f, x: f(x, tuple(range(x.ndim))[::-1])], "matrix_transpose": [lambda f, x: f(x)],
    "tril": [lambda f, x: f(x, k=1)], "triu": [lambda f, x: f(x)], "meshgrid": [lambda f, x: f(x, x, indexing="ij")],
    "tensordot": [lambda f, x: f(x, x, axes=1)], "outer": [lambda f, x: f(x, x)],
    **{f"linalg.{name}": [lambda f, x: f(x)] for name in (
        "cholesky", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_norm", "matrix_rank",
        "pinv", "qr", "slogdet", "svd", "svdvals", "trace", "vector_norm", "matrix_transpose")},
    "linalg.cross": [lambda f, x: f(x, x), lambda f, x: f(x, x, axis=0)],
    "linalg.solve": [lambda f, x: f(x, x)], "linalg.matrix_power": [lambda f, x: f(x, 3)],
    **{f"fft.{name}": [lambda f, x: f(x), lambda f, x: f(x, n=4, norm="ortho")] for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": [lambda f, x: f(x), lambda f, x: f(x, axes=(0,))] for name in (
        "fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")},
}


def _agree(got: Any, want: Any, exact: bool) -> None:
    assert type(got) is type(want), (got, want)
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            _agree(g, w, exact)
    elif isinstance(want, jf.AbstractTensor):
        assert str(got.dtype) == str(want.dtype) and got.shape == want.shape
        if exact:
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
            if "float" in str(want.dtype):
                signs = (np.signbit(np.asarray(v)) for v in (got, want))
                np.testing.assert_array_equal(*(np.where(np.isnan(np.asarray(want)), False, s) for s in signs))
        else:
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)
    elif not isinstance(want, Exception):
        assert got == want


def _of_torch(array: np.ndarray[Any, Any]) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return jf.asarray(torch.from_numpy(np.ascontiguousarray(array)))


@pytest.mark.parametrize("make", [jf.asarray, _of_torch])
@pytest.mark.parametrize("name", sorted(n for n in CALLS if n.startswith("linalg.") or "." in n or hasattr(jf, n)))
def test_a_function_and_its_direct_way_agree(name: str, make: Callable[[Any], Any]) -> None:
    module, _, last = name.rpartition(".")
    function = getattr(getattr(jf, module) if module else jf, last)
    assert isinstance(make(np.ones(2)), EagerArray)
    itself, exact = function.__wrapped__, make is jf.asarray and name not in ("vecdot", "mean", "std", "var")
    for array in ARRAYS.values():
        for call in CALLS[name]:
            want = outcome(lambda c=call, a=array: c(itself, make(a())))
            _agree(outcome(lambda c=call, a=array: c(function, make(a()))), want, exact)


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("other", [2, 0.5, True, "itself", "ndarray", "wider", "list"])
def test_in_place_operators_agree_with_the_usual_ones(name: str, other: Any) -> None:
    def operand() -> Any:
        made = {"itself": jf.asarray, "ndarray": np.copy, "wider": lambda a: a.astype("complex128"), "list": list}
        return made[other](ARRAYS[name]()) if isinstance(other, str) else other

    if name == "scalar" and other == "list":
        return
    for dunder in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        usual, quick = (jf.asarray(ARRAYS[name]().copy()) for _ in range(2))
        want = outcome(lambda d=dunder, x=usual: getattr(EagerArray, f"__i{d}__")(x, operand()))
        got = outcome(lambda d=dunder, x=quick: getattr(x, f"__i{d}__")(operand()))
        assert got is quick if want is usual else type(got) is type(want)
        np.testing.assert_array_equal(quick.array, usual.array)


def test_large_sets_are_not_compared_pair_by_pair() -> None:
    x = jf.asarray(np.r_[np.arange(200_000.0), np.nan, -0.0])
    among = jf.asarray(np.r_[np.arange(0.0, 400_000.0, 3.0), np.nan])
    want = np.isin(x.array, among.array)
    np.testing.assert_array_equal(np.asarray(jf.isin(x, among)), want)
    np.testing.assert_array_equal(np.asarray(jf.isin(x, among, invert=True)), ~want)


def test_what_users_see_keeps_its_name_and_pickles() -> None:
    import inspect
    import pickle

    for function in (jf.sum, jf.sort, jf.sin, jf.linalg.svd, jf.fft.fft):
        assert pickle.loads(pickle.dumps(function)) is function and function.__doc__
        assert str(inspect.signature(function)) == str(inspect.signature(function.__wrapped__))


def test_in_a_trace_a_function_is_itself() -> None:
    x = np.linspace(0.0, 1.0, 5)
    f = jf.fuse(lambda x, g: (jf.sum(jf.sin(x)), g(x), jf.linalg.vector_norm(x), *map(jf.exp, [x])))
    for _ in range(2):
        got = f(x, jf.cos)
        for g, w in zip(got, (np.sum(np.sin(x)), np.cos(x), np.linalg.norm(x), np.exp(x)), strict=True):
            np.testing.assert_allclose(g, w)
    assert f.stats()["traces"] == 1
    np.testing.assert_allclose(jf.fuse(jf.sum)(x), x.sum())
