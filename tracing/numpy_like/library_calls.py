"""Calls of library functions that have no operators: a graph break, at which the library itself is called.

Such a function reads the arrays and numbers that it is given, and leaves everything as it was; so it may be called at
any time, and again. The program up to the call runs, the function gets real arrays, and its results go on traced.
What types, dtypes and shapes they have chooses the path on; their elements do not.

Owns the calls. Does not own which functions these are (`jitfuse.tracing.library_functions`), or graph breaks
(`jitfuse.graph_breaks`).
"""
from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Hashable, Iterator
from pathlib import PurePath
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import UnsupportedError, VolatileError
from jitfuse.ir.program import Meta
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record import layout, try_blocks, value_reads
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.value_reads import Answer, Cost, Question
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_CONSTANTS: Final = frozenset({
    type(None), bool, int, float, complex, str, bytes, slice, type(...), range, *np.sctypeDict.values(),
}) - {np.object_, np.void}
_PLAIN: Final = (type(None), bool, str, bytes)
_INT64: Final = range(-(2**63), 2**63)
_DRAWS: Final = frozenset({"rng", "random_state", "seed", "callback"})
"""Options by which functions draw or call: these must be absent."""
_INTO: Final = frozenset({"out", "output", "distances", "indices", "state"})
"""Options that may be arrays to write into."""

Arrays = tuple[np.ndarray[Any, Any], ...]
_Make = Callable[[Arrays], Any]


class _Leaf(NamedTuple):
    """A result, or a part of one: an array with the order of its axes in memory, a NumPy scalar or a number."""

    kind: str
    meta: Meta
    type: type
    dtype: np.dtype[Any]
    axes: tuple[int, ...] = ()
    in_c_order: bool = True

    def constant(self, run: Recorder, part: np.ndarray[Any, Any]) -> Any:
        """Return a result that depends on nothing traced: a number as it is."""
        return lift(run, part) if self.kind == "array" else part[()] if self.kind == "scalar" else part.item()


class _Tree(NamedTuple):
    """A plain value, or a container of results; `value` is then what else it holds, the keys of a dict."""

    type: type
    value: Any
    parts: tuple[Any, ...]

    def filled(self, parts: list[Any]) -> Any:
        """Return the container with other parts."""
        if self.type in _PLAIN:
            return self.value
        if self.type is dict:
            return dict(zip(self.value, parts, strict=True))
        return getattr(self.type, "_make", self.type)(parts)


class _Raised(NamedTuple):
    """An error that the traced function may catch."""

    error: Exception


def call(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, reads: bool = False,
    of_torch: bool = False,
) -> Any:
    """Call a library function, in the trace that is running if there is one.

    `reads`: it reads more than its arguments, a clock or a file, so that no call of it is a constant. `of_torch`: its
    arrays stand for tensors. Raises VolatileError where Python has to run the traced function in every call.
    """
    run = active()
    if run is None:
        return function(*args, **kwargs)
    if run.session.torch and not of_torch:
        raise VolatileError(f"{name} is called at {user_line()}, in a function that reads torch tensors: Python runs in"
                            " every call. Pass arrays alone.")
    _require_no_effects(function, name, args, kwargs)
    tensors: list[TracedTensor] = []
    constants: list[Hashable] = []
    positional = [_template(value, name, tensors, constants) for value in args]
    named = {option: _template(value, name, tensors, constants) for option, value in kwargs.items()}

    function = _as_called(function, run)
    caught = try_blocks.is_caught()  # then an error is a path of its own
    before: Answer | None = None
    cost = Cost()

    def ask(*arrays: np.ndarray[Any, Any]) -> Answer:
        nonlocal before
        given = [make(arrays) for make in positional]
        options = {option: make(arrays) for option, make in named.items()} if named else {}
        begin = perf_counter_ns()
        try:
            found = function(*given, **options)
        except Exception as error:
            if not caught:
                raise
            return Answer((name, f"raises {type(error).__name__}: {error}"), _Raised(error.with_traceback(None)))
        cost.calls += 1
        cost.nanoseconds += perf_counter_ns() - begin
        known = before
        parts: list[np.ndarray[Any, Any]] = []
        if known is None or not _is_alike(found, known.value, parts):
            parts = []
            tree, text = _described(found, name, parts)
            known = before = Answer((name, text), tree)
        return known._replace(arrays=_own(name, parts, [*arrays, *given, *options.values()]))

    if not tensors and not reads:
        answer = ask()
        pairs = zip(answer.arrays, _leaves(answer.value))
        return _built(answer.value, iter([leaf.constant(run, part) for part, leaf in pairs]))
    if not value_reads.may_break(run):
        raise UnsupportedError(f"{name} is called at {user_line()}, and has no operator: it takes a graph break. There"
                               " is none under strict=True, in .program(), .warm() and .export(), in bodies of jf.cond"
                               " and loop functions, and on the GPU. Call it outside.")
    tree = value_reads.ask(run, Question(f"{name}()", user_line(), ask, extent=True, brings=True, cost=cost,
                                         given=(*constants, *kwargs)),
                           tuple(tensor._id() for tensor in tensors))
    count = sum(1 for _ in _leaves(tree))
    made = tuple(run.session.live)[len(run.session.live) - count :]
    return _built(tree, (fresh(run, tensor, scalar=False) for tensor in made))


