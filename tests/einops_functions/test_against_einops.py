"""Random calls beside einops itself: the same answers in the same memory, and the same refusals."""
from __future__ import annotations

import copy
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import amount
import numpy as np
import pytest

import jitfuse.einops as ours

sys.path.insert(0, str(Path(__file__).parent))
import patterns_drawn
from patterns_drawn import Call

theirs = pytest.importorskip("einops")
LIBRARIES = ("numpy", "torch")


def outcome(module: Any, made: Call, library: str) -> tuple[Any, list[Any]]:
    """Return what a call gives, or its error; and its arrays."""
    arrays: list[Any] = [*made.arrays]
    if library == "torch":
        import torch

        arrays = [torch.from_numpy(x) for x in arrays]
    rest, function = copy.deepcopy(made.rest), getattr(module, made.function)
    if made.function == "einsum":
        args: tuple[Any, ...] = (*arrays, *rest)
    elif made.function == "pack" or len(arrays) > 1:
        args = (arrays, *rest)
    else:
        args = (arrays[0], *rest)
    try:
        return function(*args, **made.sizes), arrays
    except Exception as error:
        return error, arrays


def memory(x: Any, arrays: list[Any]) -> list[bool]:
    """Tell which of the arrays a result shares memory with."""
    return [np.shares_memory(np.asarray(x), np.asarray(y)) for y in arrays]


def same(mine: Any, their: Any, mine_from: list[Any], their_from: list[Any], *, exact: bool) -> None:
    """Check that two results are equal: classes, dtypes, shapes, values, and the arrays that they share memory with."""
    if isinstance(their, list | tuple) and type(their).__name__ != "Size":
        assert type(mine) is type(their) and len(mine) == len(their)
        for a, b in zip(mine, their):
            same(a, b, mine_from, their_from, exact=exact)
        return
    if not hasattr(their, "dtype"):
        assert type(mine) is type(their) and mine == their
        return
    assert type(mine) is type(their) and mine.dtype == their.dtype and mine.shape == their.shape
    assert memory(mine, mine_from) == memory(their, their_from)
    a, b = np.asarray(mine), np.asarray(their)
    if exact or a.dtype.kind in "iub":
        np.testing.assert_array_equal(a, b)
    else:
        np.testing.assert_allclose(a, b, rtol=4e-3 if a.dtype == np.float16 else 1e-5)


def positive(made: Call, library: str) -> Call:
    """Return a call that the library takes: torch has no arrays with negative strides."""
    if library == "numpy":
        return made
    return made._replace(arrays=[x.copy() if any(s < 0 for s in x.strides) else x for x in made.arrays])


def mends(made: Call, their: Exception) -> bool:
    """Tell whether einops fails here for no mistake of the caller's (see docs/einops.md)."""
    return made.function == "pack" and any(x.size == 0 for x in made.arrays) and "reshape" in str(their)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("seed", range(8))
def test_same_answers(library: str, seed: int) -> None:
    pytest.importorskip(library)
    rng = random.Random(seed)
    given = 0
    for _ in range(amount.drawn(300)):
        made = positive(patterns_drawn.call(rng), library)
        (mine, mine_from), (their, their_from) = (outcome(m, made, library) for m in (ours, theirs))
        if isinstance(their, Exception):
            assert isinstance(mine, Exception) or mends(made, their), (made, their)
            continue
        assert not isinstance(mine, Exception), (made, mine)
        given += 1
        try:
            same(mine, their, mine_from, their_from, exact=made.function not in ("einsum", "reduce"))
        except AssertionError as error:
            raise AssertionError(f"{library}: {made}\n{mine}\n{their}") from error
        again, _ = outcome(ours, made, library)  # a warm call
        same(again, their, mine_from, their_from, exact=made.function not in ("einsum", "reduce"))
    assert given > 10


def stricter(made: Call) -> bool:
    """Tell whether a call that einops takes is a mistake all the same (see docs/einops.md)."""
    if made.function == "unpack":  # sizes beside a -1 that take more than there is, or no sizes at all
        return any(n < 0 for shape in made.rest[0] for n in shape)
    return any(size < 0 for size in made.sizes.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("seed", range(8))
def test_same_refusals(library: str, seed: int) -> None:
    pytest.importorskip(library)
    rng = random.Random(100 + seed)
    refused = 0
    for _ in range(amount.drawn(300)):
        made = positive(patterns_drawn.mistaken(rng), library)
        (mine, mine_from), (their, their_from) = (outcome(m, made, library) for m in (ours, theirs))
        if isinstance(their, Exception):
            refused += 1
            assert isinstance(mine, Exception) or mends(made, their), (made, their)
            if isinstance(their, theirs.EinopsError):
                assert isinstance(mine, ours.EinopsError), (made, mine)
        elif isinstance(mine, Exception):
            assert stricter(made), (made, mine)
        else:
            same(mine, their, mine_from, their_from, exact=made.function not in ("einsum", "reduce"))
    assert refused > 10


@pytest.mark.parametrize("library", LIBRARIES)
def test_functions_as_reductions_see_what_einops_shows_them(library: str) -> None:
    pytest.importorskip(library)
    rng = random.Random(5)
    for _ in range(100):
        made = positive(patterns_drawn.transform(rng), library)
        if made.function != "reduce":
            continue
        seen: list[Any] = []

        def reduction(x: Any, axes: tuple[int, ...], seen: list[Any] = seen) -> Any:
            seen.append((x.shape, axes, np.asarray(x).copy()))
            return x.sum(axes)

        made = made._replace(rest=(made.rest[0], reduction))
        with warnings.catch_warnings(record=True):
            (mine, mine_from), (their, their_from) = (outcome(m, made, library) for m in (ours, theirs))
        assert isinstance(mine, Exception) == isinstance(their, Exception), (made, mine, their)
        if not isinstance(their, Exception):
            same(mine, their, mine_from, their_from, exact=False)
        if seen:
            (shape, axes, x), (other, others, y) = seen
            assert shape == other and axes == others
            np.testing.assert_array_equal(x, y)
