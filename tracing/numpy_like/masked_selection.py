"""x[mask] with a traced mask: the elements are gathered late, or never.

The number of selected elements is known only at run time. Most programs do not need it: they compute with the
selection and write it back under the same mask (`x[m] = f(x[m]) + y[m]`, `x[m] *= 2`), or reduce it. A
`MaskedSelection` computes on all elements and remembers the mask. Writing back selects between old and new elements, a
sum adds the elements where the mask holds, and a result is gathered when the call ends. The indices where a mask of one
axis holds (`np.nonzero(m)[0]`) are a selection too, and index other arrays as the mask does. Any other use gathers the
elements first (`jitfuse.tracing.tensor.gathering`), or raises. Owns computation without gathering. Does not own indices
with known values.
"""
from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import BoundsError, DTypeError, UnsupportedError
from jitfuse.ir import statuses
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import moments, reductions
from jitfuse.tracing.observe.loop_counters import is_in_loop
from jitfuse.tracing.record import layout
from jitfuse.tracing.record.dtype_name import DTypeName
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.try_blocks import is_caught
from jitfuse.tracing.tensor import gathering, indexing
from jitfuse.tracing.tensor.data_extents import nonzero_indices_of
from jitfuse.tracing.tensor.traced import TracedTensor

_REDUCTIONS: Final = {
    "sum": reductions.sum_, "prod": reductions.prod, "any": reductions.any_,
    "all": reductions.all_, "mean": moments.mean, "var": moments.var,
    "std": moments.std,
}
"""Reductions that NumPy defines for no elements too, with the function that computes each under a mask."""
_EXTREMES: Final = {"max": statuses.NO_LARGEST, "min": statuses.NO_SMALLEST}
"""Reductions that NumPy does not define for no elements, with the status that reports it."""
_DEPTH: Final = 4


