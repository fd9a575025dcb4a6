"""What a traced function returns: the tree, and for each leaf where its value comes from.

Owns the classification of leaves (an output of the program, an argument itself, a view of one, a Python
constant), the merging of the trees of two modes, and the flattening of dataclasses. Does not build programs.
"""
from __future__ import annotations

import contextlib
import enum
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.ir import ops
from jitfuse.ir.program import Meta
from jitfuse.later import Later
from jitfuse.records import Record
from jitfuse.tracing import layout
from jitfuse.tracing.dtype_name import DTypeName
from jitfuse.tracing.foreign import Foreign, is_torch_constant
from jitfuse.tracing.lifting import lift
from jitfuse.tracing.mode import ModeFlag
from jitfuse.tracing.paths import Path, steps
from jitfuse.tracing.recorder import Recorder
from jitfuse.tracing.traced import TracedTensor

if TYPE_CHECKING:
    from jitfuse.tracing import observing
    from jitfuse.tracing.effects import Effect
    from jitfuse.tracing.selection import Selection
    from jitfuse.tracing.view.chain import Chain
else:
    observing = Later("jitfuse.tracing.observing")

NAMESPACE: Final = "jitfuse"
_NOBODYS: Final = -(1 << 48)
"""Identities of leaves that are no object of the user's count down from here."""
NUMBERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool, "int64": int, "uint64": int, "float64": float, "complex128": complex,
}
"""What makes a number of Python's, by the dtype that it has in programs."""


class OutputLeaf(Record, frozen=True):
    """A result of the program, in memory of its own. kind: "array", "scalar" (NumPy) or "python"."""

    path: str
    kind: str
    dtype: str


class SameLeaf(Record, frozen=True):
    """The object that was bound to this feed."""

    feed: int


class ViewLeaf(Record, frozen=True):
    """A view of the array bound to this feed: shape, and offset and strides in bytes from its first element."""

    feed: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class PlaceLeaf(Record, frozen=True):
    """The list, dict or tuple of the caller's at the end of a chain."""

    chain: Chain


class ConstantLeaf(Record, frozen=True):
    """A Python object that is the same in every call."""

    value: Any


class PickedView(Record, frozen=True):
    """A leaf that is a view of an array at places that the program computes.

    `at` is the leaf's position, `whole` that of the leaf that is the array. Each step to the view is a method of arrays
    and what it takes; in indices, a `_Place` stands for what a leaf holds.
    """

    at: int
    whole: int
    steps: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def count(self) -> int:
        """How many leaves it needs: the array and the places."""
        return 1 + sum(type(i) is _Place for name, given in self.steps if name == "index" for i in given)

    def of(self, values: Sequence[Any]) -> Any:
        """Return the view, from the values of all leaves."""
        found = values[self.whole]
        for name, given in self.steps:
            if name == "index":
                found = found[tuple([values[i.leaf] if type(i) is _Place else i for i in given])]
            elif name == "transpose" and not isinstance(found, np.ndarray):
                found = found.permute(given)
            else:
                found = getattr(found, name)(given)
        return found


class PickedCopy(Record, frozen=True):
    """A leaf that holds the elements of an array where a mask holds, both of which the program computes.

    `at` is the leaf's position, `whole` and `mask` those of the leaves that are the array and the mask, whose axes
    begin at an axis. `dtype` is the array's, `extent` how many elements the mask has; `is_whole`: it is of all axes.
    """

    at: int
    whole: int
    mask: int
    axis: int
    dtype: str
    extent: int
    is_whole: bool

    count = 2
    """How many leaves it needs."""

    def of(self, values: Sequence[Any]) -> Any:
        """Return the elements, from the values of all leaves."""
        mask = values[self.mask]
        return values[self.whole][(*(slice(None),) * self.axis, mask) if self.axis else mask]


class _Place(Record, frozen=True):
    """What a leaf holds, in an index."""

    leaf: int


