"""Sums of products over labelled axes: reading subscripts, and lowering to transposes, products, sums and matmul.

`matmul` is the one contraction that plans and kernels know. Operands without a shared summed label become a broadcast
product; if all unshared labels are summed, a product and a sum. Does not own how a path is found (`jitfuse.tracing`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import kind, result_type
from jitfuse.errors import ShapeError

Tensor = Any
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Subscripts(NamedTuple):
    """One string of labels for each operand, and the result's; no ellipsis."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return ",".join(self.inputs) + "->" + self.output


def read(text: str, ranks: Sequence[int]) -> Subscripts:
    """Read subscripts for operands of these ranks: write out ellipses, fill in an implied output.

    Raises ShapeError, which is a ValueError, if they do not fit.
    """
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum: the subscripts {text!r} are for {len(terms)} operand(s), not {len(ranks)}")
    wide = max((rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True) if "..." in t),
               default=0)
    free = [c for c in LETTERS if c not in text]
    if wide < 0 or wide > len(free):
        raise ShapeError(f"einsum: the subscripts {text!r} do not fit operands of {tuple(ranks)} axes")
    rest = "".join(free[:wide])
    inputs = tuple(_written_out(t, rank, rest, text) for t, rank in zip(terms, ranks, strict=True))
    if arrow:
        output = right.replace("...", rest)
    else:
        every = "".join(inputs)
        once = sorted(c for c in set(every) - set(rest) if every.count(c) == 1)
        output = rest + "".join(once)
    unknown = [c for c in output if c not in "".join(inputs)]
    if unknown or len(set(output)) != len(output):
        raise ShapeError(f"einsum: the output {right!r} of {text!r} must hold labels of the operands, each once")
    return Subscripts(inputs, output)


def _written_out(term: str, rank: int, rest: str, text: str) -> str:
    labels = term.replace("...", "", 1)
    wrong = [c for c in labels if c not in LETTERS]
    if wrong:
        raise ShapeError(f"einsum: {wrong[0]!r} is no label, in {text!r}")
    count = rank - len(labels)
    if count < 0 or ("..." not in term and count):
        raise ShapeError(f"einsum: the subscripts {term!r} in {text!r} name {len(labels)} axes of an operand of {rank}")
    return term.replace("...", rest[len(rest) - count :])


