"""Adapts arguments that native code cannot read: eager arrays, torch tensors, unaligned arrays, NumPy's generators,
and the specs of `.warm`.

Owns zero-copy passage of eager arrays and CPU torch tensors, copies of unaligned arrays, and `jf.spec`. torch is never
imported here: a tensor can only come from a process that has imported it. Does not own any arithmetic.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from jitfuse import reasons
from jitfuse.backends.llvm.runtime.exchange import exchange
from jitfuse.base.records import Record
from jitfuse.compile.run.delivery import Delivery
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.function.argument_leaves import mapped
from jitfuse.function.rng_state import GeneratorStates, RngUse, is_generator
from jitfuse.reasons import Why
from jitfuse.tracing.record import error_state
from jitfuse.tracing.record.device_array import HostArray, unwrapped
from jitfuse.tracing.record.foreign import array_as_tensor, is_torch_tensor, tensor_as_array

_NUMBERS: Final = (float, int, bool, complex)
"""Types of arguments that are passed as they are, and that most calls have."""


class ArraySpec(Record, frozen=True):
    """The shape and dtype of an array that does not exist yet: an argument of `.warm`."""

    shape: tuple[int, ...]
    dtype: str


def spec(shape: Sequence[int] | int, dtype: Any = "float64") -> ArraySpec:
    """Describe a C-contiguous array for `.warm`; it only reserves address range, for the time of that call.

    Args:
        shape: an integer, or a sequence of integers.
        dtype: a name, a dtype of jitfuse or of NumPy.

    Returns:
        What stands for the array in the arguments of `.warm`.

    Raises:
        DTypeError, TypeError: no dtype of this name.

    Example:
        >>> f = jf.fuse(lambda x: x + 1)
        >>> f.warm(jf.spec((3, 4), "float32"))
        >>> f.stats()["traces"]
        1
    """
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return ArraySpec(extents, numpy_dtype(dtype).name if isinstance(dtype, str) else np.dtype(dtype).name)


def materialise_specs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with arrays in place of specs; their pages are never touched."""
    def real(leaf: Any) -> Any:
        return np.empty(leaf.shape, numpy_dtype(leaf.dtype)) if isinstance(leaf, ArraySpec) else leaf

    import optree

    mapped: Any = optree.tree_map(real, cast(Any, (args, kwargs)), none_is_leaf=True)
    return mapped[0], mapped[1]


def needs_adapting(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call has eager arrays, torch tensors, or other arguments for `Adapted`."""
    torch = sys.modules.get("torch")
    leaves, containers = [*args, *kwargs.values()], set[int]()
    while leaves:
        leaf = leaves.pop()
        if type(leaf) is np.ndarray:
            if not leaf.flags.aligned:
                return True
        elif type(leaf) in (list, tuple, dict):
            if id(leaf) not in containers:  # it may hold itself
                containers.add(id(leaf))
                leaves.extend(leaf.values() if type(leaf) is dict else leaf)
        elif type(leaf) not in _NUMBERS and (is_generator(leaf) or (
                not leaf.is_owner if isinstance(leaf, HostArray) else torch is not None and isinstance(
                    leaf, torch.Tensor))):
            return True
    return False


class Adapted:
    """Arguments as arrays that native code reads, and the conversion of results to the caller's kind of arrays.

    Eager arrays and CPU tensors pass as NumPy views. Results come back over the same memory: as torch tensors if an
    argument is one, else as eager arrays. Unaligned arrays pass as copies, and writes into these are copied back.
    Generators pass as arrays of their states. The arguments come without `training`. `global_rng`: the call also
    uses the generator behind `np.random.seed`. Raises ArgumentError for arguments that cannot be passed so.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], global_rng: bool = False) -> None:
        self._given: dict[int, tuple[Any, Any]] = {}
        self._kinds: list[Any] = []
        self._leaves = 0
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._copies: dict[int, np.ndarray[Any, Any]] = {}
        self._restores = True
        self.generator_states = GeneratorStates(global_rng)
        self.tensors: tuple[int, ...] = ()
        """The indices of torch tensors among the leaves of the arguments."""
        self.tensor_ids: frozenset[int] = frozenset()
        """The ids of the arrays that replace them."""
        self._generators: tuple[int, ...] = ()
        made: dict[int, Any] = {}
        self.args: tuple[Any, ...] = mapped(self._adapted, args, made)
        self.kwargs = {name: mapped(self._adapted, value, made) for name, value in kwargs.items()}
        self.rng_use = RngUse(self._generators, global_rng)
        self.changes_only_generators = all(
            mine is own or is_generator(own)
            for mine, own in zip((*self.args, *self.kwargs.values()), (*args, *kwargs.values()), strict=True))
        """Whether all arguments but generators are the caller's own objects."""

    def _adapted(self, leaf: Any) -> Any:
        number, self._leaves = self._leaves, self._leaves + 1
        if is_torch_tensor(leaf):
            array: Any = tensor_as_array(leaf)
            self.tensors += (number,)
            self.tensor_ids |= {id(array)}
        elif isinstance(leaf, HostArray) and leaf.is_owner:  # native code reads it as an attribute
            return leaf
        elif isinstance(leaf, HostArray):
            over_tensor = is_torch_tensor(leaf.value)  # type: ignore[attr-defined]
            array = tensor_as_array(leaf.value) if over_tensor else leaf.array  # type: ignore[attr-defined]
            self._kinds.insert(0 if over_tensor else len(self._kinds), type(leaf))
        elif type(leaf) is np.ndarray:
            self._reject_overlap(leaf)
            if leaf.flags.aligned:
                return leaf
            array = self._copies.get(id(leaf))
            array = self._copies[id(leaf)] = _aligned(leaf) if array is None else array
        elif is_generator(leaf):
            array = self.generator_states.array(leaf)
            self._generators += (number,)
        else:
            return leaf
        self._given[id(array)] = (leaf, array)
        return array

    def _reject_overlap(self, leaf: np.ndarray[Any, Any]) -> None:
        """Raise ArgumentError for an array that shares memory with another one, where one of them passes as a copy."""
        for other in self._arrays:
            copied = not (leaf.flags.aligned and other.flags.aligned)
            if copied and other is not leaf and np.may_share_memory(leaf, other):
                raise ArgumentError("two arrays among the arguments share memory, and one is not aligned; pass copies")
        self._arrays.append(leaf)

    def restored(self, made: Delivery) -> Delivery:
        """Return a delivery in the caller's kind of arrays; `delivered` leaves it unchanged."""
        self._restores = False
        return _each_once(self._restored, made)

    def delivered(self, result: Any) -> Any:
        """Copy writes into unaligned arrays back, and return a result in the caller's kind of arrays."""
        for leaf, array in self._given.values():
            if type(leaf) is np.ndarray and leaf.flags.writeable:
                np.copyto(leaf, array)
        return mapped(self._restored, result) if self._restores else result

    def _restored(self, leaf: Any) -> Any:
        same = id(leaf if is_torch_tensor(leaf) else unwrapped(leaf))
        if same in self._given:
            return self._given[same][0]
        if not isinstance(leaf, np.ndarray | np.generic):
            return leaf
        if self.tensors:
            return array_as_tensor(leaf)
        return self._kinds[0](leaf) if self._kinds else leaf


