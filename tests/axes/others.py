"""Operations that einops or numpy.einsum can express, in their language: a second and a third judge."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from axes.terms import Array, Axis, Number, Operation, Pack, Product, Sum, Term, leaves

REDUCERS = ("sum", "mean", "max", "min", "prod", "any", "all")


def _leaves(array: Array) -> list[Axis | Pack | Number]:
    return [leaf for term in array for leaf in leaves(term)]


def _has_sum(term: Term) -> bool:
    return isinstance(term, Sum) or (isinstance(term, Product) and any(map(_has_sum, term.of)))


def _plain(array: Array) -> bool:
    """Return whether there are no sums, no repeated names and at most one pack."""
    named = [leaf for leaf in _leaves(array) if not isinstance(leaf, Number)]
    packs = [leaf for leaf in named if isinstance(leaf, Pack)]
    return len(named) == len(set(named)) and len(packs) < 2 and not any(map(_has_sum, array))


def _spelt(term: Term, inside: bool = False) -> str:
    if isinstance(term, Product):
        text = " ".join(_spelt(inner, True) for inner in term.of)
        return text if inside else f"({text})"
    if isinstance(term, Number):
        return str(term.size)
    assert isinstance(term, (Axis, Pack))
    return "..." if isinstance(term, Pack) else term.name


def einops_call(operation: Operation) -> tuple[str, str, dict[str, Any]] | None:
    """Return the function of einops, its pattern and its keywords."""
    if operation.kind not in ("rearrange", "repeat", "reduce") or len(operation.left) != 1 or len(operation.right) != 1:
        return None
    left, right = operation.left[0], operation.right[0]
    if not (_plain(left) and _plain(right)) or not (operation.reducer in REDUCERS or operation.reducer is None):
        return None
    numbers = {side: any(isinstance(x, Number) and x.size != 1 for x in _leaves(array))
               for side, array in (("left", left), ("right", right))}
    if numbers["left"] and (numbers["right"] or operation.kind != "reduce"):
        return None
    if numbers["right"] and operation.kind != "repeat":
        return None
    if operation.kind == "reduce" and set(_leaves(left)) <= {*_leaves(right), Number(1)}:
        return None  # einops gives the array as it is, where nothing is reduced
    packs = {leaf for array in (left, right) for leaf in _leaves(array) if isinstance(leaf, Pack)}
    if len(packs) > 1 or (packs and not any(isinstance(term, Pack) for term in left)):
        return None
    if operation.kind != "reduce" and packs and not any(isinstance(leaf, Pack) for leaf in _leaves(right)):
        return None
    keywords = {name: size for name, size in operation.sizes.items() if isinstance(size, int)}
    keywords |= {"reduction": operation.reducer} if operation.kind == "reduce" else {}
    pattern = " -> ".join(" ".join(map(_spelt, array)) for array in (left, right))
    return operation.kind, pattern, keywords


def by_einops(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return what einops gives; None where it cannot express the operation, or refuses numbers or empty arrays."""
    import einops

    call = einops_call(operation)
    if call is None:
        return None
    function, pattern, keywords = call
    exact = operation.reducer != "mean" or arrays[0].dtype.kind in "fc"
    try:
        return np.asarray(getattr(einops, function)(arrays[0] if exact else arrays[0] + 0.0, pattern, **keywords))
    except (einops.EinopsError, NotImplementedError, ZeroDivisionError):  # no mean of complex numbers
        return None


def einsum_patterns(operation: Operation) -> list[str] | None:
    """Return a pattern of numpy.einsum for each output."""
    if operation.kind not in ("contract", "einop") or operation.reducer not in (None, "sum"):
        return None
    everything = [*operation.left, *operation.right]
    if any(not isinstance(term, (Axis, Pack)) for array in everything for term in array):
        return None
    packs = {term for array in everything for term in array if isinstance(term, Pack)}
    if len(packs) > 1 or any(sum(isinstance(term, Pack) for term in array) > 1 for array in everything):
        return None
    inputs = {term for array in operation.left for term in array}
    if packs and not all(any(isinstance(term, Pack) for term in array) for array in operation.right):
        return None
    if any(len(array) != len(set(array)) or not set(array) <= inputs for array in operation.right):
        return None
    spelt = [["".join(map(_spelt, array)) for array in side] for side in (operation.left, operation.right)]
    return [f"{','.join(spelt[0])}->{out}" for out in spelt[1]]


def by_einsum(operation: Operation, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Return what numpy.einsum gives of all arrays, one output after the other; None where it cannot express it."""
    patterns = einsum_patterns(operation)
    wide = [array.astype(complex if array.dtype.kind == "c" else float) for array in arrays]
    return patterns and [np.asarray(np.einsum(pattern, *wide)) for pattern in patterns]


def uses_every_array(sources: Sequence[tuple[int, ...]], count: int) -> bool:
    """Return whether each output is made of all arrays, as einsum's are."""
    return all(set(made_of) == set(range(count)) for made_of in sources)