class MaskedSelection(TracedTensor):
    """The elements of `whole` where a mask holds; the mask's axes, from axis `axis` on, are one axis of the result."""

    __slots__ = ("_axis", "_known_mask", "_picked", "_region", "_whole", "are_indices", "line")

    def __init__(self, whole: TracedTensor, mask: TracedTensor, axis: int, *, are_indices: bool = False) -> None:
        self._run = whole._run
        self._whole = whole
        self._known_mask = mask
        self._axis = axis
        self.are_indices = are_indices
        self.line = user_line()
        self._region = self._run.session.region
        self._picked: TracedTensor | None = None

    # ------------------------------------------------------------------ gathering
    def picked(self, *_: Any) -> Any:
        """Gather the elements and return them as a tensor; raises what indexing by a mask raises."""
        if self._picked is None:
            run = self._run
            if run.session.region is not self._region:  # values of a loop's body are unknown outside
                raise UnsupportedError(f"x[mask] is gathered in the body of a loop, at {user_line()}. Gather it "
                                       "before the loop: x[mask].copy().")
            indices = nonzero_indices_of("nonzero" if self.are_indices else "x[mask]", self._known_mask)
            # a mask's own indices are within bounds in every branch
            branches, run.active_branches = run.active_branches, []
            try:
                self._picked = indices[0] if self.are_indices else self._pick()
            finally:
                run.active_branches = branches
        return self._picked

    def _pick(self) -> TracedTensor:
        key = (*(slice(None),) * self._axis, self._known_mask)
        found: TracedTensor = gathering.get_item(self._whole, key if self._axis else self._known_mask)
        return found

    @property
    def is_open(self) -> bool:
        """Whether the elements have not been gathered so far."""
        return self._picked is None

    @property
    def parts(self) -> tuple[TracedTensor, TracedTensor, int]:
        """The indexed array, the mask, and the axis where the mask's axes begin."""
        return self._whole, self._known_mask, self._axis

    _meta = property(lambda self: self.picked()._meta)
    _storage = property(lambda self: self.picked()._storage)
    _path = property(lambda self: self.picked()._path)
    _lazy_layout = property(lambda self: self.picked()._lazy_layout)
    _layout = property(lambda self: self.picked()._layout)
    _scalar = False
    shape = property(lambda self: self.picked().shape, lambda self, new: setattr(self.picked(), "shape", new))

    def _where(self) -> Any:
        return self.picked()._where()

    def laid_out(self, axes: Any) -> Any:
        """Return the elements in this memory order."""
        return self.picked().laid_out(axes)

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name."""
        return self._whole.dtype

    @property
    def weak(self) -> bool:
        """False: a selection is an array."""
        return False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._whole.ndim - self._known_mask.ndim + 1

    # ------------------------------------------------------------------ without gathering
    def as_copy(self, scalar: bool = False) -> Any:
        """Return the same elements in memory of their own."""
        if self._picked is not None:
            return self.picked().as_copy()
        return MaskedSelection(self._whole.as_copy(), self._known_mask, self._axis, are_indices=self.are_indices)

    def _of(self, whole: TracedTensor, axis: int | None = None) -> MaskedSelection:
        return MaskedSelection(whole, self._known_mask, self._axis if axis is None else axis)

    @property
    def mask(self) -> Any:
        """The mask with one axis for each axis of the whole."""
        rest = self._whole.ndim - self._axis - self._known_mask.ndim
        return self._known_mask.reshape((1,) * self._axis + self._known_mask.shape + (1,) * rest)

    def _alike(self, other: Any) -> bool:
        """Return whether a tensor can be an elementwise operand: under this mask, or along later axes only."""
        if type(other) is MaskedSelection:
            same = other._axis == self._axis and other._whole.ndim == self._whole.ndim
            return same and other._picked is None and _are_equal(self._known_mask, other._known_mask)
        rest = self._whole.shape[self._axis + self._known_mask.ndim :]
        return other.ndim <= len(rest) and all(n in (1, m) for n, m in zip(other.shape[::-1], rest[::-1]))

    def _apply(self, op: ops.Op, inputs: tuple[AbstractTensor, ...], attrs: dict[str, Any]) -> Any:
        return apply(op, inputs, attrs) if inputs else self._whole._apply(op, inputs, attrs)

    def _elementwise(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if self._picked is not None or not all(map(self._alike, inputs)):
            return None
        wholes = tuple(t._whole if type(t) is MaskedSelection else t for t in inputs)
        if op.raises and dtypes.kind(op.result_meta([t._meta for t in wholes], attrs).dtype) in op.raises:
            return None  # elements outside of the mask must not raise
        return self._of(wholes[0]._apply(op, wholes, attrs))

    def _reduced(self, op: ops.Op, attrs: dict[str, Any]) -> Any:
        axis, masked = attrs.get("axis"), self._known_mask.ndim
        if self._picked is not None or attrs.get("keepdims"):
            return None
        chosen = range(self.ndim) if axis is None else shape_rules.normalize_axes(op.name, axis, self.ndim)
        axes_of: dict[int, tuple[int, ...]] = {
            a: (a if a < self._axis else a + masked - 1,) for a in range(self.ndim)
        }
        axes_of[self._axis] = tuple(range(self._axis, self._axis + masked))
        axes = tuple(k for a in chosen for k in axes_of[a])
        if self._axis not in chosen:
            whole = self._whole.call(op.name, **{**attrs, "axis": axes if len(axes) > 1 else axes[0]})
            return self._of(whole, self._axis - sum(a < self._axis for a in axes))
        if op.name in _EXTREMES and is_caught():
            return None  # the number of elements is read
        if op.name in _EXTREMES and dtypes.kind(self.dtype) != "complex" and self.dtype != "bfloat16":
            return self._extreme(op.name, axes) if math.prod(self._whole.shape) else None
        if op.name not in _REDUCTIONS or self.dtype in ("float16", "bfloat16"):
            return None
        options = {"ddof": attrs["correction"]} if "correction" in attrs else {}
        return _REDUCTIONS[op.name](self._whole, axis=axes, where=self.mask, **options)

    def _extreme(self, name: str, axes: tuple[int, ...]) -> TracedTensor:
        """Return the largest or smallest of the selected elements; NumPy raises where there are none."""
        given = dtypes.numpy_dtype(self.dtype)
        least: Any = -np.inf if given.kind == "f" else np.iinfo(given).min if given.kind in "iu" else False
        most: Any = np.inf if given.kind == "f" else np.iinfo(given).max if given.kind in "iu" else True
        other = self._whole.create("full", shape=(), value=least if name == "max" else most, dtype=self.dtype)
        found: TracedTensor = self.mask.call("where", self._whole, other).call(name, axis=axes)
        any_: TracedTensor = self._known_mask.call("any")
        made: TracedTensor = found.call("require", any_, status=_EXTREMES[name])
        return made

    def _assign_result(self, result: TracedTensor, name: str) -> None:
        """Assign an operator's result as `y += z` does: a selection is a copy with its own elements."""
        if type(result) is not MaskedSelection or self._picked is not None:
            self.picked()._assign_result(result, name)
            return
        if not dtypes.can_cast(str(result.dtype), str(self.dtype)):
            raise DTypeError(f"cannot cast {name}'s result from {result.dtype} to {self.dtype} with casting rule "
                             f"'same_kind', at {user_line()}. Write x = x.astype({result.dtype}) first.")
        self._whole, self.are_indices = indexing.cast(result._whole, self._whole), False


