"""NumPy's products over traced arrays: dot, tensordot, einsum and their kin, in terms of matmul and einsum.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`, and the choice of an einsum's path.
opt_einsum finds the path; it is imported when three or more operands are contracted. It sees extents rounded up to
powers of two, so that the shapes of a size class share one program.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.decompositions import einsum as subscripts_
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.record import memory_order
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import (
    NO_VALUE,
    Tensor,
    deliver,
    extents,
    implements,
    lifted,
    require_cast,
    strong,
)
from jitfuse.tracing.tensor.traced import freeze


def _two(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = (strong(t) for t in lifted(a, b))
    return x, y


@implements("dot")
def dot(a: Any, b: Any, out: Any = None) -> Tensor:
    """Return NumPy's dot: a multiplication for rank 0, else a sum over the last axis of a and the last but one of b."""
    x, y = _two(a, b)
    if not x.ndim or not y.ndim:
        result = x.call("multiply", y).ordered("dot", "C")
    elif y.ndim <= 2 and not (x.ndim == y.ndim == 1):
        result = x.call("matmul", y)
    else:
        result = _over_pairs(x, y, (x.ndim - 1, max(y.ndim - 2, 0)))
    if isinstance(out, AbstractTensor) and str(out.dtype) != str(result.dtype):
        raise DTypeError(f"np.dot: output array is not acceptable, it must be of {result.dtype}, at {user_line()}")
    return deliver("dot", result, out)


@implements("vdot")
def vdot(a: Any, b: Any, /) -> Tensor:
    """Return the sum of the products of all elements, the first operand conjugated."""
    x, y = (t.ravel() for t in _two(a, b))
    return dot(x.conj(), y)


@implements("inner")
def inner(a: Any, b: Any, /) -> Tensor:
    """Return the sum of products over the last axes."""
    x, y = _two(a, b)
    if not x.ndim or not y.ndim:
        return x.call("multiply", y)
    return _over_pairs(x, y, (x.ndim - 1, y.ndim - 1))


@implements("outer")
def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    """Return the products of all pairs of elements."""
    x, y = (t.ravel() for t in _two(a, b))
    return deliver("outer", x.reshape((x.size, 1)).call("multiply", y), out)