def _aligned(leaf: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an aligned copy; raises ArgumentError for another byte order."""
    if not leaf.dtype.isnative:
        raise ArgumentError(f"an array of dtype {leaf.dtype.str} has another byte order; pass "
                            "x.astype(x.dtype.newbyteorder('='))")
    array = np.array(leaf, order="K")
    array.flags.writeable = leaf.flags.writeable
    return array


def holds_eager(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call has eager arrays; only plain lists and tuples are searched."""
    if "jitfuse.arrays.base" not in sys.modules:
        return False
    leaves = [*args, *kwargs.values()]
    return any(isinstance(x, HostArray) for leaf in leaves for x in (leaf if type(leaf) in (list, tuple) else (leaf,)))


def reads_eager(trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a feed of a trace, such as a global, is an eager array: Python reads those."""
    if "jitfuse.arrays.base" not in sys.modules:
        return False
    return any(isinstance(x, HostArray) for _, x in _arrays(trace, args, kwargs))


def reads_tensors(trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a feed of a trace, such as a global, is a tensor."""
    return trace.torch and any(is_torch_tensor(x) for _, x in _arrays(trace, args, kwargs))


def tensor_feeds(
    trace: Any, given: frozenset[int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> frozenset[int] | None:
    """Return the feeds of a trace that are tensors in the call; `given` has the ids of arrays that replace tensors.

    None if native code cannot check for tensors: this torch has no way to read them, or a tensor has no feed, so that
    no guard would notice another kind of argument there.
    """
    if not given and not trace.torch:
        return frozenset()
    found = {feed: id(x) for feed, x in _arrays(trace, args, kwargs) if id(x) in given or is_torch_tensor(x)}
    if not found and not given:
        return frozenset()
    return frozenset(found) if exchange() is not None and given <= set(found.values()) else None


def _arrays(trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int, Any]]:
    """Return (feed, source object) for the feeds of a trace that are arrays."""
    return [(feed, f.source.resolve(args, kwargs)) for feed, f in trace.feeds.items() if f.kind == "array"]


def in_kind(made: Delivery, *, torch: bool, eager: bool) -> Delivery:
    """Return a delivery in the kind of arrays that the call has read: tensors, or eager arrays."""
    if torch:
        return _each_once(_as_tensor, made)
    if eager:
        from jitfuse.arrays.wrapping import wrap

        return _each_once(wrap, made)
    return made


def _each_once(function: Callable[[Any], Any], made: Delivery) -> Delivery:
    """Map the arrays of a delivery: an array that occurs several times stays one object."""
    found = {id(value): function(value) for value in made.values}
    return made.map(lambda value: found[id(value)])


def _as_tensor(leaf: Any) -> Any:
    return array_as_tensor(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


def raising_error_state(name: str) -> ArgumentError | None:
    """Return an error if `np.errstate` asks for more than warnings, because kernels do not check for that."""
    options = error_state.asked_for()
    if not options:
        return None
    return ArgumentError(Why(reasons.ERROR_STATE, (
        f"{name} is called under np.errstate({options}), but fused kernels do "
        "not check floating-point flags. Call it outside of that, and check the results (np.isfinite); "
        "JITFUSE_DISABLE=1 runs the function as plain Python.")))
