"""The op table itself: the contents of a row, the kinds of operators, entering and finding rows.

Does not own the rows. They are in the files of `jitfuse.ir.operators`, one per family, which are imported when one of
their operators is requested. Read them through `jitfuse.ir.operators.ops`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import ArgumentError
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.rules import dtype_rules
from jitfuse.ir.schema import Meta

ELEMENTWISE: Final = "elementwise"
REDUCTION: Final = "reduction"
SCAN: Final = "scan"
VIEW: Final = "view"
CREATION: Final = "creation"
CONTRACTION: Final = "contraction"
LIBRARY: Final = "library"
RANDOM: Final = "random"
UPDATE: Final = "update"
MODE: Final = "mode"
CONTROL: Final = "control"

ON_HOST: Final = frozenset({CONTRACTION, LIBRARY, CONTROL})
"""Kinds whose steps the host runs: library calls, loops and branches; kernels come before and after."""

Infer = Callable[[Sequence[Meta], dict[str, Any]], Meta]
InferResults = Callable[[Sequence[Meta], dict[str, Any]], tuple[Meta, ...]]
NestedFeeds = Callable[[Sequence[Meta], dict[str, Any]], list[Meta]]
VARIADIC: Final = -1
REQUIRED: Final = object()
LONG: Final = 12
"""From this cost on, an elementwise operator is a long chain of instructions in a kernel."""


class Op(Record, frozen=True, eq=False):
    """One operator. `attrs` maps attribute names to defaults (`REQUIRED`: none).

    An operator that may have several results has `infer_results` in place of `infer`. `nested_feeds` returns the metas
    that the feeds of the programs among its attributes must have, given the operands.

    A library step that can write its one result into given memory has `into`, which takes that memory before the
    operands; otherwise the result of `numpy` is copied there.

    `raises` are the kinds of results of which a single element may end the call by a status.

    `ulps` bounds the error of float results, in units in the last place; 0: they have NumPy's bits.

    `cost` is roughly the cost of an element in a kernel, in simple vector instructions; None: one. A decomposed
    operator has the costs of its parts.
    """

    name: str
    arity: int
    kind: str
    attrs: dict[str, Any]
    infer: Infer
    numpy: Callable[..., Any]
    loop: dtype_rules.LoopRule | None = None
    decompose: Callable[..., Any] | None = None
    mode_sensitive: bool = False
    ulps: float = 0.0
    raises: frozenset[str] = frozenset()
    doc: str = ""
    infer_results: InferResults | None = None
    nested_feeds: NestedFeeds | None = None
    into: Callable[..., None] | None = None
    cost: int | None = None

    @property
    def is_of_many(self) -> bool:
        """Whether it may have several results."""
        return self.infer_results is not None

    @property
    def is_long(self) -> bool:
        """Whether an element takes a long chain of instructions in a kernel."""
        return self.kind == ELEMENTWISE and self.cost is not None and self.cost >= LONG

    def check_attrs(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults filled in; raise ArgumentError on unknown or missing ones."""
        unknown = [a for a in attrs if a not in self.attrs]
        if unknown:
            raise ArgumentError(
                f"{self.name} has no attribute {unknown[0]!r}; it takes {', '.join(self.attrs) or 'none'}"
            )
        full = {**self.attrs, **attrs}
        missing = [a for a, v in full.items() if v is REQUIRED]
        if missing:
            raise ArgumentError(f"{self.name} needs the attribute {missing[0]!r}")
        return full

    def result_metas(self, metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
        """Return the metas of all results; raise a typed JitfuseError if operands or attributes do not fit."""
        if self.infer_results is None:
            made: Any = self.result_meta(metas, attrs)
            return (made,) if isinstance(made, Meta) else made
        return self.infer_results(metas, self.check_attrs(attrs))

    def result_meta(self, metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        """Return the result's meta; raise a typed JitfuseError if operands or attributes do not fit."""
        if self.arity != VARIADIC and len(metas) != self.arity:
            raise ArgumentError(f"{self.name} takes {self.arity} operand(s), not {len(metas)}")
        return self.infer(metas, self.check_attrs(attrs))


_FILES: Final = {name: file for file, names in FAMILIES.items() for name in names}
_NAMES: Final = tuple(_FILES)


class _OpTable(dict[str, Op | None]):
    """The rows by name; a family's file is imported when one of its operators is requested."""

    def __missing__(self, name: str) -> Op | None:
        if name not in _FILES:
            return None
        import_module(f"jitfuse.ir.operators.{_FILES[name]}")
        return self.get(name)


_TABLE: Final = _OpTable()


def add(op: Op) -> None:
    """Enter a row, once; raise LookupError if `FAMILIES` does not list its name."""
    assert op.name not in _TABLE, op.name
    if op.name not in _FILES:
        raise LookupError(f"operator {op.name} has a row and no place in the table: add its name to FAMILIES in "
                          "jitfuse.ir.operators.families, where its file is")
    _TABLE[op.name] = op


get: Final[Callable[[str], Op | None]] = _TABLE.__getitem__
"""``get(name)`` returns the row of an operator, or None."""


def table() -> Iterator[Op]:
    """Yield every row in table order; raise LookupError if a listed operator has none."""
    for name in _NAMES:
        row = get(name)
        if row is None:
            raise LookupError(f"operator {name} has no row: add it to jitfuse.ir.operators.{_FILES[name]}")
        yield row


def names() -> tuple[str, ...]:
    """Return every operator's name in table order."""
    return _NAMES
