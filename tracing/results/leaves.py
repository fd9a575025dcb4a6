"""Leaves of a traced function's results, in one run: the kind and the tensor of each.

Owns this classification, the extra leaves of selections that are made when a call ends, the memory order of results,
and the merging of the leaves of two modes. Does not own the kinds (`jitfuse.tracing.results.returned`), nor programs.
"""
from __future__ import annotations

import enum
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.record import layout
from jitfuse.tracing.record.access_paths import ViewStep, steps
from jitfuse.tracing.record.dtype_name import DTypeName
from jitfuse.tracing.record.foreign import Foreign, is_torch_constant
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.results.returned import (
    AccessPathLeaf,
    ConstantLeaf,
    LeafIndex,
    PickedCopy,
    PickedView,
    RawLeaf,
    SameLeaf,
    ViewLeaf,
)
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor

if TYPE_CHECKING:
    from jitfuse.tracing.numpy_like.masked_selection import MaskedSelection

value_reads = Later("jitfuse.tracing.record.value_reads")

_NOBODYS: Final = -(1 << 48)
"""Identities of leaves that are not objects of the user's count down from here."""
_PLAIN: Final = (
    type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, enum.Enum, type, types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, range, slice, type(...),
)


def classify(run: Recorder, value: Any, path: str, is_external: Callable[[Any], bool]) -> RawLeaf:
    """Classify a leaf; raises ArgumentError for objects that would be constants of the program by mistake."""
    if type(value) is ModeFlag:
        value = bool(value)
    if type(value) is DTypeName:
        value = numpy_dtype(str(value))
    if isinstance(value, Foreign):
        run.session.torch, value = True, value.tensor
    if type(value) is np.ndarray:
        value = lift(run, value)
    if is_selection(value) and value.is_open:
        return RawLeaf(ConstantLeaf(None), None, "object", id(value))  # elements are selected when a call ends
    if isinstance(value, TracedTensor):
        return _classify_tensor(run, value)
    if type(value) in (bool, int, float, complex):
        return RawLeaf(ConstantLeaf(value), None, "python", id(value))
    if isinstance(value, _PLAIN) or is_torch_constant(value) or is_external(value):
        return RawLeaf(ConstantLeaf(value), None, "object", id(value))
    raise ArgumentError(
        f"{path} is a {type(value).__name__}: a fused function returns arrays, numbers, and lists, tuples, dicts, "
        "namedtuples and dataclasses of them"
    )


def _classify_tensor(run: Recorder, x: TracedTensor) -> RawLeaf:
    tensor = x._id()
    feed = x._storage.feed
    kind = "python" if x.weak else "scalar" if x._scalar else "array"
    leaf: SameLeaf | ViewLeaf | AccessPathLeaf | None = None
    if feed is not None:
        if x is run.feed_tensors.get(feed.id) or (x._path is None and not isinstance(feed.value, np.ndarray)):
            owner = run.session.owners.get(feed.id)
            leaf = SameLeaf(feed.id) if owner is None else AccessPathLeaf(owner[0])
        elif not x._scalar and _is_view(run, x) and not any(step.name == "gather" for step in steps(x._path)):
            lay = x._where()
            leaf = ViewLeaf(feed.id, x.shape, lay.strides, lay.offset)
    moved = leaf is None and x._layout is not None and not run.session.on_device
    return RawLeaf(leaf, tensor, kind, id(x), _order_in_memory(x) if moved else None)


def settle_selections(run: Recorder, values: list[Any], returned: int) -> None:
    """Make masked selections in the program where they cannot be made when a call ends.

    Only results that are distinct objects can wait for the end of a call. `values` are the results, then those of
    effects; selections among them are replaced by the selected elements.
    """
    found = [(k, x) for k, x in enumerate(map(_tensor, values)) if is_selection(x)]
    ids = [id(x) for _, x in found]
    for k, x in found:
        if k >= returned or ids.count(id(x)) > 1 or not value_reads.may_break(run):
            before, run.fixed_source = run.fixed_source, x.line  # no line of user code is running
            try:
                x.picked()
            finally:
                run.fixed_source = before
        if not x.is_open and x is values[k]:
            values[k] = x.picked()


