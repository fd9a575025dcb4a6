"""The schema of programs: metas, steps, feeds, outputs, state and writes.

A program is pure and immutable. Every value has one shape. Steps are listed in the order in which they run. Evaluation
and training are the same program: steps marked `mode_sensitive` read the flag. Constants are creation steps, never
feeds. The rules of programs, operators, checks and formats import this file; all that comes after them imports
`jitfuse.ir.program`. Does not own what the operators mean (`jitfuse.ir.operators.ops`), nor which programs are valid
(`jitfuse.ir.analysis.verify`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, Union

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import DataclassFields, NamedTuple, Record, fresh

PROGRAM_VERSION: Final = 1
"""Raised with every change to the schema, or to the meaning of an operator or attribute."""
RANDOM_STATE: Final = "jf.random.state"
"""The feed name of the random generator's state: int64[2], the seed and the call counter."""

AttrValue = Union[
    None, bool, int, float, complex, str, bytes, "ProgramData", tuple["AttrValue", ...]
]
Attrs = tuple[tuple[str, AttrValue], ...]


def make_attrs(values: Mapping[str, Any]) -> Attrs:
    """Return attributes in canonical order: pairs sorted by name, lists as tuples."""
    return tuple([(k, _frozen(values[k])) for k in sorted(values)]) if values else ()


_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes})


def _frozen(value: Any) -> AttrValue:
    if type(value) in _PLAIN or (type(value) is tuple and _PLAIN.issuperset(map(type, value))):
        plain: AttrValue = value
        return plain
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | ProgramData):
        return value
    raise TypeError(f"{type(value).__name__} cannot be an attribute of a step")


class Meta(NamedTuple):
    """The known facts of a value: shape, dtype, device, whether it is weak (a Python scalar), axis names."""

    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    weak: bool = False
    axes: tuple[str, ...] | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        weak = " weak" if self.weak else ""
        device = f" @{self.device}" if self.device != "cpu" else ""
        return f"{self.dtype}[{dims}]{weak}{device}"


class OpStep(NamedTuple):
    """One operator call: an AbstractTensor method name, the ids it reads, its attributes, the ids it makes."""

    step_id: int
    op_name: str
    input_ids: tuple[int, ...]
    attrs: Attrs
    result_ids: tuple[int, ...]
    mode_sensitive: bool = False
    level: int = 0

    @property
    def result_id(self) -> int:
        """The first, primary result."""
        return self.result_ids[0]

    def attr(self, name: str, default: AttrValue = None) -> Any:
        """Return an attribute's value, or the default if the step does not carry it."""
        for key, value in self.attrs:
            if key == name:
                return value
        return default

    @property
    def attr_dict(self) -> dict[str, Any]:
        """The attributes as a new dict."""
        return dict(self.attrs)


for _kind in (Meta, OpStep):
    setattr(_kind, DataclassFields.NAME, DataclassFields())

_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


class ProgramData(Record, frozen=True, eq=False):
    """The data of a `jitfuse.ir.program.FusedProgram`: what operators, rules, checks and formats read of it.

    feeds       ids bound at call time: exactly the values that no step produces
    feed_names  id -> its access path, for people (``args[0]['w']``)
    steps       in the order of (level, node id)
    outputs     path in the returned tree -> id
    state_in    feeds that are state: parameters, buffers, the random state
    state_out   state feed -> id of its new value
    writes      argument feed -> id of its array's content after the call
    meta        id -> Meta, for every id
    sources     step_id -> ``file:line``; a side table outside canonical bytes, hash and equality
    """

    feeds: frozenset[int]
    steps: tuple[OpStep, ...]
    outputs: Mapping[str, int]
    meta: Mapping[int, Meta]
    feed_names: Mapping[int, str] = fresh(default_factory=lambda: _EMPTY)
    state_in: frozenset[int] = frozenset()
    state_out: Mapping[int, int] = fresh(default_factory=lambda: _EMPTY)
    writes: Mapping[int, int] = fresh(default_factory=lambda: _EMPTY)
    sources: Mapping[int, str] = fresh(default_factory=lambda: _EMPTY)
    version: int = PROGRAM_VERSION

    @cached_property
    def producers(self) -> Mapping[int, OpStep]:
        """Value id -> the step that makes it."""
        return {r: s for s in self.steps for r in s.result_ids}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[OpStep, ...]]:
        """Value id -> the steps that read it, in program order."""
        readers: dict[int, list[OpStep]] = {}
        for step in self.steps:
            for i in dict.fromkeys(step.input_ids):
                readers.setdefault(i, []).append(step)
        return {i: tuple(s) for i, s in readers.items()}

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of all values."""
        return frozenset(m.dtype for m in self.meta.values())

    @cached_property
    def op_names(self) -> frozenset[str]:
        """The operators of all steps."""
        return frozenset(s.op_name for s in self.steps)

    @property
    def ordered_feeds(self) -> tuple[int, ...]:
        """Feeds in ascending id order: the order in which nested programs are bound."""
        return tuple(sorted(self.feeds))

    def delivered(self, training: bool) -> Iterator[int]:
        """Yield the ids that a mode computes: outputs, writes, random state; other state only in training."""
        yield from self.outputs.values()
        yield from self.writes.values()
        for feed, new in self.state_out.items():
            if training or self.is_random_state(feed):
                yield new

    def is_random_state(self, feed: int) -> bool:
        """Return whether a state feed is the random generator's (seed, counter) pair."""
        return self.feed_names.get(feed) == RANDOM_STATE


P = TypeVar("P", bound=ProgramData)
"""The class of a program that is read, and of the programs in its steps."""