def apply(op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Carry out an operator with selections among its operands; without gathering where the result is the same."""
    first: MaskedSelection = next(t for t in inputs if type(t) is MaskedSelection)
    result = None
    if op.kind == ops.ELEMENTWISE:
        result = first._elementwise(op, inputs, attrs)
    elif op.kind == ops.REDUCTION and len(inputs) == 1:
        result = first._reduced(op, attrs)
    if result is not None:
        return result
    plain = tuple(t.picked() if type(t) is MaskedSelection else t for t in inputs)
    return plain[0]._apply(op, plain, attrs)


def _are_equal(a: TracedTensor, b: TracedTensor) -> bool:
    """Return whether two tensors come from equal operators over the same tensors; the search is shallow."""
    node = a._run.graph.node
    pairs = [(a._id(), b._id(), _DEPTH)]
    while pairs:
        left, right, depth = pairs.pop()
        if left == right:
            continue
        x, y = node(left), node(right)
        if not depth or x is None or y is None or x.op_name != y.op_name or repr(x.attrs) != repr(y.attrs):
            return False
        if x.mode_sensitive or len(x.result_ids) != 1 or len(x.input_ids) != len(y.input_ids):
            return False
        pairs += [(i, j, depth - 1) for i, j in zip(x.input_ids, y.input_ids)]
    return True


# ---------------------------------------------------------------- items
def selected_indices(mask: TracedTensor) -> MaskedSelection:
    """Return the indices where a mask of one axis holds."""
    whole: Any = mask.create("arange", start=0, step=1, count=mask.size, dtype="int64")
    return MaskedSelection(whole, mask.as_copy(), 0, are_indices=True)


def _as_masks(x: Any, items: list[Any]) -> list[Any]:
    """Return an index's items with indices from a mask alone replaced by that mask, if the axis has its length."""
    at = [k for k, i in enumerate(items) if type(i) is MaskedSelection]
    if len(at) != 1 or not items[at[0]].are_indices or not items[at[0]].is_open:
        return items
    k, mask = at[0], items[at[0]]._known_mask
    if not all(isinstance(i, slice) or i is Ellipsis for i in (*items[:k], *items[k + 1 :])):
        return items
    axis = x.ndim - (len(items) - k) if Ellipsis in items[:k] else k
    if not 0 <= axis < x.ndim or x.shape[axis] != mask.size or is_in_loop():
        return items  # a loop that indexes repeatedly finds the indices once
    return [*items[:k], mask, *items[k + 1 :]]


def _read(x: Any, index: Any) -> tuple[Any, TracedTensor, int] | None:
    """Return an index's basic part, its mask, and the axis where the mask begins; None without exactly one mask."""
    items = _as_masks(x, list(index) if isinstance(index, tuple) else [index])
    masks = [k for k, i in enumerate(items) if type(i) is TracedTensor and i.dtype == "bool" and i.ndim]
    plain = all(i is None or i is Ellipsis or isinstance(i, slice) for k, i in enumerate(items) if k not in masks)
    if len(masks) != 1 or not plain or sum(i is Ellipsis for i in items) > 1:
        return None
    at, mask = masks[0], items[masks[0]]
    consuming = mask.ndim + sum(isinstance(i, slice) for i in items)
    if consuming > x.ndim:
        return None
    basic = (*items[:at], *(slice(None),) * mask.ndim, *items[at + 1 :])
    view = indexing.get_item(x, basic) if len(basic) > mask.ndim else x
    before = sum(x.ndim - consuming if i is Ellipsis else 1 for i in items[:at])
    found = view.shape[before : before + mask.ndim]
    if found != mask.shape:
        raise BoundsError(f"boolean index of shape {mask.shape} does not match the array's {found}, at {user_line()}")
    return view, mask, before


def get_item(x: Any, index: Any) -> MaskedSelection | None:
    """Return `x[index]` where the index has one traced mask, else None."""
    found = _read(x, index)
    if found is None:
        return None
    view, mask, axis = found
    whole = view.as_copy()
    if view.ndim > mask.ndim:  # the result has the array's memory order
        whole = whole.laid_out(layout.order_of(view.shape, view._where().strides))
    return MaskedSelection(whole, mask.as_copy(), axis)


def set_item(x: Any, index: Any, value: Any) -> bool:
    """Carry out `x[index] = value` by a select; returns False where the result would differ."""
    found = _read(x, index)
    if found is None:
        return False
    view, mask, axis = found
    target = MaskedSelection(view, mask, axis)
    new = indexing.given_to(x, value)
    if not target._alike(new):
        return False
    whole = new._whole if type(new) is MaskedSelection else new
    view._assign(target.mask.call("where", indexing.cast(whole, view), view))
    return True