@implements("linalg.outer")
def linalg_outer(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of all pairs of elements of two vectors."""
    x, y = _two(x1, x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"np.linalg.outer takes arrays of one axis, not {x.shape} and {y.shape}, at {user_line()}")
    return outer(x, y)


@implements("linalg.matmul")
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the matrix product."""
    x, y = _two(x1, x2)
    return x.call("matmul", y)


@implements("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Return the sum of products over pairs of axes: a number of last and first axes, or given axes."""
    result = _over_pairs(a, b, axes)
    return result if result.ndim else result.as_copy()  # rank 0 is an array: NumPy reshapes a matrix product


def _over_pairs(a: Any, b: Any, axes: Any) -> Tensor:
    x, y = _two(a, b)
    if isinstance(axes, int):
        if axes < 0 or axes > min(x.ndim, y.ndim):
            raise ShapeError(f"np.tensordot: {axes} axes of {x.shape} and {y.shape}, at {user_line()}")
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    lists = [tuple(given) if isinstance(given, range) else given for given in axes]
    for given in lists:
        shape_rules.reject_bools(given)
        if isinstance(given, np.ndarray) and not given.ndim:
            raise ArgumentError(f"np.tensordot takes no array of rank 0 for one of two axes, at {user_line()}")
    first, second = (
        [shape_rules.normalize_axis("tensordot", k, t.ndim) for k in extents(given)]
        for given, t in zip(lists, (x, y), strict=True)
    )
    if [x.shape[k] for k in first] != [y.shape[k] for k in second]:
        raise ShapeError(f"np.tensordot: shape mismatch for sum over axes {first} of {x.shape} and {second} of "
                         f"{y.shape}, at {user_line()}")
    letters = subscripts_.LETTERS
    one = list(letters[: x.ndim])
    two = list(letters[x.ndim : x.ndim + y.ndim])
    for i, j in zip(first, second, strict=True):
        two[j] = one[i]
    kept = [c for c in one if c not in two] + [c for c in two if c not in one]
    return contract(f"{''.join(one)},{''.join(two)}->{''.join(kept)}", [x, y])


@implements("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Tensor:
    """Return the product of a chain of matrices, in the cheapest order; the first and the last may be vectors."""
    parts = [strong(t) for t in lifted(*arrays)]
    if len(parts) < 2:
        raise ShapeError(f"np.linalg.multi_dot: expecting at least two arrays, at {user_line()}")
    letters, terms = subscripts_.LETTERS, []
    for k, p in enumerate(parts):
        edge = k in (0, len(parts) - 1)
        if p.ndim != 2 and not (edge and p.ndim == 1):
            raise ShapeError(f"np.linalg.multi_dot: {p.shape} is no matrix, at {user_line()}")
        terms.append(letters[k : k + 2] if p.ndim == 2 else letters[k + (k == 0)])
    output = (terms[0][0] if parts[0].ndim == 2 else "") + (terms[-1][-1] if parts[-1].ndim == 2 else "")
    return deliver("multi_dot", contract(f"{','.join(terms)}->{output}", parts), out)


# ---------------------------------------------------------------- products of vectors in stacks
def _over_axis(x: Tensor, axis: int) -> Tensor:
    from_end = shape_rules.normalize_axis("vecdot", axis, x.ndim)
    return x.call("transpose", axes=(*(k for k in range(x.ndim) if k != from_end), from_end))


@implements("linalg.vecdot")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the sum of products along an axis, the first operand conjugated."""
    shape_rules.reject_bools(axis)
    x, y = (_over_axis(t, axis) if t.ndim else t for t in _two(x1, x2))
    return contract("...a,...a->...", [x.conj(), y])


def matvec(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of matrices and vectors in stacks."""
    return contract("...ab,...b->...a", list(_two(x1, x2)))


def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of vectors, conjugated, and matrices in stacks."""
    x, y = _two(x1, x2)
    return contract("...a,...ab->...b", [x.conj(), y])


@implements("linalg.cross", "cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tensor:
    """Return the cross products of vectors of three elements along an axis."""
    x, y = (strong(t) for t in lifted(a, b))
    first, second, last = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    x, y = (shapes.moveaxis(t, k, -1) for t, k in ((x, first), (y, second)))
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(f"np.cross takes vectors of three elements, not {x.shape[-1]} and {y.shape[-1]}, "
                         f"at {user_line()}")
    if str(x.dtype) == str(y.dtype) == "bool":
        raise DTypeError(f"np.cross takes numbers, not bool, at {user_line()}")
    rows = [
        x[..., i].call("multiply", y[..., j]).call("subtract", x[..., j].call("multiply", y[..., i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return shapes.stack(rows, last)


UFUNCS: Final[dict[str, Callable[..., Tensor]]] = {"vecdot": vecdot, "matvec": matvec, "vecmat": vecmat}
"""Generalised ufuncs other than matmul."""


# ---------------------------------------------------------------- einsum
@implements("einsum")
def einsum(*operands: Any, out: Any = None, optimize: Any = True, dtype: Any = None, order: str = "K",
           casting: str = "safe") -> Tensor:
    """Return the sum of products that the subscripts describe."""
    text, given = _labelled(operands)
    tensors = [strong(t) for t in lifted(*given)]
    if dtype is not None:
        for t in tensors:
            require_cast("einsum", str(t.dtype), dtype_name(dtype), casting)
        tensors = [t.astype(dtype, copy=False) for t in tensors]
    if isinstance(out, AbstractTensor):  # it takes part in the promotion of the sums
        common = dtypes.promote((*(str(t.dtype) for t in tensors), *([] if dtype is not None else [str(out.dtype)])))
        require_cast("einsum", common, str(out.dtype), casting)
        tensors = [t.astype(common, copy=False) for t in tensors]
    return deliver("einsum", _summed(text, tensors, optimize, order), None if out is NO_VALUE else out)


def _summed(text: str, tensors: list[Tensor], optimize: Any, order: str) -> Tensor:
    """Contract, and give the result NumPy's memory layout; a permutation of one operand's axes is a view."""
    subscripts = subscripts_.read(text, [t.ndim for t in tensors])
    labels = subscripts.inputs[0]
    if len(tensors) == 1 and len(set(labels)) == len(labels) == len(subscripts.output):
        return tensors[0].call("transpose", axes=tuple(labels.index(c) for c in subscripts.output))
    made: Any = contract(text, tensors, optimize)
    if len(tensors) == 1 and set(labels) == set(subscripts.output):
        freeze("einsum", tensors[0], made)
    if order == "K" and made.ndim > 1:
        return made.laid_out_by(memory_order.of_einsum, str(subscripts), tensors)
    return made.ordered("einsum", "C" if order in ("K", "A") else order)


def _labelled(operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Return (subscripts, arrays); the arguments have this form, or alternate arrays and lists of numbers."""
    if not operands:
        raise ShapeError(f"np.einsum: no subscripts, at {user_line()}")
    if isinstance(operands[0], str):
        return operands[0], operands[1:]
    arrays, lists = operands[: len(operands) // 2 * 2 : 2], operands[1::2]
    text = ",".join(map(_letters, lists))
    return f"{text}->{_letters(operands[-1])}" if len(operands) % 2 else text, arrays


def _letters(numbers: Any) -> str:
    return "".join("..." if n is Ellipsis else subscripts_.LETTERS[n.__index__()] for n in numbers)


def contract(text: str, tensors: list[Tensor], optimize: Any = True) -> Tensor:
    """Contract tensors of one trace along opt_einsum's path, or the path of `optimize`."""
    subscripts = subscripts_.read(text, [t.ndim for t in tensors])
    sizes = subscripts_.extents("einsum", subscripts, [t.shape for t in tensors])
    path = _path(subscripts, sizes, optimize)
    return tensors[0].call("einsum", *tensors[1:], subscripts=str(subscripts), path=path)


def _path(subscripts: subscripts_.Subscripts, sizes: dict[str, int], optimize: Any) -> tuple[tuple[int, ...], ...]:
    count = len(subscripts.inputs)
    if not isinstance(optimize, bool | str) and optimize is not None:
        method, *steps = optimize
        if isinstance(method, str) and method != "einsum_path":
            optimize = method  # (method, memory limit)
        else:
            steps = steps if isinstance(method, str) else [method, *steps]
            return tuple(tuple(sorted(int(k) for k in step)) for step in steps)
    if count <= 2:
        return (tuple(range(count)),) if count == 2 else ()
    import opt_einsum

    rounded = [tuple(1 << math.ceil(math.log2(max(sizes[c], 1))) for c in labels) for labels in subscripts.inputs]
    method = optimize if isinstance(optimize, str) else "auto"
    try:
        path, _ = opt_einsum.contract_path(str(subscripts), *rounded, shapes=True, optimize=method)
    except (KeyError, TypeError) as error:
        raise ArgumentError(f"np.einsum: optimize={optimize!r} is no known method, at {user_line()}") from error
    return tuple(tuple(sorted(int(k) for k in step)) for step in path)