def extents(name: str, subscripts: Subscripts, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the extent of every label; axes of extent 1 are broadcast. Raises ShapeError if extents differ."""
    found: dict[str, int] = {}
    for labels, shape in zip(subscripts.inputs, shapes, strict=True):
        own: dict[str, int] = {}
        for label, n in zip(labels, shape, strict=True):
            if own.setdefault(label, n) != n:
                raise ShapeError(f"{name}: label {label!r} stands for axes of extents {own[label]} and {n} in {shape}")
            if found.get(label, 1) not in (1, n) and n != 1:
                raise ShapeError(f"{name}: label {label!r} stands for axes of extents {found[label]} and {n}")
            found[label] = n if found.get(label, 1) == 1 else found[label]
    return found


def common_dtype(operands: Sequence[Any]) -> str:
    """Return the dtype of sums of products: float32 for bfloat16, which NumPy's einsum lacks, as in matmul."""
    dtype, _ = result_type(tuple((t.dtype, t.weak) for t in operands))
    return "float32" if dtype == "bfloat16" else dtype


class Term(NamedTuple):
    """A tensor and the labels of its axes."""

    tensor: Tensor
    labels: str


def lower(*tensors: Tensor, subscripts: str, path: tuple[tuple[int, ...], ...]) -> Tensor:
    """Contract operands along a path: each step contracts the terms at some positions into one, appended at the end.

    All operands are cast to their common dtype first, which is the result's.
    """
    inputs, _, output = subscripts.partition("->")
    read_ = Subscripts(tuple(inputs.split(",")), output)
    known = extents("einsum", read_, [t.shape for t in tensors])
    common = common_dtype(tensors)
    tensors = tuple(t if t.dtype == common and not t.weak else t.call("astype", dtype=common) for t in tensors)
    terms = [_without_units(_diagonal(Term(t, labels)), known) for t, labels in zip(tensors, read_.inputs, strict=True)]
    for positions in path:
        chosen = [terms[k] for k in positions]
        terms = [t for k, t in enumerate(terms) if k not in positions]
        while len(chosen) > 1:
            first, second, *rest = chosen
            chosen = [_pair(first, second, output + "".join(t.labels for t in (*terms, *rest))), *rest]
        terms += chosen
    last = _summed(terms[0], output)
    return _transposed(last.tensor, tuple(last.labels.index(c) for c in output))


def _diagonal(term: Term) -> Term:
    """Take the diagonal of labels that occur twice in one operand."""
    tensor, labels = term
    while len(set(labels)) < len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        rest = [k for k in range(len(labels)) if k not in (first, second)]
        tensor = tensor.call("transpose", axes=(*rest, first, second)).call("diagonal", offset=0)
        labels = "".join(labels[k] for k in rest) + label
    return Term(tensor, labels)


def _without_units(term: Term, known: dict[str, int]) -> Term:
    """Drop axes of extent 1 that are broadcast against other operands."""
    kept = [k for k, c in enumerate(term.labels) if known[c] == term.tensor.shape[k]]
    if len(kept) == len(term.labels):
        return term
    shape = tuple(term.tensor.shape[k] for k in kept)
    return Term(term.tensor.call("reshape", shape=shape), "".join(term.labels[k] for k in kept))


def _summed(term: Term, wanted: str) -> Term:
    """Sum over the labels not in `wanted`; bools are joined by or, and integers keep their dtype."""
    axes = tuple(k for k, c in enumerate(term.labels) if c not in wanted)
    if not axes:
        return term
    dtype = term.tensor.dtype
    total = term.tensor.call("any" if dtype == "bool" else "sum", axis=axes, keepdims=False)
    if total.dtype != dtype:
        total = total.call("astype", dtype=dtype)
    return Term(total, "".join(c for c in term.labels if c in wanted))


def _pair(a: Term, b: Term, wanted: str) -> Term:
    """Contract two terms over the labels that neither the result nor another term needs.

    Integers sum labels of one term alone before the product; floats after it, for the sake of infinities and NaN.
    """
    if kind(a.tensor.dtype) not in ("float", "complex"):
        a, b = _summed(a, wanted + b.labels), _summed(b, wanted + a.labels)
    summed = [c for c in a.labels if c in b.labels and c not in wanted]
    batch = "".join(c for c in a.labels if c in b.labels and c in wanted)
    left = "".join(c for c in a.labels if c not in b.labels)
    right = "".join(c for c in b.labels if c not in a.labels)
    if not summed or not (left or right) or "bool" in (a.tensor.dtype, b.tensor.dtype):
        every = batch + left + right + "".join(summed)
        product = _with_axes(a, every).call("multiply", _with_axes(b, every))
        return _summed(Term(product, every), wanted)
    inner = "".join(summed)
    one, two = _matrix(a, batch, left, inner), _matrix(b, batch, inner, right)
    found = one.call("matmul", two)
    sizes = {**dict(zip(a.labels, a.tensor.shape, strict=True)), **dict(zip(b.labels, b.tensor.shape, strict=True))}
    labels = batch + left + right
    return _summed(Term(_reshaped(found, tuple(sizes[c] for c in labels)), labels), wanted)


def _with_axes(term: Term, labels: str) -> Tensor:
    """Return a tensor with its axes in the order of `labels`, and extents of 1 for those that it lacks."""
    own = [c for c in labels if c in term.labels]
    tensor = _transposed(term.tensor, tuple(term.labels.index(c) for c in own))
    return _reshaped(tensor, tuple(tensor.shape[own.index(c)] if c in own else 1 for c in labels))


def _matrix(term: Term, batch: str, rows: str, columns: str) -> Tensor:
    """Return a stack of matrices: one axis for each batch label, then rows and columns as one axis each."""
    order = tuple(term.labels.index(c) for c in batch + rows + columns)
    tensor = _transposed(term.tensor, order)
    lead = tensor.shape[: len(batch)]
    own = tensor.shape[len(batch) :]
    sizes = [1, 1]
    for k, n in enumerate(own):
        sizes[k >= len(rows)] *= n
    return _reshaped(tensor, (*lead, *sizes))


def _transposed(tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
    return tensor if axes == tuple(range(len(axes))) else tensor.call("transpose", axes=axes)


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tuple(tensor.shape) == shape else tensor.call("reshape", shape=shape)