def window(whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> np.ndarray[Any, Any]:
    """Return the view of an argument that a function returns."""
    return np.asarray(_Window(whole, leaf)).view(whole.dtype)


class _Window:
    """Memory of an array under another shape and strides; keeps the array alive."""

    def __init__(self, whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> None:
        self.whole = whole
        self.__array_interface__ = {
            **whole.__array_interface__, "shape": leaf.shape, "strides": leaf.strides,
            "data": (whole.ctypes.data + leaf.offset, not whole.flags.writeable),
        }


ResultLeaf = OutputLeaf | SameLeaf | ViewLeaf | PlaceLeaf | ConstantLeaf


class ResultTree(Record, frozen=True):
    """The result's structure, and what calls put in places of Python's state. Leaves of one path are one object.

    `leaves` are the result's, then those of each effect. `spec` is optree's, or None for a result that is a leaf
    itself: the usual case, for which importing a pytree library would take longer than all else of a warm start.
    """

    spec: Any
    leaves: tuple[ResultLeaf, ...]
    effects: tuple[Effect, ...] = ()
    chosen: tuple[tuple[int, str], ...] = ()
    """The leaves that are numbers of NumPy's or Python's, and the dtype of Python's; the truths that they are Python's
    are the last leaves but for those of `picked`."""
    picked: tuple[PickedView | PickedCopy, ...] = ()
    """The leaves that are picked at computed places: the arrays, places and masks are the last leaves."""

    @property
    def _others(self) -> int:
        """How many leaves there are beside those of the result and of effects."""
        return len(self.chosen) + sum(view.count for view in self.picked)

    @property
    def owners(self) -> tuple[Chain, ...]:
        """What has the places of effects, in their order: objects at the ends of these chains."""
        return tuple(effect.owner for effect in self.effects if effect.owner is not None)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """All that a delivery reads of the caller's beside feeds."""
        return (*self.owners, *(leaf.chain for leaf in self.leaves if isinstance(leaf, PlaceLeaf)))

    @property
    def result_leaves(self) -> tuple[ResultLeaf, ...]:
        """The leaves of the result alone."""
        return self.leaves[: len(self.leaves) - self._others - sum(effect.count for effect in self.effects)]

    def settled(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the leaves with Python's numbers where they are these, and what is picked at places."""
        if not self.needs_settling:
            return values
        found = list(values)
        for (at, python), truth in zip(self.chosen, values[len(self.leaves) - self._others :]):
            if truth:
                found[at] = NUMBERS[python](found[at])
        for view in self.picked:
            found[view.at] = view.of(values)
        return found

    @property
    def needs_settling(self) -> bool:
        """Whether leaves are not what they are delivered as."""
        return bool(self.chosen or self.picked)

    def rebuild(self, values: Sequence[Any]) -> Any:
        """Return the result with these values as leaves, in order; what comes after them belongs to effects."""
        found = self.settled(values)
        more = self.effects or self.needs_settling
        return tree_of(self.spec, found[: len(self.result_leaves)] if more else found)


def rebuilding(tree: ResultTree) -> Callable[[Sequence[Any]], Any]:
    """Return `tree.rebuild`, as short as it can be for one view, or one number that is NumPy's or Python's."""
    if tree.spec is not None or not tree.needs_settling:
        return tree.rebuild
    if tree.picked:
        return tree.picked[0].of
    number = NUMBERS[tree.chosen[0][1]]

    def one(values: Sequence[Any]) -> Any:
        value, truth = values
        return number(value) if truth else value

    return one


def tree_of(spec: Any, leaves: Sequence[Any]) -> Any:
    """Return the tree with these leaves; None is the spec of one that is a leaf itself."""
    if spec is None:
        return leaves[0]
    import optree

    return optree.tree_unflatten(spec, leaves)


class RawLeaf(Record, frozen=True):
    """A leaf of one run: what it is, its tensor (None: no number), and the identity of its object."""

    leaf: SameLeaf | ViewLeaf | PlaceLeaf | ConstantLeaf | None
    tensor: int | None
    kind: str
    identity: int
    axes: tuple[int, ...] | None = None
    """The axes of an array from the slowest in memory to the fastest; None for C order."""


# ---------------------------------------------------------------- trees
class _Fields:
    """A dataclass instance as optree sees it: one type of node for all of them.

    optree keeps the types that are registered with it for good, and with a user's class its whole module.
    """

    __slots__ = ("kind", "names", "values")

    def __init__(self, value: Any, is_leaf: Callable[[Any], bool] | None = None) -> None:
        self.kind = type(value)
        self.names = tuple(f.name for f in sys.modules["dataclasses"].fields(value))
        self.values = [_with_fields(getattr(value, name), is_leaf) for name in self.names]

    def flattened(self) -> tuple[list[Any], tuple[type, tuple[str, ...]], tuple[str, ...]]:
        """Return children, what else there is to the node, and the names of the children."""
        return self.values, (self.kind, self.names), self.names


def _instance(node: tuple[type, tuple[str, ...]], children: Iterable[Any]) -> Any:
    """Return the dataclass instance of a node, without running its ``__init__`` again."""
    kind, names = node
    made: Any = object.__new__(kind)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


@cache
def _know_fields() -> None:
    import optree

    register: Any = optree.register_pytree_node  # its stubs want nodes to be collections
    with contextlib.suppress(ValueError):  # another thread was first
        register(
            _Fields, _Fields.flattened, _instance, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE
        )


def has_fields(value: Any) -> bool:
    """Return whether a value is an instance of a dataclass."""
    return type(value) is not TracedTensor and hasattr(type(value), "__dataclass_fields__")


def _with_fields(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return a tree whose dataclass instances are nodes."""
    import optree

    return optree.tree_map(
        lambda leaf: leaf if not has_fields(leaf) or (is_leaf and is_leaf(leaf)) else _Fields(leaf, is_leaf), tree,
        is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE,
    )


def flatten(
    tree: Any, root: str = "result", is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[str], list[Any], Any]:
    """Return the paths from `root`, leaves and spec of a tree; dataclasses are nodes, None is a leaf."""
    if type(tree) is TracedTensor:
        return [root], [tree], None
    import optree

    accessors, leaves, spec = optree.tree_flatten_with_accessor(
        tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE
    )
    if any(map(has_fields, leaves)):
        _know_fields()
        accessors, leaves, spec = optree.tree_flatten_with_accessor(
            _with_fields(tree, is_leaf), is_leaf, none_is_leaf=True,
            namespace=NAMESPACE,
        )
    return [a.codify(root) for a in accessors], leaves, spec


# ---------------------------------------------------------------- leaves of one run
_PLAIN: Final = (
    type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, enum.Enum, type, types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, range, slice, type(...),
)


def classify(run: Recorder, value: Any, path: str, is_external: Callable[[Any], bool]) -> RawLeaf:
    """Return what a leaf is; raises ArgumentError for objects that would be frozen in the program."""
    if type(value) is ModeFlag:
        value = bool(value)
    if type(value) is DTypeName:
        value = numpy_dtype(str(value))
    if isinstance(value, Foreign):
        run.session.torch, value = True, value.tensor
    if type(value) is np.ndarray:
        value = lift(run, value)
    if is_selection(value) and value.is_open:
        return RawLeaf(ConstantLeaf(None), None, "object", id(value))  # elements are picked when a call ends
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
    leaf: SameLeaf | ViewLeaf | None = None
    if feed is not None:
        if x is run.feed_tensors.get(feed.id) or (x._path is None and not isinstance(feed.value, np.ndarray)):
            leaf = SameLeaf(feed.id)
        elif not x._scalar and _is_view(run, x) and not any(step.name == "gather" for step in steps(x._path)):
            lay = x._where()
            leaf = ViewLeaf(feed.id, x.shape, lay.strides, lay.offset)
    moved = leaf is None and x._layout is not None and not run.session.on_device
    return RawLeaf(leaf, tensor, kind, id(x), _order_in_memory(x) if moved else None)


def settle_selections(run: Recorder, values: list[Any], returned: int) -> None:
    """Have the elements that masks pick be picked by the program where a call cannot pick them when it ends.

    It can where they are results, each one object; `values` are these and then what is put into places of Python's, and
    hold what is picked from then on.
    """
    found = [(k, x) for k, x in enumerate(map(_tensor, values)) if is_selection(x)]
    ids = [id(x) for _, x in found]
    for k, x in found:
        if k >= returned or ids.count(id(x)) > 1 or not observing.may_split(run):
            before, run.fixed_source = run.fixed_source, x.line  # no line of the user's is at work
            x.picked()
            run.fixed_source = before
        if not x.is_open and x is values[k]:
            values[k] = x.picked()


def is_selection(value: Any) -> bool:
    """Return whether a value is what a mask picks: the other kind of traced tensors, whose module few programs need."""
    return type(value) is not TracedTensor and isinstance(value, TracedTensor)


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, Foreign) else value


def picked(
    run: Recorder, values: Sequence[Any], leaves: list[RawLeaf], paths: list[str]
) -> tuple[PickedView | PickedCopy, ...]:
    """Return which of a result's values are picked from arrays at computed places, and add what they need as leaves."""
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
        found.append(PickedView(at, whole, tuple([_step(step, leaves, paths) for step in way])))
    return tuple(found)


def _selected(run: Recorder, at: int, x: Selection, leaves: list[RawLeaf], paths: list[str]) -> PickedCopy:
    """Return a leaf that holds what a mask picks; the array and the mask become leaves."""
    whole, mask, axis = x.parts
    number, writes = len(leaves), any(held.value != feed for feed, held in run.storages.items())
    for name, part in ("array", whole), ("mask", mask):
        tensor = part._id()
        feed, identity = run.session.feeds.get(tensor), 2 * _NOBODYS - tensor
        is_held = feed is not None and type(feed.value) is np.ndarray
        if is_held and name == "array" and not writes:  # a mask that another thread writes would be two
            leaves.append(RawLeaf(SameLeaf(tensor), tensor, "array", identity))
        else:
            axes = _order_in_memory(part) if part._layout is not None else None
            leaves.append(RawLeaf(None, tensor, "array", identity, axes))
        paths.append(f"{paths[at]}: {name}")
    return PickedCopy(at, number, number + 1, axis, str(whole.dtype), mask.size, mask.ndim == whole.ndim)


def _step(step: Path, leaves: list[RawLeaf], paths: list[str]) -> tuple[str, tuple[Any, ...]]:
    """Return how arrays go a step of a path; places that it goes to become leaves."""
    attrs: Any = dict(step.attrs)
    if step.name == "slice":
        bounds = zip(attrs["starts"], attrs["steps"], step.shape, strict=True)
        return "index", tuple([_slice(start, by, count) for start, by, count in bounds])
    if step.name != "gather":
        return step.name, tuple(attrs["shape" if step.name == "reshape" else "axes"])
    index: list[Any] = [slice(None)] * len(step.before)
    for place, axis in zip(step.others, attrs["axes"], strict=True):
        index[axis] = _Place(len(leaves))
        paths.append(f"{paths[0]}: place {len(leaves)}")
        leaves.append(RawLeaf(None, place, "python", _NOBODYS - len(leaves)))
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
    """Return an array's tensor as a view of its elements in the order in which they lie in memory.

    `axes` are the array's, from the slowest to the fastest; None for C order. The plan stores what is copied here, in C
    order, and delivers the view of it. What is such a view of a computed array that nobody else gets (`taken`) stays
    as it is.
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
    """Return whether calls return a view of an argument's memory where NumPy and torch do.

    Results that NumPy makes read-only (diagonals, broadcasts, windows) are memory of their own; so are other views than
    slices of eager arrays and of those on other devices.
    """
    anywhere = not (run.session.eager or run.session.on_device)
    return all(_is_basic(step) or (anywhere and step.name in _VIEWS) for step in steps(x._path))


_VIEWS: Final = ("reshape", "transpose", "gather")
"""Steps to views of arguments besides slices; a `gather` on a path is by numbers, one for each axis."""


def _is_basic(step: Path) -> bool:
    if step.name == "slice":
        return True
    return step.name == "reshape" and [n for n in step.before if n != 1] == [n for n in step.shape if n != 1]


# ---------------------------------------------------------------- two modes
def merge(training: RawLeaf, evaluation: RawLeaf, path: str, run: Recorder) -> RawLeaf:
    """Return the leaf that is one run's in training and the other's in evaluation.

    Raises ArgumentError where they are not of one kind, shape and dtype.
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
