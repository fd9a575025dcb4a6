"""The dtype and shape rules of the op table, against what NumPy really returns."""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from amount import drawn
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, broadcastable_shapes, mutually_broadcastable_shapes

from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, numpy_dtype, result_type
from jitfuse.errors import ArgumentError, DTypeError, JitfuseError, ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.ir.rules import shape_rules

EXAMPLES = settings(max_examples=drawn(100), deadline=None)
STRONG = [(Meta((), d), numpy_dtype(d).type(1)) for d in SUPPORTED]
ARRAYS = [(Meta((2,), d), np.ones(2, numpy_dtype(d))) for d in SUPPORTED]
WEAK = [(Meta((), WEAK_DTYPE[type(v)], weak=True), v) for v in (True, 1, 1.0, 1j)]
PYTHON_OPERATORS = {
    "negative", "positive", "abs", "bitwise_invert", "add", "subtract", "multiply", "divide", "floor_divide",
    "remainder", "power", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "real", "imag",
}
ELEMENTWISE = [op for op in ops.table() if op.kind == ops.ELEMENTWISE and op.name not in ("astype", "python_number")]
REFUSE_BFLOAT16 = {"nan_to_num", "round"}
REDUCTIONS = [op for op in ops.table() if op.kind == ops.REDUCTION]


def row(name: str) -> ops.Op:
    op = ops.get(name)
    assert op is not None
    return op


def numpy_answer(op: ops.Op, values: list[Any], attrs: dict[str, Any]) -> Any:
    """NumPy's result, or the exception's class."""
    with np.errstate(all="ignore"):
        try:
            return np.asarray(op.numpy(*values, **attrs))
        except (TypeError, ValueError) as error:
            return type(error)


def table_answer(op: ops.Op, metas: list[Meta], attrs: dict[str, Any]) -> Any:
    """The inferred meta, or the exception's class."""
    try:
        return op.result_meta(metas, attrs)
    except JitfuseError as error:
        return type(error)


def agrees(numpy: Any, table: Any) -> bool:
    """Same dtype and shape, or both refuse; a dtype of NumPy's that is not supported must be refused."""
    if isinstance(numpy, type):
        return isinstance(table, type)
    if numpy.dtype.name not in SUPPORTED:
        return table is DTypeError
    return isinstance(table, Meta) and (table.dtype, table.shape) == (numpy.dtype.name, numpy.shape)


def combinations(operands: list[Any], arity: int) -> Iterator[tuple[Any, ...]]:
    """Yield operands of every pair of dtypes at the first two places; further operands run with these."""
    count = len(operands)
    for i, j in itertools.product(range(count), range(count if arity > 1 else 1)):
        yield tuple(operands[k % count] for k in (i, j, i + j, i + 2 * j)[:arity])


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_dtype_pair_of_an_elementwise_operator_gives_numpys_result(op: ops.Op) -> None:
    for combination in combinations([*STRONG, *WEAK, *(ARRAYS if op.arity < 3 else ARRAYS[:1])], op.arity):
        metas = [m for m, _ in combination]
        numpy = numpy_answer(op, [v for _, v in combination], {})
        table = table_answer(op, metas, {})
        if op.name in REFUSE_BFLOAT16 and table is DTypeError:
            continue
        assert agrees(numpy, table), f"{op.name}({', '.join(map(str, metas))}): NumPy {numpy!r}, table {table}"


def test_python_numbers_are_weak_and_of_rank_0() -> None:
    op = ops.get("python_number")
    assert op is not None
    for dtype, value in (("bool", True), ("int64", -7), ("float64", -0.0)):
        assert op.infer([Meta((), dtype)], {}) == Meta((), dtype, weak=True)
        made = op.numpy(np.dtype(dtype).type(value))
        assert type(made) is type(value) and repr(made) == repr(value)
    for meta in (Meta((1,), "int64"), Meta((), "int32"), Meta((), "complex128")):
        with pytest.raises(ArgumentError):
            op.infer([meta], {})


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_operators_of_python_keep_scalars_weak_and_functions_make_them_strong(op: ops.Op) -> None:
    for combination in itertools.product(WEAK, repeat=op.arity):
        table = table_answer(op, [m for m, _ in combination], {})
        if isinstance(table, Meta):
            assert table.weak == (op.name in PYTHON_OPERATORS or op.name == "require"), combination


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_the_loop_casts_operands_without_changing_the_result(op: ops.Op) -> None:
    """An operation in the loop's dtypes is the operation itself, which is what kernels rely on."""
    assert op.loop is not None
    for combination in combinations([*STRONG, *WEAK], op.arity):
        metas, values = [m for m, _ in combination], [v for _, v in combination]
        try:
            loop = op.loop(op.name, metas)
        except DTypeError:
            continue
        cast = [np.asarray(v).astype(numpy_dtype(d))[()] for v, d in zip(values, loop.inputs, strict=True)]
        whole, in_loop = numpy_answer(op, values, {}), numpy_answer(op, cast, {})
        assert in_loop.dtype.name == loop.result
        assert whole == in_loop


