"""The order in which NumPy lays out the axes of a new array: its operands' order, if the function keeps it.

Owns the rule of each operator, of index arrays, and of the argument `order`. Does not own the strides
(`jitfuse.tracing.record.layout`). Used only for calls with index arrays or an array that is not in C order.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitfuse.errors import ArgumentError
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.record import layout
from jitfuse.tracing.record.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing.tensor.traced import TracedTensor

Axes = tuple[int, ...]
Attrs = dict[str, Any]
Tensors = Sequence[Any]


def of_result(op: ops.Op, attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes | None:
    """Return the axes of an operator's result from the slowest in memory to the fastest; None for C order."""
    rule = _RULES.get(op.name) or _KINDS.get(op.kind)
    if rule is None and op.kind in (ops.ELEMENTWISE, ops.LIBRARY) and op.loop is not None:
        rule = _iterated
    return rule(attrs, inputs, shape) if rule is not None and len(shape) > 1 else None


def of_torch(op: ops.Op, inputs: Tensors, shape: tuple[int, ...]) -> Axes | None:
    """Return the axes of an operator's result in torch: that of its operands where it works by elements."""
    if len(shape) < 2 or not (op.kind == ops.ELEMENTWISE or op.name in ("astype", "copy")):
        return None
    return layout.torch_order(shape, [(t.shape, t._where()) for t in inputs if t.shape])


