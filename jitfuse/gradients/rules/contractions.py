"""Products of matrices, and sums of products over labelled axes."""
from __future__ import annotations

from collections.abc import Callable

from jitfuse.gradients.rule import RULES, Call, Parts, Rule, composite
from jitfuse.gradients.values import Tensor, conjugate


def _matmul_forward(call: Call, tangents: Parts) -> Parts:
    a, b = call.xs
    parts = [t for t in (
        None if tangents[0] is None else tangents[0].call("matmul", b),
        None if tangents[1] is None else a.call("matmul", tangents[1])) if t is not None]
    return [parts[0] if len(parts) == 1 else parts[0].add(parts[1])]


def _matmul_reverse(call: Call, cotangents: Parts) -> Parts:
    """Multiply by the other matrix, transposed; vectors beside stacks are matrices of one row or column for that."""
    (ct,), (a, b) = cotangents, call.xs
    if 1 in (a.ndim, b.ndim) and max(a.ndim, b.ndim) <= 2:
        return [part() if wanted else None for part, wanted in zip(_of_vectors(a, b, ct), call.wanted, strict=True)]
    left = a.reshape((1, *a.shape)) if a.ndim == 1 else a
    right = b.reshape((*b.shape, 1)) if b.ndim == 1 else b
    lead = ct.shape[: ct.ndim - (a.ndim > 1) - (b.ndim > 1)]
    ct = ct.reshape((*lead, left.shape[-2], right.shape[-1]))
    made: list[Tensor | None] = [None, None]
    if call.wanted[0]:
        made[0] = _summed_to(ct.call("matmul", transposed(conjugate(right))), left).reshape(a.shape)
    if call.wanted[1]:
        made[1] = _summed_to(transposed(conjugate(left)).call("matmul", ct), right).reshape(b.shape)
    return made


def _of_vectors(a: Tensor, b: Tensor, ct: Tensor) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Return the cotangents where an operand is a vector: its own is a product with a vector, a sum of rows."""
    if a.ndim == b.ndim:
        return lambda: ct.multiply(conjugate(b)), lambda: ct.multiply(conjugate(a))
    if a.ndim == 1:
        return lambda: conjugate(b).call("matmul", ct), lambda: _outer(conjugate(a), ct)
    return lambda: _outer(ct, conjugate(b)), lambda: ct.call("matmul", conjugate(a))


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of all pairs."""
    return a.reshape((a.shape[0], 1)).multiply(b.reshape((1, b.shape[0])))


def _summed_to(x: Tensor, like: Tensor) -> Tensor:
    """Return the sum over the axes that have been broadcast."""
    lead = x.ndim - like.ndim
    over = (*range(lead), *(k + lead for k, n in enumerate(like.shape[:-2]) if n == 1 and x.shape[k + lead] != 1))
    return x.call("sum", axis=over, keepdims=False) if over else x


def transposed(x: Tensor) -> Tensor:
    """Return matrices with their last two axes exchanged."""
    return x.call("transpose", axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


RULES["matmul"] = Rule(_matmul_forward, _matmul_reverse)
composite("einsum")
