"""Random factor graphs by seed: all kinds of structures, tables, names and evidence that a user may have."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from factors.brute import LARGEST, Model, Scope, Variable

Random = np.random.Generator


def chain(n: int, draw: Random) -> list[tuple[int, ...]]:
    return [(k, k + 1) for k in range(n - 1)]


def tree(n: int, draw: Random) -> list[tuple[int, ...]]:
    return [(k, int(draw.integers(k))) for k in range(1, n)]


def cycle(n: int, draw: Random) -> list[tuple[int, ...]]:
    return [(k, (k + 1) % n) for k in range(n)]


def lattice(n: int, draw: Random) -> list[tuple[int, ...]]:
    width = max(1, round(n**0.5))
    return [(k, k + step) for k in range(n) for step in (1, width)
            if k + step < n and (step > 1 or (k + 1) % width or width == 1)]


def clique(n: int, draw: Random) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(min(n, 6)), 2))


def loose(n: int, draw: Random) -> list[tuple[int, ...]]:
    """Return any scopes: empty ones, ones with repeats, and variables in no factor."""
    return [tuple(draw.integers(n, size=int(draw.integers(5))).tolist()) for _ in range(int(draw.integers(2 * n + 1)))]


def apart(n: int, draw: Random) -> list[tuple[int, ...]]:
    """Return two cycles that share nothing, and numbers."""
    half = n // 2
    return [*cycle(half, draw), *((a + half, b + half) for a, b in cycle(n - half, draw)), (), ()]


def wide(n: int, draw: Random) -> list[tuple[int, ...]]:
    """Return a few scopes of many variables each."""
    return [tuple(draw.permutation(n)[: min(n, 7)].tolist()) for _ in range(3)]


STRUCTURES: list[Callable[[int, Random], list[tuple[int, ...]]]] = [
    chain, tree, cycle, lattice, clique, loose, loose, loose, apart, wide,
]


def uniform(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.uniform(size=shape)


def zeros(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.uniform(size=shape) * (draw.uniform(size=shape) < 0.5)


def mostly_zeros(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.uniform(size=shape) * (draw.uniform(size=shape) < 0.15)


def constraints(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return (draw.uniform(size=shape) < 0.7).astype([np.float64, np.int64, np.bool_, np.int8][int(draw.integers(4))])


def small_counts(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.integers(4, size=shape)


def large_counts(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.integers(2**40, size=shape)


def huge(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    """Return values from 1e-300 to 1e300 in one table."""
    return 10.0 ** draw.uniform(-300, 300, size=shape)


def tiny(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    """Return values about 1e-250, whose products vanish."""
    return draw.uniform(1e-250, 1e-249, size=shape)


def denormals(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return np.where(draw.uniform(size=shape) < 0.5, draw.uniform(1e-311, 1e-308, size=shape), draw.uniform(size=shape))


def ties(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.choice([0.25, 0.5], size=shape)


def equal(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return np.full(shape, 0.5)


def single(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.uniform(size=shape).astype(np.float32)


def single_zeros(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return zeros(shape, draw).astype(np.float32)


def single_huge(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return (10.0 ** draw.uniform(-35, 35, size=shape)).astype(np.float32)


def functional(shape: tuple[int, ...], draw: Random) -> Callable[..., Any]:
    """Return a factor that is a function of index arrays."""
    a, b = draw.uniform(0.1, 2, size=2).tolist()
    return lambda *indices: np.exp(-a * sum((k + 1) * index for k, index in enumerate(indices))) + b


def logs_near_zero(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.normal(size=shape)


def logs_wide(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.uniform(-1e4, 1e4, size=shape)


def logs_with_zeros(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return np.where(draw.uniform(size=shape) < 0.4, -np.inf, draw.uniform(-1e4, 0, size=shape))


def logs_of_one(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    """Return many logarithms of exactly 0, which are not impossible, beside -inf."""
    return draw.choice([0.0, -np.inf, -1.0], size=shape)


def logs_single(shape: tuple[int, ...], draw: Random) -> np.ndarray:
    return draw.normal(size=shape, scale=5).astype(np.float32)


PROBABILITIES: list[Callable[[tuple[int, ...], Random], Any]] = [
    uniform, zeros, mostly_zeros, constraints, small_counts, large_counts, huge, tiny, denormals, ties, equal, single,
    single_zeros, single_huge, functional,
]
LOGARITHMS: list[Callable[[tuple[int, ...], Random], Any]] = [
    logs_near_zero, logs_wide, logs_with_zeros, logs_of_one, logs_single,
]
TABLES = PROBABILITIES + LOGARITHMS
COUNTS = (constraints, small_counts, large_counts)
EXTENDED = (functional, huge, tiny, denormals, single_huge)


def sizes_of(n: int, draw: Random, limit: int) -> list[int]:
    """Return sizes 1 to 5, most of them 2, whose product is at most the limit."""
    sizes = draw.choice([1, 2, 2, 2, 3, 4, 5], size=n).tolist() if draw.uniform() < 0.7 else [2] * n
    while np.prod(sizes, dtype=object) > limit:
        sizes[int(np.argmax(sizes))] -= 1
    return [int(size) for size in sizes]


def names_of(n: int, draw: Random) -> list[Variable] | None:
    """Return any hashable names, or None where the sizes are to be a sequence."""
    makers: list[Callable[[int], Variable]] = [str, lambda k: ("row", k), lambda k: -k, lambda k: (k, str(k))[k % 2]]
    choice = int(draw.integers(2 * len(makers)))
    return [makers[choice](k) for k in range(n)] if choice < len(makers) else None


def laid(table: Any, draw: Random) -> Any:
    """Return the same table in another guise: nested lists, Fortran order, a strided or a read-only view."""
    if callable(table):
        return table
    way = int(draw.integers(6))
    if way == 0 and table.dtype != np.float32:
        return table.tolist()
    if way == 1 and table.ndim:
        return np.asfortranarray(table)
    if way == 2 and table.ndim:
        return np.repeat(table, 2, axis=-1)[..., ::2]
    if way == 3 and table.ndim:
        return np.flip(np.flip(table, 0).copy(), 0)
    if way == 4:
        table = table.copy()
        table.flags.writeable = False
    return table


def evidence_of(sizes: dict[Variable, int], draw: Random, whole: bool) -> dict[Variable, Any]:
    """Return evidence for some variables: a state, a NumPy integer, or weights with and without zeros."""
    evidence: dict[Variable, Any] = {}
    kind = int(draw.integers(5))
    for variable, size in sizes.items() if kind > 1 else ():
        if draw.uniform() < 0.7:
            continue
        state = int(draw.integers(size))
        weights = draw.uniform(size=size) * (draw.uniform(size=size) < 0.8)
        weights = np.round(3 * weights) if whole else weights
        evidence[variable] = weights if kind == 3 or (kind == 4 and draw.uniform() < 0.5) else (
            state if draw.uniform() < 0.7 else np.int32(state))
    return evidence


def draw_model(seed: int, number: int, table: str | None = None, limit: int | None = None) -> Model:
    """Return the model of a number: each takes the next kind of tables; one in 250 has up to 2**20 states."""
    draw = np.random.default_rng([seed, number])
    if limit is None:
        limit = LARGEST if number % 250 == 249 - number // 250 % 20 else 2**12
    maker = TABLES[number % len(TABLES)] if table is None else next(t for t in TABLES if t.__name__ == table)
    n = int(draw.integers(12, 21)) if limit == LARGEST else int(draw.integers(11))
    sizes = sizes_of(n, draw, limit)
    structure = STRUCTURES[int(draw.integers(len(STRUCTURES)))]
    scopes = [scope for scope in structure(n, draw) if n or not scope] if n else [()] * int(draw.integers(3))
    names = names_of(n, draw)
    variables: list[Variable] = list(range(n)) if names is None else names
    factors: list[tuple[Scope, Any]] = []
    for scope in scopes:
        order = draw.permutation(len(scope)) if structure is not loose else range(len(scope))
        ordered = tuple(scope[k] for k in order)
        shape = tuple(sizes[k] for k in ordered)
        made = laid(functional(shape, draw) if maker is functional and ordered else np.asarray(
            (uniform if maker is functional else maker)(shape, draw)), draw)
        factors += [(tuple(variables[k] for k in ordered), made)] * (2 if draw.uniform() < 0.1 else 1)
    drawn = dict(zip(variables, sizes, strict=True))
    evidence = evidence_of(drawn, draw, maker in COUNTS)
    return Model(drawn, factors, maker in LOGARITHMS, evidence, names is None)


def kind_of(number: int) -> str:
    return TABLES[number % len(TABLES)].__name__
