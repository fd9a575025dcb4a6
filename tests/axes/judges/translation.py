"""Equations of einsum, in letters, as operations over named axes.

einsum repeats axes of size 1, and `contract` does not: such axes are taken out here first.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jitfuse.axes import NamedAxis, TensorOp, ax, contract


@functools.cache
def operation(equation: str) -> TensorOp:
    """Return the operation of an equation."""
    inputs, output = equation.split("->")
    lists = [ax[tuple(NamedAxis(f"x{ord(letter)}") for letter in term)] for term in (*inputs.split(","), output)]
    return contract(tuple(lists[:-1]), lists[-1])


def contracted(inputs: str, output: str, arrays: Sequence[Any]) -> Any:
    """Return the sum of products of arrays."""
    terms, arrays = inputs.split(","), list(arrays)
    sizes: dict[str, int] = {}
    for letter, n in ((letter, n) for term, x in zip(terms, arrays) for letter, n in zip(term, x.shape)):
        sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    for k, (term, x) in enumerate(zip(terms, arrays)):
        alone = tuple(i for i, letter in enumerate(term[: x.ndim]) if x.shape[i] == 1 != sizes[letter])
        arrays[k] = x.squeeze(alone) if alone else x
        terms[k] = "".join(letter for i, letter in enumerate(term) if i not in alone)
    return operation(f"{','.join(terms)}->{output}")(*arrays)