def is_selection(value: Any) -> bool:
    """Return whether a value is a masked selection, the only subclass of `TracedTensor`; does not import its module."""
    return type(value) is not TracedTensor and isinstance(value, TracedTensor)


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, Foreign) else value


def picked(
    run: Recorder, values: Sequence[Any], leaves: list[RawLeaf], paths: list[str]
) -> tuple[PickedView | PickedCopy, ...]:
    """Return the values of a result that are selected when a call ends, and add the leaves that they need."""
    found: list[PickedView | PickedCopy] = []
    for at, x in enumerate(map(_tensor, values)):
        if is_selection(x) and x.is_open:
            found.append(_selected(run, at, x, leaves, paths))
        if type(x) is not TracedTensor or x._scalar or leaves[at].leaf is not None or x._storage.feed is None:
            continue
        way = steps(x._path)
        if not any(step.name == "gather" for step in way) or not _is_view(run, x):
            continue
        whole = len(leaves)
        leaves.append(RawLeaf(SameLeaf(x._storage.feed.id), None, "object", _NOBODYS - whole))
        paths.append(f"{paths[at]}: array")
        found.append(PickedView(at, whole, tuple([_step(run, step, leaves, paths) for step in way])))
    return tuple(found)


def _selected(run: Recorder, at: int, x: MaskedSelection, leaves: list[RawLeaf], paths: list[str]) -> PickedCopy:
    """Return a leaf with a masked selection; the array and the mask become leaves."""
    whole, mask, axis = x.parts
    number, writes = len(leaves), any(held.value != feed for feed, held in run.storages.items())
    for name, part in ("array", whole), ("mask", mask):
        tensor = part._id()
        feed, identity = run.session.feeds.get(tensor), 2 * _NOBODYS - tensor
        is_held = feed is not None and type(feed.value) is np.ndarray
        if is_held and name == "array" and not writes:  # a mask is copied: other threads may write into it
            leaves.append(RawLeaf(SameLeaf(tensor), tensor, "array", identity))
        else:
            axes = _order_in_memory(part) if part._layout is not None else None
            leaves.append(RawLeaf(None, tensor, "array", identity, axes))
        paths.append(f"{paths[at]}: {name}")
    return PickedCopy(at, number, number + 1, axis, str(whole.dtype), mask.size, mask.ndim == whole.ndim)


def _step(run: Recorder, step: ViewStep, leaves: list[RawLeaf], paths: list[str]) -> tuple[str, tuple[Any, ...]]:
    """Return a step of a path as a method of arrays and its arguments; computed indices become leaves."""
    attrs: Any = dict(step.attrs)
    if step.name == "slice":
        bounds = zip(attrs["starts"], attrs["steps"], step.shape, strict=True)
        return "index", tuple([_slice(start, by, count) for start, by, count in bounds])
    if step.name != "gather":
        return step.name, tuple(attrs["shape" if step.name == "reshape" else "axes"])
    index: list[Any] = [slice(None)] * len(step.before)
    for other, axis in zip(step.others, attrs["axes"], strict=True):
        first = run.session.window_starts.get(other)
        index[axis] = LeafIndex(len(leaves), None if first is None else step.shape[axis])
        paths.append(f"{paths[0]}: place {len(leaves)}")
        leaves.append(RawLeaf(None, other if first is None else first, "python", _NOBODYS - len(leaves)))
    while type(index[-1]) is slice:
        index.pop()
    if not step.shape:
        index.append(...)  # an array of rank 0, not a number
    return "index", tuple(index)


def _slice(start: int, step: int, count: int) -> slice:
    if not count:
        return slice(0, 0)
    end = start + count * step
    return slice(start, end if end >= 0 else None, step)


def _order_in_memory(x: TracedTensor) -> tuple[int, ...] | None:
    axes = layout.order_of(x.shape, x._where().strides)
    return None if layout.is_c_order(x.shape, axes) else axes