def test_python_ints_beyond_int32_compare_exactly() -> None:
    metas = [Meta((2,), "int32"), Meta((), "int64", weak=True)]
    loop = row("less").loop("less", metas)  # type: ignore[misc]
    x, big = np.array([2**31 - 1, -(2**31)], "int32"), 2**31
    assert loop.inputs == ("int64", "int64")
    assert np.less(x.astype(loop.inputs[0]), np.int64(big)).all() and (x < big).all()


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", SUPPORTED)
def test_reductions_have_numpys_dtype(op: ops.Op, dtype: str) -> None:
    attrs = {**op.attrs, "axis": 0}
    numpy = numpy_answer(op, [np.ones((2, 3), numpy_dtype(dtype))], attrs)
    assert agrees(numpy, table_answer(op, [Meta((2, 3), dtype)], attrs)), numpy


@pytest.mark.parametrize("name", ["concat", "matmul"])
def test_joins_and_products_have_numpys_dtype(name: str) -> None:
    for (a, x), (b, y) in itertools.product(ARRAYS, ARRAYS):
        assert agrees(numpy_answer(row(name), [x, y], dict(row(name).attrs)), table_answer(row(name), [a, b], {}))


# ---------------------------------------------------------------- shapes
def check_shape(name: str, arrays: list[Any], attrs: dict[str, Any]) -> None:
    op = row(name)
    numpy = numpy_answer(op, arrays, op.check_attrs(attrs))
    table = table_answer(op, [Meta(a.shape, a.dtype.name) for a in arrays], attrs)
    assert agrees(numpy, table), f"{name} of {[a.shape for a in arrays]} with {attrs}: {numpy!r} and {table}"


SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@EXAMPLES
@given(mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=4))
def test_operands_broadcast_as_in_numpy(shapes: Any) -> None:
    arrays = [np.ones(s, "float32") for s in shapes.input_shapes]
    check_shape("where", arrays, {})
    assert shape_rules.broadcast("where", shapes.input_shapes) == shapes.result_shape


@EXAMPLES
@given(SHAPES, SHAPES)
def test_any_two_shapes_broadcast_or_raise_as_in_numpy(a: Any, b: Any) -> None:
    check_shape("add", [np.ones(a), np.ones(b)], {})


@EXAMPLES
@given(SHAPES, st.data(), st.booleans(), st.sampled_from([op.name for op in REDUCTIONS if "keepdims" in op.attrs]))
def test_reductions_have_numpys_shape(shape: Any, data: Any, keepdims: bool, name: str) -> None:
    axis = data.draw(
        st.none() | st.integers(-5, 5)
        | st.lists(st.integers(-max(len(shape), 1), max(len(shape), 1)), max_size=3).map(tuple)
    )
    assume(not (name in ("mean", "var") and 0 in shape))  # NumPy warns, and gives NaN
    assume(not (shape == () and isinstance(axis, int)))  # refused below
    check_shape(name, [np.ones(shape)], {"axis": axis, "keepdims": keepdims})


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
def test_a_scalar_has_no_axis_to_reduce(op: ops.Op) -> None:
    """NumPy takes axis 0 of a scalar in half of its reductions; here none does."""
    with pytest.raises(ShapeError, match="axis 0 is out of bounds for an array of 0 dimension"):
        op.result_meta([Meta((), "float32")], {"axis": 0})


@EXAMPLES
@given(SHAPES, st.lists(st.integers(-1, 6), max_size=4).map(tuple))
def test_reshape_takes_and_refuses_what_numpy_does(shape: Any, new: Any) -> None:
    check_shape("reshape", [np.ones(shape)], {"shape": new})


@EXAMPLES
@given(SHAPES, st.data())
def test_reshape_to_shapes_of_the_same_size(shape: Any, data: Any) -> None:
    size = math.prod(shape)
    new: list[int] = []
    while size > 1 and len(new) < 4:
        factor = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        new.append(factor)
        size //= factor
    check_shape("reshape", [np.ones(shape)], {"shape": (*new, -1)})
    check_shape("reshape", [np.ones(shape)], {"shape": (*new, size)})


