"""Operands for every operator of the table, over shapes, dtypes and special values."""
from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import amount
import numpy as np
import pytest
from semiring_tables import products

from jitfuse.dtypes import SUPPORTED, numpy_dtype
from jitfuse.errors import JitfuseError
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics import generators, linear_algebra

Case = tuple[list[Any], dict[str, Any]]
SHAPES = [(), (0,), (1,), (7,), (3, 0), (2, 3, 4)]
SQUARE = SHAPES[-1]
"""The shape with which every dtype meets every other; with the others it meets its own and a few."""
SPECIAL: dict[str, list[Any]] = {
    "float32": [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e30, 3.0, 1e-40, -0.75, 16777217.0],
    "float64": [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e300, 3.0, 5e-324, -0.75, 2.0**53],
    "int32": [0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 3, 40, 32, 31, 2],
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), 7, -7, 3, 70, 64, 63, 2],
    "bool": [True, False],
    "float16": [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 60000.0, 3.0, 6e-8, -0.75, 2049.0],
    "bfloat16": [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e38, 3.0, 1e-40, -0.75, 259.0],
    **{f"int{n}": [0, 1, -1, 2 ** (n - 1) - 1, -(2 ** (n - 1)), 7, -7, 3, n + 8, n, n - 1, 2] for n in (8, 16)},
    **{
        f"uint{n}": [0, 1, 5, 2 ** (n - 1) - 1, 2 ** (n - 1), 7, 2**n - 1, 3, n + 8, n, n - 1, 2]
        for n in (8, 16, 32, 64)
    },
    "complex64": [0.0, 1.5 - 2.5j, 3j, complex(math.inf, 1), complex(1, -math.inf), 1, complex(math.nan, 2), -2 - 1j,
                  -0.5 + 0.25j, 7 - 7j, -3 + 4j, 1e30 - 1j],
    "complex128": [0.0, 1.5 - 2.5j, 3j, complex(math.inf, 1), 1, 1e300 + 1e300j, complex(1, math.nan), -2 - 1j,
                   -0.5 + 0.25j, 7 - 7j, -3 + 4j, 1e-300 - 1j],
}


ARRANGEMENTS: dict[str, Callable[[tuple[int, ...]], list[dict[str, Any]]]] = {
    "roll": lambda shape: [{"shifts": (k,), "axes": (a,)} for k in (0, 1, -9) for a in range(len(shape))],
    "stack": lambda shape: [{"axis": a} for a in range(-1, len(shape) + 1)],
    "tile": lambda shape: [{"reps": r} for r in ((), (2,), (0, 1), (3, 2))],
    "repeat": lambda shape: [{"times": r, "axis": a} for r in (0, 1, 3) for a in range(len(shape))],
    "pad": lambda shape: [
        {"before": (2,) * len(shape), "after": (1,) * len(shape), "mode": m, "values": (1, 2) * len(shape), "odd": odd}
        for m in ("constant", "edge", "reflect", "symmetric", "wrap", "empty", "maximum") for odd in (False, True)
    ],
    "tril": lambda shape: [{"k": k} for k in (-2, 0, 1)], "triu": lambda shape: [{"k": k} for k in (-2, 0, 1)],
    "diag": lambda shape: [{"k": k} for k in (-2, 0, 1)], "diagonal": lambda shape: [{"offset": k} for k in (-1, 0, 1)],
    "windows": lambda shape: [
        {"sizes": (k,) * r, "steps": (s,) * r, "dilations": (d,) * r}
        for r in range(1, len(shape) + 1) for k, s, d in ((1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 1, 2), (1, 3, 1))],
}
"""Attributes of the operators that rearrange elements, for an array of a shape."""


@functools.cache
def special(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Return an array that nobody writes, or a NumPy scalar for rank 0, of special values in an order of the seed's."""
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL[dtype]).astype(numpy_dtype(dtype))
    order = np.random.default_rng(seed).permutation(np.arange(math.prod(shape)) % len(values))
    made = values[order].reshape(shape)
    made.flags.writeable = False
    return made[()]


def cases_of(op: ops.Op) -> Iterator[Case]:
    """Yield operands and attributes that the table accepts, for every shape and dtype."""
    for shape, dtype in itertools.product(SHAPES, SUPPORTED):
        for operands, attrs in _cases(op, shape, dtype):
            try:
                op.result_metas([Meta(np.shape(x), np.asarray(x).dtype.name) for x in operands], attrs)
            except JitfuseError:
                continue
            yield operands, op.check_attrs(attrs)