def in_memory_order(run: Recorder, tensor: int, axes: tuple[int, ...] | None, taken: set[int]) -> int:
    """Return an array's tensor as a transposed view of an array in C order, with the same memory order.

    `axes` are the array's, from the slowest to the fastest; None for C order. The plan stores the copy made here in C
    order, and delivers the view. A tensor that already is such a view of a computed array stays as it is, unless that
    array is an output too (`taken`).
    """
    node = run.graph.node(tensor)
    moved = None if node is None or node.op_name != "transpose" else dict(node.attrs)["axes"]
    if axes is None:
        return tensor if moved is None else run.emit("copy", (tensor,))
    back = tuple(axes.index(k) for k in range(len(axes)))
    if node is not None and moved == back:
        whole = run.graph.node(node.input_ids[0])
        if whole is not None and not taken & set(whole.result_ids) and not _may_lie_elsewhere(whole.op_name):
            taken.update(whole.result_ids)
            return tensor
    stored = run.emit("copy", (run.emit("transpose", (tensor,), {"axes": axes}),))
    return run.emit("transpose", (stored,), {"axes": back})


def _may_lie_elsewhere(name: str) -> bool:
    op = ops.get(name)
    return op is None or op.kind in (ops.VIEW, ops.CREATION, ops.UPDATE, ops.CONTROL)


def _is_view(run: Recorder, x: TracedTensor) -> bool:
    """Return whether calls return a view of an argument's memory, as NumPy and torch do.

    Results that NumPy makes read-only (diagonals, broadcasts, windows) have memory of their own. So have views, except
    slices, of eager arrays and of arrays on other devices.
    """
    anywhere = not (run.session.eager or run.session.on_device)
    return all(_is_basic(step) or (anywhere and step.name in _VIEWS) for step in steps(x._path))


_VIEWS: Final = ("reshape", "transpose", "gather")
"""Steps, besides slices, that give views of arguments; indices of a `gather` on a path are scalars, or consecutive."""


def _is_basic(step: ViewStep) -> bool:
    if step.name == "slice":
        return True
    return step.name == "reshape" and [n for n in step.before if n != 1] == [n for n in step.shape if n != 1]


# ---------------------------------------------------------------- two modes
def merge(training: RawLeaf, evaluation: RawLeaf, path: str, run: Recorder) -> RawLeaf:
    """Return the leaf that is one run's in training and the other's in evaluation.

    Raises ArgumentError if their kinds, shapes or dtypes differ.
    """
    a, b = training, evaluation
    if a.leaf is not None and b.leaf is not None and _same_leaf(a.leaf, b.leaf):
        return a
    ids = [leaf.tensor if leaf.tensor is not None else _number(leaf, run) for leaf in (a, b)]
    if a.kind == b.kind and None not in ids:
        metas = [run.graph.metas[i] for i in ids]  # type: ignore[index]
        if ids[0] == ids[1]:
            return RawLeaf(None, ids[0], a.kind, a.identity, a.axes)
        if _agree(*metas):
            merged = run.emit("mode_select", (ids[0], ids[1]))  # type: ignore[arg-type]
            return RawLeaf(None, merged, a.kind, a.identity, a.axes if a.axes == b.axes else None)
    raise ArgumentError(
        f"{path} differs between the modes: training returns {_shown(a, run)}, evaluation returns {_shown(b, run)}. "
        "Both must return the same tree with the same shapes and dtypes."
    )


def _agree(a: Meta, b: Meta) -> bool:
    return (a.shape, a.dtype, a.weak) == (b.shape, b.dtype, b.weak)


def _same_leaf(a: Any, b: Any) -> bool:
    if isinstance(a, ConstantLeaf) and isinstance(b, ConstantLeaf):
        x, y = a.value, b.value
        return x is y or (type(x) is type(y) and repr(x) == repr(y) if isinstance(x, float | complex) else _equal(x, y))
    return bool(a == b)


def _equal(x: Any, y: Any) -> bool:
    try:
        return type(x) is type(y) and bool(x == y)
    except Exception:
        return False


def _number(leaf: RawLeaf, run: Recorder) -> int | None:
    if leaf.kind == "python" and isinstance(leaf.leaf, ConstantLeaf):
        return run.literal(leaf.leaf.value)
    return None


def _shown(leaf: RawLeaf, run: Recorder) -> str:
    if leaf.tensor is not None:
        return run.graph.describe(leaf.tensor)
    return repr(leaf.leaf.value) if isinstance(leaf.leaf, ConstantLeaf) else str(leaf.leaf)