def _as_called(function: Callable[..., Any], run: Recorder) -> Callable[..., Any]:
    """Return the function with the handling of errors and warnings that the traced function has set around the call."""
    before, filters = run.settings
    errors: dict[str, Any] = {kind: how for kind, how in np.geterr().items() if how != before[kind]}
    if not errors and warnings.filters is filters:
        return function
    count = len(warnings.filters) - len(filters)
    only_added = count >= 0 and list(warnings.filters[count:]) == list(filters)
    own = warnings.filters[:count] if only_added else list(warnings.filters)

    def call(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(**errors), warnings.catch_warnings():
            warnings.filters[:] = [*own, *warnings.filters] if only_added else own  # type: ignore[index]
            return function(*args, **kwargs)

    return call


def _require_no_effects(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise VolatileError for a call with an option by which the function would write, draw or call."""
    try:
        given = dict(inspect.signature(function).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # a wrong call: the function itself says so
        given = {}
    for option, value in (*given.items(), *kwargs.items()):
        writes = (
            value is not None if option in _DRAWS else value is False if option == "copy"
            else isinstance(value, np.ndarray | AbstractTensor) if option in _INTO
            else option.startswith("overwrite_") and value is not False)
        if writes:
            raise VolatileError(f"{name} is called with {option} at {user_line()}: what it writes is not seen, so that "
                                "Python runs in every call.")


# ---------------------------------------------------------------- arguments
def _template(value: Any, name: str, tensors: list[TracedTensor], constants: list[Hashable]) -> _Make:
    """Return the function that makes an argument anew for each call.

    Adds the tensors that it needs to `tensors`, and what tells the rest from other arguments to `constants`.
    """
    kind = type(value)
    if issubclass(kind, TracedTensor):  # of a masked selection Python reads the count
        return _real(value if kind is TracedTensor else value.picked(), tensors)
    if kind in (list, tuple, dict):
        items = [_template(item, name, tensors, constants) for item in (value.values() if kind is dict else value)]
        keys = tuple(value) if kind is dict else ()
        constants.append((kind, keys, len(items)))
        return lambda arrays: (
            kind(item(arrays) for item in items) if kind is not dict
            else dict(zip(keys, [item(arrays) for item in items], strict=True)))
    if kind in _CONSTANTS or isinstance(value, np.dtype | PurePath) or (kind is type and value in _CONSTANTS):
        constants.append((kind, value.tobytes() if isinstance(value, np.generic) else repr(value)))
        return lambda arrays: value
    if kind is np.ndarray and not value.dtype.hasobject:
        kept = value.copy(order="K")
        constants.append((kept.dtype.str, kept.shape, kept.strides, kept.tobytes()))
        return lambda arrays: kept.copy(order="K")
    what = "a traced value" if isinstance(value, AbstractTensor) else f"a {kind.__module__}.{kind.__qualname__}"
    raise VolatileError(f"{name} is called with {what} at {user_line()}: jitfuse hands arrays, numbers and text to "
                        "functions of libraries, so that Python runs in every call.")


def _real(tensor: TracedTensor, tensors: list[TracedTensor]) -> _Make:
    index = len(tensors)
    tensors.append(tensor)
    if tensor.weak:
        return lambda arrays: arrays[index][()].item()
    if tensor._scalar:
        return lambda arrays: arrays[index][()]
    where = tensor._layout
    axes = () if where is None else layout.order_of(tensor.shape, where.strides)
    if layout.is_c_order(tensor.shape, axes):
        return operator.itemgetter(index)
    back = np.argsort(axes)
    return lambda arrays: (
        arrays[index] if not arrays[index].flags.c_contiguous  # the caller's own
        else arrays[index].transpose(axes).copy().transpose(back))


# ---------------------------------------------------------------- results
def _own(name: str, parts: list[np.ndarray[Any, Any]], given: list[Any]) -> Arrays:
    """Return the arrays of a result in C order; raise VolatileError for those that share memory with others."""
    for k, part in enumerate(parts):
        if any(_may_be_shared(part, array) for array in (*given, *parts[:k])):
            raise VolatileError(f"{name} returns its argument, a view of it or one array twice, so that Python runs in "
                                "every call.")
    return tuple([np.asarray(part, order="C") for part in parts])


def _may_be_shared(part: np.ndarray[Any, Any], other: Any) -> bool:
    if part is other:
        return True
    if part.base is None or type(other) is not np.ndarray:
        return False
    return np.may_share_memory(part, other) and np.shares_memory(part, other)


def _is_alike(value: Any, tree: Any, parts: list[np.ndarray[Any, Any]]) -> bool:
    """Return whether a result has this tree; adds the leaves' arrays to `parts`."""
    kind = type(value)
    if type(tree) is _Leaf:
        if kind is np.ndarray:
            if tree.kind != "array" or value.shape != tree.meta.shape or value.dtype != tree.dtype:
                return False
            in_order = tree.in_c_order and value.flags.c_contiguous
            if not in_order and layout.order_of(value.shape, value.strides) != tree.axes:
                return False
            parts.append(value)
            return True
        if tree.kind == "array" or tree.type is not kind or (kind is int and value not in _INT64):
            return False
        parts.append(np.array(value))
        return True
    if kind is not tree.type or kind in _PLAIN:
        return bool(kind is tree.type and value == tree.value)
    items = tuple(value.values()) if kind is dict else value
    return len(items) == len(tree.parts) and (kind is not dict or tuple(value) == tree.value) and all(
        _is_alike(item, part, parts) for item, part in zip(items, tree.parts))


def _described(value: Any, name: str, parts: list[np.ndarray[Any, Any]]) -> tuple[Any, str]:
    """Return the tree of a result and a text that tells it from others; adds the leaves' arrays to `parts`."""
    kind = type(value)
    if kind is np.ndarray and value.dtype.isnative and value.dtype.name in SUPPORTED:
        parts.append(value)
        axes = layout.order_of(value.shape, value.strides)
        in_order = bool(value.flags.c_contiguous) and layout.is_c_order(value.shape, axes)
        leaf = _Leaf("array", Meta(value.shape, value.dtype.name), kind, value.dtype, axes, in_order)
        return leaf, f"{value.dtype.name}{list(value.shape)}{axes}"
    if isinstance(value, np.generic) and value.dtype.name in SUPPORTED:
        parts.append(np.array(value))
        return _Leaf("scalar", Meta((), value.dtype.name), kind, value.dtype), value.dtype.name
    if kind in (int, float, complex) and (kind is not int or value in _INT64):
        parts.append(np.asarray(value))
        return _Leaf("number", Meta((), parts[-1].dtype.name), kind, parts[-1].dtype), kind.__name__
    if kind in _PLAIN:
        return _Tree(kind, value, ()), repr(value)
    if kind in (list, tuple, dict) or _is_named_tuple(value):
        found = [_described(item, name, parts) for item in (value.values() if kind is dict else value)]
        keys = tuple(value) if kind is dict else ()
        tree = _Tree(kind, keys, tuple(part for part, _ in found))
        return tree, f"{kind.__name__}{keys}({', '.join(text for _, text in found)})"
    raise VolatileError(f"{name} returns a {kind.__module__}.{kind.__qualname__}: jitfuse does not see its state, so "
                        "that Python runs in every call. Call it outside, and pass the arrays that you need of it.")


def _is_named_tuple(value: Any) -> bool:
    """Tell whether a value is a named tuple with nothing but its items, as torch's and NumPy's results are."""
    kind = type(value)
    return isinstance(value, tuple) and not hasattr(value, "__dict__") and (
        hasattr(kind, "_make") or getattr(kind, "n_unnamed_fields", None) == 0)


def _leaves(tree: Any) -> Iterator[_Leaf]:
    if isinstance(tree, _Leaf):
        yield tree
    elif isinstance(tree, _Tree):
        for part in tree.parts:
            yield from _leaves(part)


def _built(tree: Any, made: Iterator[Any]) -> Any:
    """Return a result with traced values in place of its arrays and numbers; raise what the function raised."""
    if isinstance(tree, _Raised):
        raise tree.error.with_traceback(None)
    if isinstance(tree, _Tree):
        return tree.filled([_built(part, made) for part in tree.parts])
    tensor = next(made)
    if type(tensor) is not TracedTensor:
        return tensor
    if tree.kind == "array":
        return tensor.laid_out(tree.axes)
    run = tensor._run
    return fresh(run, run.emit("python_number", (tensor._id(),)) if tree.kind == "number" else tensor._id())
