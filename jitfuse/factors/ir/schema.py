"""Axes, specifications of tensors, the nine opcodes, instructions, programs and the keys of slots.

Owns the data alone. Does not own which programs are valid (`verify.py`), how they are made (`jitfuse.factors.emit`),
nor what they compute (`jitfuse.factors.assembly`).
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import prod
from types import MappingProxyType
from typing import Any, Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import Record


class AxisType(Enum):
    """What an axis runs over: the states of a variable, or the values that a conditioned variable is given in turn."""

    GEOMETRIC = 1
    TOPOLOGICAL = 2
    __hash__ = object.__hash__  # that of Enum is a Python function, and every look-up of an axis calls it


AxisKey = tuple[AxisType, int]
"""``(GEOMETRIC, 3)`` is variable 3, ``(TOPOLOGICAL, 3)`` mode 3: two axes."""
RegID = int
SlotKey = tuple[str | int, ...]
"""``("msg", u, v)``, ``("bel", a)``, ``("marg", v)``, ``("scale", a)``, ``("Z",)``: see `message`, `belief`,
`marginal`, `scale` and `PARTITION`."""


class Axis(Record, frozen=True):
    """One axis of a tensor: a variable's id, or a mode's, and its size.

    Example:
        >>> Axis(3, AxisType.GEOMETRIC, 2).key
        (<AxisType.GEOMETRIC: 1>, 3)
    """

    id: int
    kind: AxisType
    size: int

    @cached_property
    def key(self) -> AxisKey:
        """What tells the axis from all others."""
        return self.kind, self.id


class TensorSpec(Record, frozen=True):
    """The axes of a tensor, in order."""

    axes: tuple[Axis, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple([axis.size for axis in self.axes])

    @cached_property
    def keys(self) -> tuple[AxisKey, ...]:
        """The key of each axis."""
        return tuple([axis.key for axis in self.axes])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def axis_pos(self) -> Mapping[AxisKey, int]:
        """Return the position of each key."""
        return MappingProxyType({key: i for i, key in enumerate(self.keys)})

    def subset(self, keep_keys: Iterable[AxisKey]) -> TensorSpec:
        """Return the axes with these keys, in the order of this specification."""
        keep = frozenset(keep_keys)
        return TensorSpec(tuple([axis for axis in self.axes if axis.key in keep]))

    def has_key(self, key: AxisKey) -> bool:
        """Whether there is an axis of this key."""
        return key in self.axis_pos


class OpCode(Enum):
    """What an instruction does. Required arguments in brackets; `spec` is that of the result.

    UNIT           a tensor of ones [spec]
    LOAD_FACTOR    a factor [factor_id, spec]
    LOAD_SELECTOR  ones where a variable has the value of its mode, zeros elsewhere [selector_id, spec]
    LOAD_SLOT      what was stored [slot, spec]
    STORE_SLOT     keep a register under a key [slot, src]
    CONTRACT       the product of registers [inputs, spec]; axes of theirs that `spec` lacks are summed: a fused
                   ELIMINATE
    ELIMINATE      the sum over all axes but some [src, keep_keys, spec]
    NORMALIZE      a tensor divided by its largest element, which is kept in a slot of its own [src, scale, spec]
    FREE           registers that nothing reads any more [srcs]
    """

    UNIT = 1
    LOAD_FACTOR = 2
    LOAD_SELECTOR = 3
    LOAD_SLOT = 4
    STORE_SLOT = 5
    CONTRACT = 6
    ELIMINATE = 7
    NORMALIZE = 8
    FREE = 9
    __hash__ = object.__hash__  # as that of AxisType


class Instruction(Record, frozen=True, eq=False):
    """One step: an opcode, the register that it writes (None: none), its arguments, the axes of what it writes.

    `args` may hold integers, slot keys, tuples of registers and of axis keys.
    """

    op: OpCode
    dst: RegID | None
    args: Mapping[str, Any]
    spec: TensorSpec | None = None

    @cached_property
    def reads(self) -> tuple[RegID, ...]:
        """The registers that it reads; those that FREE gives back are not read."""
        args = self.args
        return (args["src"],) if "src" in args else tuple(args.get("inputs", ()))

    @cached_property
    def content(self) -> tuple[Any, ...]:
        """All of it as a tuple that can be compared and hashed."""
        return self.op, self.dst, tuple(sorted(self.args.items())), self.spec

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, Instruction) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)


class Program(Record, frozen=True):
    """Instructions in the order in which they run.

    Registers are numbers, written once. Slots are what a program reads of others, and leaves to them.
    """

    instructions: tuple[Instruction, ...]


PARTITION: Final[SlotKey] = ("Z",)
"""The slot of the partition function."""


def message(source: int, target: int) -> SlotKey:
    """Return the slot of what one node tells another."""
    return "msg", source, target


def belief(node: int) -> SlotKey:
    """Return the slot of a node's belief."""
    return "bel", node


def marginal(v: int) -> SlotKey:
    """Return the slot of a variable's marginal, which is not normalized."""
    return "marg", v


def scale(*key: str | int) -> SlotKey:
    """Return the slot of what the tensor of a slot was divided by."""
    return "scale", *key


def variable(identity: int, size: int) -> Axis:
    """Return the axis of a variable."""
    return Axis(identity, AxisType.GEOMETRIC, size)


def mode(identity: int, size: int) -> Axis:
    """Return the axis of a mode."""
    return Axis(identity, AxisType.TOPOLOGICAL, size)