@EXAMPLES
@given(SHAPES, st.data())
def test_transpose_and_broadcast_to(shape: Any, data: Any) -> None:
    axes = data.draw(st.permutations(range(-len(shape), len(shape))).map(lambda p: tuple(p[: len(shape)])))
    check_shape("transpose", [np.ones(shape)], {"axes": axes})
    check_shape("broadcast_to", [np.ones(shape)], {"shape": data.draw(SHAPES)})
    check_shape("broadcast_to", [np.ones(shape)], {"shape": data.draw(broadcastable_shapes(shape, min_side=0))})


@EXAMPLES
@given(SHAPES, SHAPES, st.data())
def test_matmul_has_numpys_shape(a: Any, b: Any, data: Any) -> None:
    check_shape("matmul", [np.ones(a), np.ones(b)], {})
    if a and b:  # make the inner extents fit, so that most examples multiply
        inner = b[0] if len(b) == 1 else b[-2]
        check_shape("matmul", [np.ones((*a[:-1], inner)), np.ones(b)], {})


@EXAMPLES
@given(SHAPES, st.data())
def test_concat_has_numpys_shape(shape: Any, data: Any) -> None:
    axis = data.draw(st.integers(-4, 4))
    other = list(shape)
    if shape:
        other[data.draw(st.integers(0, len(shape) - 1))] = 3
    check_shape("concat", [np.ones(shape), np.ones(other)], {"axis": axis})


@EXAMPLES
@given(SHAPES.filter(lambda s: len(s) > 0), st.data())
def test_a_slice_is_numpys_slice(shape: Any, data: Any) -> None:
    slices = tuple(data.draw(st.slices(n)) for n in shape)
    ranges = [range(n)[s] for n, s in zip(shape, slices, strict=True)]
    attrs = {
        "starts": tuple(r.start if len(r) else 0 for r in ranges), "steps": tuple(r.step for r in ranges),
        "counts": tuple(len(r) for r in ranges),
    }
    x = np.arange(math.prod(shape)).reshape(shape)
    assert row("slice").result_meta([Meta(shape, "int64")], attrs).shape == x[slices].shape
    np.testing.assert_array_equal(row("slice").numpy(x, **attrs), x[slices])
    value = -np.ones(x[slices].shape, "int64")
    expected = x.copy()
    expected[slices] = value
    np.testing.assert_array_equal(row("update_slice").numpy(x, value, **attrs), expected)


OUTSIDE = [(-1, 1, 1), (3, 1, 1), (0, 2, 3), (1, -1, 3), (0, 0, 1), (0, 1, -1)]


@pytest.mark.parametrize(("start", "step", "count"), OUTSIDE)
def test_a_region_outside_its_array_is_refused(start: int, step: int, count: int) -> None:
    attrs = {"starts": (start,), "steps": (step,), "counts": (count,)}
    with pytest.raises(ShapeError, match=f"start {start}, step {step}, count {count} leaves an axis of extent 3"):
        row("slice").result_meta([Meta((3,), "int64")], attrs)


def test_a_reshape_may_hold_one_unknown_extent() -> None:
    for wrong in [(-1, -1), (-2,)]:
        with pytest.raises(ShapeError, match="may hold one -1 and no other negative extent"):
            row("reshape").result_meta([Meta((4,), "float32")], {"shape": wrong})


# ---------------------------------------------------------------- promotion, devices, attributes
def test_promotion_is_numpys_for_every_pair_of_arrays() -> None:
    for a, b in itertools.product(SUPPORTED, SUPPORTED):
        if "bfloat16" not in (a, b):  # see test_dtypes
            assert result_type(((a, False), (b, False))) == (np.result_type(a, b).name, False)


def test_operands_on_two_devices_are_refused_and_weak_ones_live_anywhere() -> None:
    a, b = Meta((2,), "float32", "cpu"), Meta((2,), "float32", "gpu")
    with pytest.raises(ArgumentError, match=r"different devices \(cpu, gpu\)"):
        row("add").result_meta([a, b], {})
    assert row("add").result_meta([b, Meta((), "float64", weak=True)], {}) == b


def test_unknown_and_missing_attributes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="sum has no attribute 'axes'; it takes axis, keepdims"):
        row("sum").result_meta([Meta((2,), "float32")], {"axes": 0})
    with pytest.raises(ArgumentError, match="reshape needs the attribute 'shape'"):
        row("reshape").result_meta([Meta((2,), "float32")], {})
    with pytest.raises(ArgumentError, match="add takes 2 operand"):
        row("add").result_meta([Meta((2,), "float32")], {})


def test_a_shape_error_names_all_shapes_and_the_axis() -> None:
    with pytest.raises(ShapeError, match=r"shapes \(3, 4\), \(5, 4\) do not broadcast.*axis -2 is both 3 and 5"):
        row("add").result_meta([Meta((3, 4), "float32"), Meta((5, 4), "float32")], {})
