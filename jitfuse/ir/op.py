"""The op table itself: what a row holds, the kinds of operators, entering and finding rows.

Does not own the rows: they are in `jitfuse.ir.operators`, one file for each kind. Read them through `jitfuse.ir.ops`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jitfuse.errors import ArgumentError
from jitfuse.ir import rules
from jitfuse.ir.program import Meta
from jitfuse.records import Record

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

ON_HOST: Final = frozenset({CONTRACTION, LIBRARY})
"""Kinds whose steps are calls of the host's libraries, with kernels before and after them."""

Infer = Callable[[Sequence[Meta], dict[str, Any]], Meta]
VARIADIC: Final = -1
REQUIRED: Final = object()


class Op(Record, frozen=True, eq=False):
    """One operator. `attrs` maps attribute names to defaults (`REQUIRED`: none).

    `ulps` is how far float results may be from the exact ones, in units in the last place; 0: they have NumPy's bits.
    """

    name: str
    arity: int
    kind: str
    attrs: dict[str, Any]
    infer: Infer
    numpy: Callable[..., Any]
    loop: rules.LoopRule | None = None
    decompose: Callable[..., Any] | None = None
    mode_sensitive: bool = False
    ulps: float = 0.0
    doc: str = ""

    def check_attrs(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults filled in; raises ArgumentError on unknown or missing ones."""
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

    def result_meta(self, metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        """Return the result's meta; raises a typed JitfuseError where operands or attributes do not fit."""
        if self.arity != VARIADIC and len(metas) != self.arity:
            raise ArgumentError(f"{self.name} takes {self.arity} operand(s), not {len(metas)}")
        return self.infer(metas, self.check_attrs(attrs))


_TABLE: dict[str, Op] = {}


def add(op: Op) -> None:
    """Enter a row."""
    assert op.name not in _TABLE, op.name
    _TABLE[op.name] = op


def get(name: str) -> Op | None:
    """Return the row of an operator, or None."""
    return _TABLE.get(name)


def table() -> Iterator[Op]:
    """Yield every row in the order of the table."""
    yield from _TABLE.values()


def names() -> tuple[str, ...]:
    """Return every operator's name in the order of the table."""
    return tuple(_TABLE)
