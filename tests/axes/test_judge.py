"""Hand-written cases of the judge: what docs/named-axes.md says, worked out on paper."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from axes.oracle import judge
from axes.parts import wholes
from axes.sources import UnclearError
from axes.terms import Axis, Number, Operation, Pack, Product, Side, Sum, Term

a, b, c, d, n = map(Axis, "abcdn")
tail = Pack("tail")
one = Number(1)


def product(*of: Term) -> Product:
    return Product(of)


def joined(*of: Term) -> Sum:
    return Sum(of)


def results(kind: str, left: Side, right: Side, *arrays: Any, reducer: Any = None, **sizes: Any) -> list[Any]:
    judged = judge(Operation(kind, left, right, sizes, reducer), [np.array(array) for array in arrays])
    assert not judged.errors, judged.errors
    return [output.tolist() for output in judged.outputs]


def errors(kind: str, left: Side, right: Side, *shapes: tuple[int, ...], **sizes: Any) -> set[str]:
    operation = Operation(kind, left, right, sizes, "sum" if kind == "reduce" else None)
    return set(judge(operation, [*map(np.zeros, shapes)]).errors)


def test_the_last_factor_moves_fastest() -> None:
    assert results("rearrange", ((product(a, b),),), ((b, a),), [0, 1, 2, 3, 4, 5], a=2) == [[[0, 3], [1, 4], [2, 5]]]


def test_sums_split_and_join() -> None:
    assert results("rearrange", ((joined(a, b),),), ((b,), (a,)), [0, 1, 2], a=1) == [[1, 2], [0]]
    assert results("rearrange", ((a,), (b,)), ((joined(b, a),),), [0, 1], [2]) == [[2, 0, 1]]
    assert results("rearrange", ((product(joined(a, one), b),),), ((a, b), (b,)), [0, 1, 2, 3], a=1, b=2) == [
        [[0, 1]], [2, 3],
    ]


def test_of_two_sums_the_first_changes_slowest() -> None:
    left = ((joined(a, b), joined(one, n)),)
    right = ((a,), (a, n), (b,), (b, n))
    assert results("rearrange", left, right, [[0, 1], [2, 3]], a=1) == [[0], [[1]], [2], [[3]]]


def test_a_sum_that_is_written_the_same_counts_as_one_axis() -> None:
    operation = Operation("reduce", ((joined(a, b), c),), ((c,),), {}, "sum")
    assert wholes(operation) == [joined(a, b)]
    assert results("reduce", *operation[1:3], [[1, 2], [3, 4], [5, 6]], reducer="sum") == [[9, 12]]
    assert not wholes(Operation("rearrange", ((joined(a, b),),), ((a,), (b,)), {}))


def test_diagonals_are_taken_and_filled() -> None:
    assert results("rearrange", ((a, a),), ((a,),), [[1, 2], [3, 4]]) == [[1, 4]]
    assert results("rearrange", ((a,),), ((a, a),), [1, 4]) == [[[1, 0], [0, 4]]]
    assert results("rearrange", ((product(a, a),),), ((a,),), [1, 2, 3, 4]) == [[1, 4]]


def test_the_first_number_is_the_first() -> None:
    two = Number(2)
    assert results("rearrange", ((two, a, two),), ((a, two, two),), [[[1, 2]], [[3, 4]]]) == [[[[1, 2], [3, 4]]]]
    assert results("repeat", ((two,),), ((two, two),), [1, 2]) == [[[1, 1], [2, 2]]]


def test_packs_stand_for_their_axes() -> None:
    assert results("rearrange", ((a, tail),), ((product(tail, a),),), [[1, 2], [3, 4]]) == [[1, 3, 2, 4]]
    assert results("rearrange", ((a, tail),), ((tail, a),), [1, 2]) == [[1, 2]]


def test_products_are_summed() -> None:
    assert results("contract", ((a, b), (b,)), ((a,),), [[1, 2], [3, 4]], [10, 1]) == [[12, 34]]
    assert results("contract", ((joined(a, b),), (c,)), ((a, c), (b, c)), [1, 2], [5], a=1) == [[[5]], [[10]]]
    assert results("einop", ((a,), (b,)), ((a, b), (a,)), [1, 2], [3]) == [[[3], [6]], [1, 2]]


def test_reducers_in_phases() -> None:
    phases = (((a,), "max"), ((b,), "sum"))
    assert results("reduce", ((a, b),), ((),), [[1, 5], [3, 2]], reducer=phases) == [8]
    assert results("reduce", ((product(a, b),),), ((a,),), [1, 5, 3, 2], reducer="max", a=2) == [[5, 3]]


def test_errors() -> None:
    assert errors("rearrange", ((a, b),), ((a,),), (2, 3)) == {"axes"}
    assert errors("rearrange", ((product(a, b),),), ((a, b),), (6,)) == {"ambiguous_sizes"}
    assert errors("rearrange", ((product(a, b),),), ((a, b),), (0,), a=0) == {"ambiguous_sizes"}
    assert errors("rearrange", ((product(a, a),),), ((a,),), (6,)) == {"inconsistent_sizes"}
    assert errors("repeat", ((a,),), ((a, n),), (2,)) == {"ambiguous_sizes"}
    assert errors("reduce", ((a, b),), ((c,),), (3, 2), c=1) == {"axes"}
    assert errors("reduce", ((joined(a, b, n), c),), ((c,), (n, c)), (3, 2), a=1, b=1) == {"ambiguous_parts"}
    assert errors("einop", ((joined(a, b),), (c,)), ((a, c),), (3,), (2,), a=1) == {"unused_part"}
    assert errors("contract", ((a, Number(3)), (a,)), ((a,),), (2, 3), (2,)) == {"number_in_product"}


def test_what_the_page_leaves_open() -> None:
    with pytest.raises(UnclearError):
        errors("rearrange", ((a,),), ((a,), (a,)), (2,))


def test_packs_are_compared_by_name() -> None:
    sides = ((a,), (a, tail)), ((a, tail), (a,))
    assert results("rearrange", *sides, [0, 1], [2, 3]) == [[2, 3], [0, 1]]
    assert errors("rearrange", ((a, tail),), ((a,),), (2,)) == {"axes"}
    assert results("einop", ((a,), (b,)), ((a,), ()), [1, 2], [3, 4]) == [[1, 2], 7]