# ---------------------------------------------------------------- operators
def _iterated(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of NumPy's iterator over broadcast operands."""
    return layout.common_order(shape, [(t.shape, t._where()) for t in inputs])


def _copied(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of a copy of the first operand."""
    return layout.order_of(inputs[0].shape, inputs[0]._where().strides)


def _reduced(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of the operand's remaining axes."""
    x = inputs[0]
    order = layout.common_order(x.shape, [(x.shape, x._where())])
    if len(shape) == x.ndim:
        return order
    gone = shape_rules.normalize_axes("reduction", attrs.get("axis"), x.ndim)
    kept = [a for a in range(x.ndim) if a not in gone]
    return tuple(kept.index(a) for a in order if a not in gone)


def _joined(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    return layout.joined_order([(t.shape, t._where()) for t in inputs])


def _stacked(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of arrays joined along a new axis, which has extent 1 in each of them."""
    along = shape_rules.normalize_axis("stack", attrs["axis"], len(shape))
    parts = []
    for t in inputs:
        where = t._where()
        strides = (*where.strides[:along], 0, *where.strides[along:])
        parts.append(((*t.shape[:along], 1, *t.shape[along:]), layout.MemoryLayout(0, strides)))
    return layout.joined_order(parts)


def _products(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of a stack of products: the stacks' common order, with the matrices in C order inside."""
    outer = len(shape) - sum(t.ndim > 1 for t in inputs)
    stacks = [(t.shape[:-2], layout.MemoryLayout(0, t._where().strides[:-2])) for t in inputs if t.ndim > 2]
    return *layout.common_order(shape[:outer], stacks), *range(outer, len(shape))


def _stacked_matrices(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of results that are computed for each matrix of a stack."""
    outer = inputs[0].ndim - 2
    stack = inputs[0].shape[:outer], layout.MemoryLayout(0, inputs[0]._where().strides[:outer])
    return *layout.common_order(shape[:outer], [stack]), *range(outer, len(shape))


def of_einsum(subscripts: str, inputs: Tensors) -> Axes:
    """Return the order of the labels of an einsum's result; the summed labels are innermost."""
    terms, _, output = subscripts.partition("->")
    labels = output + "".join(sorted({c for c in terms if c != "," and c not in output}))
    sizes = {c: n for term, t in zip(terms.split(","), inputs, strict=True) for c, n in zip(term, t.shape, strict=True)}
    operands = []
    for term, t in zip(terms.split(","), inputs, strict=True):
        strides = dict.fromkeys(labels, 0)
        for c, n, s in zip(term, t.shape, t._where().strides, strict=True):
            strides[c] += s if n != 1 else 0
        operands.append((tuple(sizes[c] for c in labels), layout.MemoryLayout(0, tuple(strides.values()))))
    order = layout.common_order(tuple(sizes[c] for c in labels), operands)
    return tuple(a for a in order if a < len(output))


def _triangle(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes:
    """Return the order of a selection by a mask in C order over the last two axes."""
    mask = shape[-2:]
    return layout.common_order(shape, [(mask, layout.contiguous(mask, 1)), (shape, inputs[0]._where())])


def _padded(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes | None:
    """Return the reversed axes for an array in F order, else None."""
    x = inputs[0]
    return tuple(reversed(range(x.ndim))) if not x.is_contiguous and x.T.is_contiguous else None


def _rounded(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> Axes | None:
    return (_padded if attrs.get("decimals") else _iterated)(attrs, inputs, shape)


def _in_c_order(attrs: Attrs, inputs: Tensors, shape: tuple[int, ...]) -> None:
    return None


_KINDS: Final[dict[str, Callable[[Attrs, Tensors, tuple[int, ...]], Axes | None]]] = {
    ops.REDUCTION: _reduced, ops.SCAN: _iterated, ops.MODE: _iterated,
}
_RULES: Final[dict[str, Callable[[Attrs, Tensors, tuple[int, ...]], Axes | None]]] = {
    "astype": _copied, "copy": _copied, "sort": _copied, "partition": _copied, "roll": _copied, "concat": _joined,
    "stack": _stacked, "matmul": _products, "tril": _triangle, "triu": _triangle, "pad": _padded,
    "round": _rounded, "median": _reduced,
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn"), _copied),
    **dict.fromkeys(("inv", "det", "cholesky", "eigvalsh", "svdvals"), _stacked_matrices),
    "argmin": _in_c_order, "argmax": _in_c_order, "nanargmin": _in_c_order,
    **dict.fromkeys(("nanargmax", "softmax", "log_softmax", "layer_norm", "rms_norm", "logsumexp"), _in_c_order),
}


# ---------------------------------------------------------------- index arrays
def of_picked(x: TracedTensor, arrays: Tensors, axes: Axes, position: int) -> Axes:
    """Return the order of `x[...]` with index arrays for some axes: the indexed axes outside, the rest of x inside."""
    indexed = shape_rules.broadcast("index", [a.shape for a in arrays])
    outer = layout.common_order(indexed, [(a.shape, a._where()) for a in arrays])
    rest = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    strides = tuple(s for k, s in enumerate(x._where().strides) if k not in axes)
    inner = layout.order_of(rest, strides)
    n = len(indexed)
    return (*(position + a for a in outer), *(a if a < position else a + n for a in inner))


def of_parts(x: TracedTensor, axis: int) -> Axes:
    """Return the order of the parts of an array that an index array selects along one axis."""
    return axis, *(a for a in _iterated({}, (x,), x.shape) if a != axis)


# ---------------------------------------------------------------- the argument `order`
def asked_for(name: str, order: Any, made: TracedTensor, like: TracedTensor | None) -> Axes | None:
    """Return the axes of a new array for an argument `order`, None for C order; "A" and "K" depend on `like`."""
    if order not in ("C", "F", "A", "K", None):
        raise ArgumentError(f"np.{name}: order must be one of 'C', 'F', 'A', or 'K' (got {order!r}), at {user_line()}")
    in_f_order = like is not None and not like.is_contiguous and like.T.is_contiguous
    if order == "F" or (order == "A" and in_f_order):
        return tuple(reversed(range(made.ndim)))
    if order not in ("K", None) or like is None or like.ndim != made.ndim:
        return None
    return layout.order_of(like.shape, like._where().strides)


def of_ravel(order: str, x: TracedTensor) -> Axes | None:
    """Return the axes in the order in which `ravel` reads an array, for "A" and "K"; None for C order."""
    return _iterated({}, (x,), x.shape) if order == "K" else asked_for("ravel", order, x, x)