def _cases(op: ops.Op, shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    twin = ops.get(op.name.removeprefix("complex_")) if op.name.startswith("complex_") else None
    if twin is not None:
        yield from _cases(twin, shape, dtype)
        return
    x = special(shape, dtype, 1)
    rank, size = len(shape), math.prod(shape)
    starts, counts = tuple(max(n - 1, 0) for n in shape), tuple((n + 1) // 2 for n in shape)
    region = {"starts": starts, "steps": (-2,) * rank, "counts": counts}
    if op.name == "scatter":
        yield from _indexed(op, x, shape)
    elif op.kind == ops.ELEMENTWISE or (op.kind == ops.LIBRARY and op.loop is not None):
        yield from _elementwise(op, x, shape, dtype)
    elif op.kind == ops.LIBRARY:
        yield from _library(op, x, shape)
    elif op.kind == ops.REDUCTION:
        for axis in [None, (), 0, -1, tuple(range(rank)), *((0, a) for a in range(1, rank))]:
            if op.name.startswith("nanarg") and np.any(np.all(np.isnan(x), axis)):
                continue  # these raise
            corrections = [0.0, 1, 99.5] if "correction" in op.attrs else [0]
            for keepdims, correction in itertools.product([False, True], corrections):
                attrs = {"axis": axis, "keepdims": keepdims, "correction": correction}
                yield [x], {name: attrs.get(name, default) for name, default in op.attrs.items()}
    elif op.kind == ops.SCAN:
        yield from (([x], {"axis": axis}) for axis in range(-rank, rank))
    elif op.name in ("gather", "take", "take_along_axis"):
        yield from _indexed(op, x, shape)
    elif op.name in ARRANGEMENTS:
        yield from (([x, special(shape, "float32", 2)][: 1 + (op.arity != 1)], a) for a in ARRANGEMENTS[op.name](shape))
    elif op.name == "einsum":
        small = np.asarray(special(shape, "int32", 1) % 3, dtype)
        letters = "abcd"[:rank]
        yield [small], {"subscripts": f"{letters}->{letters[::-1]}", "path": ()}
        yield [small, small], {"subscripts": f"{letters},{letters}->{letters[:1]}", "path": ((0, 1),)}
        path = ((0, 1), (0, 1))
        yield [small, small, small], {"subscripts": f"{letters},{letters},{letters}->{letters[1:]}", "path": path}
    elif op.name == "reshape":
        yield from (([x], {"shape": new}) for new in [(size,), (1, *shape), shape[::-1]])
    elif op.name == "transpose":
        yield from (([x], {"axes": axes}) for axes in itertools.permutations(range(rank)))
    elif op.name == "broadcast_to":
        yield from (([x], {"shape": new}) for new in [shape, (2, *shape), (5,), (2, 1)])
    elif op.name == "slice":
        yield [x], region
        yield [x], {"starts": (0,) * rank, "steps": (1,) * rank, "counts": (0,) * rank}
    elif op.name == "update_slice":
        for other in SUPPORTED:
            yield [x, special(region["counts"], other, 2)], region
            yield [x, special((), other, 3)], region
    elif op.name == "update_at":
        for lead in range(rank + 1):
            last = np.int64(math.prod(shape[:lead]) - 1)
            yield from (([x, special(shape[lead:], other, 3), last], {}) for other in SUPPORTED if last >= 0)
    elif op.name == "concat":
        for axis in range(-1, rank):
            yield [x, special(shape, "float64", 2), x], {"axis": axis}
    elif op.name == "matmul":
        small = np.asarray(special(shape, "int32", 1) % 7, numpy_dtype(dtype))
        yield [small, small], {}
        yield [small, np.ones((*shape[:-2], *shape[-1:], 3), "float32")], {}
        yield [small, np.ones(shape[-1:], "int64")], {}
    else:
        yield from _made(op, x, shape, dtype)


def _elementwise(op: ops.Op, x: Any, shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    if op.name == "require":  # conditions that do not hold raise
        yield from (([x, ok], {"status": 2}) for ok in (True, np.ones(shape, dtype), np.ones((2, *shape), bool)))
        return
    attr_choices = [{"dtype": d} for d in SUPPORTED] if "dtype" in op.attrs else [{}]
    few = ("float32", "int64", "bool", "uint8", "float16")
    dtypes = few if op.arity > 2 else SUPPORTED if shape == SQUARE else dict.fromkeys((dtype, *few))
    others_of = itertools.product(dtypes, repeat=op.arity - 1)
    for others in others_of if op.arity < 4 else [(d,) * (op.arity - 1) for d in dtypes]:
        for attrs in attr_choices:
            operands = [x, *(special(shape, d, 2 + k) for k, d in enumerate(others))]
            if op.name == "power" and np.asarray(operands[1]).dtype.kind in "iu":
                operands[1] = operands[1] & 15  # NumPy raises for integers raised to negative ones
            yield operands, attrs
            yield [operands[0], *(special((), d, 9) & 3 if "int" in d else special((), d, 9) for d in others)], attrs


def _library(op: ops.Op, x: Any, shape: tuple[int, ...]) -> Iterator[Case]:
    """Yield cases of sorting and order statistics: over each axis, and all of them for statistics."""
    if hasattr(linear_algebra, op.name):
        yield from _matrices(op, x, shape)
    elif op.name.startswith("generator_"):
        yield from _draws(op, shape, np.asarray(x).dtype.name)
    elif "norm" in op.attrs:
        if 0 in shape:
            return  # NumPy's irfft gives what lies in memory
        for axis, n, norm in itertools.product(range(-1, len(shape)), (1, 4, 5), ("backward", "ortho", "forward")):
            attrs = {"n": n, "axis": axis} if "n" in op.attrs else {"s": (n,), "axes": (axis,)}
            yield [x], {**attrs, "norm": norm}
    elif op.name == "semiring_sums":
        if np.asarray(x).dtype.name in ("float32", "float64"):
            yield from (([x, x], products(carrier, math.prod(shape))) for carrier in ("log", "sum_product"))
    elif op.name in FAMILIES["counted"]:
        yield from _counted(op, x, shape)
    elif op.name == "searchsorted":
        yield from (([np.sort(x, axis=None), special(shape, "float64", 2)], {"side": s}) for s in ("left", "right"))
    elif "positions" in op.attrs:
        yield from (([x], {"axis": axis, "positions": (0,)}) for axis in range(-1, len(shape)))
    elif op.name == "topk":
        for axis, largest in itertools.product(range(-1, len(shape)), (True, False)):
            if shape:
                for count in {0, min(1, shape[axis]), shape[axis]}:
                    yield [x], {"axis": axis, "count": count, "largest": largest}
    elif "sorting" in op.attrs:
        for axis, sorting in itertools.product(range(-1, len(shape)), ("quicksort", "stable")):
            yield [x], {"axis": axis, "sorting": sorting}
    elif math.prod(shape):
        for axis, keepdims in itertools.product([None, -1, tuple(range(len(shape)))], [False, True]):
            yield [x, 0.25][: op.arity], {"axis": axis, "keepdims": keepdims}


def _counted(op: ops.Op, x: Any, shape: tuple[int, ...]) -> Iterator[Case]:
    """Yield cases of places, distinct elements and sets."""
    if op.name == "nonzero_counted":
        yield [x], {"size": int(np.count_nonzero(x))}
    elif op.name == "repeat_counted":
        counts = np.abs(x) % 4 if np.asarray(x).dtype.kind in "iu" else x
        yield [counts], {"size": int(np.sum(counts)) if np.asarray(x).dtype.kind in "iub" else 0}
    elif op.name == "unique_padded":
        for axis, asked in itertools.product([None, *range(len(shape))], itertools.product([False, True], repeat=3)):
            names = dict(zip(["return_index", "return_inverse", "return_counts"], asked, strict=True))
            if np.asarray(x).dtype.kind != "c" or axis is None:
                yield [x], {"axis": axis, **names}
    else:
        for values in itertools.product([False, True], repeat=len(op.attrs)):
            yield [x, np.ravel(x)[::2]], dict(zip(op.attrs, values, strict=True))


def _draws(op: ops.Op, shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    """Yield seeds, and draws of a dtype by methods with and without parameters."""
    state = generators.generator_seed(np.int64(5))
    if op.name == "generator_seed":
        yield [np.asarray(3, dtype)], {}
    elif dtype in ("float32", "float64"):
        yield [state], {"method": "random", "shape": shape, "dtype": dtype}
        yield [state, np.float64(2), np.float64(3)], {"method": "normal", "shape": shape, "dtype": dtype}
    elif np.dtype(dtype).kind in "iu":
        yield [state, np.int64(2), np.int64(30)], {"method": "integers", "shape": shape, "dtype": dtype}
        yield [state, np.int64(30)], {"method": "choice", "shape": shape, "dtype": dtype}


def _matrices(op: ops.Op, x: Any, shape: tuple[int, ...]) -> Iterator[Case]:
    """Yield cases of linear algebra: positive definite matrices in stacks, and those that are not square."""
    if shape != SHAPES[0]:
        return
    for stack in ((3, 3), (2, 2, 2), (0, 2, 2), (4, 2), (2, 1, 3)):
        values = np.abs(np.random.default_rng(7).normal(size=stack))  # unsigned dtypes hold them too
        square = stack[-1] == stack[-2]
        a = values @ values.swapaxes(-1, -2) + 9 * np.eye(stack[-1]) if square else values
        a = a.astype(np.asarray(x).dtype)
        if square and a.dtype == bool:
            continue  # singular
        others = {"solve": [a[..., :1]], "pinv": [np.float64(1e-6)]}.get(op.name, [])
        for value in (False, True) if op.attrs else (None,):
            named = {k: ("complete" if value else "reduced") if k == "mode" else value for k in op.attrs}
            yield [a, *others], named


def _indexed(op: ops.Op, x: Any, shape: tuple[int, ...]) -> Iterator[Case]:
    """Yield cases of gathers and scatters: one index, or two that are broadcast, on every axis."""
    if 0 in shape:
        return
    for axis, n in enumerate(shape):
        index = np.array([[0, -1], [n - 1, -n]])
        if op.name == "take":
            yield from (([x, index], {"axis": axis, "mode": mode}) for mode in ("raise", "wrap", "clip"))
        elif op.name == "take_along_axis":
            along = np.arange(2).reshape(tuple(2 if k == axis else 1 for k in range(len(shape))))
            yield from (([x, part], {"axis": axis}) for part in (along - 1, -along.astype("int32") // 2))
        else:
            operands = [x, np.int64(3)] if op.name == "scatter" else [x]
            yield [*operands, index], {"axes": (axis,), "place": axis}
            if axis:
                yield [*operands, np.array([0, -1]), index], {"axes": (0, axis), "place": 0}


def _made(op: ops.Op, x: Any, shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    state, index = np.array([12345, 6]), np.int64(3)
    if op.name in ("zeros", "random_uniform"):
        yield [state, index][: op.arity], {"shape": shape, "dtype": dtype}
    elif op.name in ("full", "extent"):
        for value in SPECIAL[dtype]:
            attrs = {"shape": shape, "value": value, "dtype": dtype, "weak": False}
            yield [], {name: attrs[name] for name in op.attrs}
    elif op.name == "arange":
        for start, step in [(0, 1), (5, -2)]:
            yield [], {"start": start, "step": step, "count": math.prod(shape), "dtype": dtype}
    elif op.name == "constant":
        yield [], {"shape": shape, "dtype": dtype, "data": np.asarray(x).tobytes()}
    elif op.name == "random_advance":
        yield [state], {}
    elif op.name == "dropout":
        yield from (([x, state, index], {"p": p}) for p in (0.0, 0.25))
    else:
        assert op.name == "mode_select", op.name
        yield [x, special(shape, dtype, 2)], {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `op` once for every operator of the table but loops and branches."""
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", [op for op in ops.table() if op.kind != ops.CONTROL], ids=lambda op: op.name)


@pytest.fixture(scope="session")
def comparable() -> Any:
    """The function that returns an array as NumPy's testing functions take it: bfloat16 as float32."""
    def convert(x: Any) -> Any:
        x = np.asarray(x)
        return x.astype("float32") if x.dtype.name == "bfloat16" else x

    return convert


@pytest.fixture(scope="session")
def cases() -> Any:
    """The function that yields the cases of an operator; of each, at most so many, drawn by its name."""
    def some(op: ops.Op, most: int | None = None) -> list[Case]:
        found = list(cases_of(op))
        drawn = most is not None and most < len(found) and not amount.extended()
        return random.Random(op.name).sample(found, most) if drawn else found

    return some
