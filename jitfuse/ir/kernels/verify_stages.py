"""Check the stages of a kernel form by the rules of `jitfuse.ir.kernels.verify_form`, instruction by instruction.

Owns what each instruction takes and makes, and along which axes values move. Relies on the types of fields, the index
space and the sizes, which are checked before.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import COMPONENT, component
from jitfuse.ir.kernels.blocking import row_axis
from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Instr, Reduction, Stage
from jitfuse.ir.kernels.verify_fields import (
    REAL,
    access_problem,
    elementwise_problem,
    fits,
    has_combine,
    is_access,
    is_below,
)
from jitfuse.ir.statuses import MESSAGES

MAX_CHECKS: Final = 1 << 12
"""The most index checks of a form."""
_LOOPING: Final = ("map", "reduce", "scan")
_SUMMED_IN: Final = frozenset({"int32", "int64", "uint32", "uint64", "float32", "float64"})
_SCANS: Final = frozenset({"sum", "prod", "min", "max"})


class StageValues(NamedTuple):
    """The properties of every value, by number: its dtype ("" if nothing may read it), the axes along which it moves,
    and the stage that makes it."""

    dtypes: list[str]
    moves: list[frozenset[int]]
    stages: list[int]


def stage_findings(form: KernelForm) -> Iterator[str]:
    """Yield what is wrong with the stages of a form."""
    checker = _Checker(form)
    for k, stage in enumerate(form.stages):
        yield from checker.stage(k, stage)
        if checker.lost:  # further findings would only follow from this one
            return
    yield from checker.rows_never_kept()


def values_of(form: KernelForm) -> StageValues:
    """Return the properties of the values of a form whose stages are valid."""
    checker = _Checker(form)
    for k, stage in enumerate(form.stages):
        for _ in checker.stage(k, stage):
            pass
    return checker.values


class _Checker:
    """The values of a form so far, and the rows that are kept."""

    def __init__(self, form: KernelForm) -> None:
        self.form = form
        self.values = StageValues([], [], [])
        self.kept: dict[int, int] = {}
        """The stage in which each row is kept."""
        self.lost = False
        first = len(form.grid)
        self.inner = frozenset(range(first, first + len(form.inner)))
        self.contracted = frozenset(range(first + len(form.inner), len(form.axes)))
        self.phases = {r.phase for s in form.stages for r in s.reductions}

    def stage(self, k: int, stage: Stage) -> Iterator[str]:
        """Yield what is wrong with a stage, and number its values."""
        found = [*self._kind_findings(k, stage)]
        for instr in stage.body:
            number = len(self.values.dtypes)
            problem = self._instruction(k, stage, instr)
            if problem is not None:
                found.append(f"{problem}\n    v{number}: {instr.op!r:.40} in stage {k}, a {stage.kind!r:.20}")
                self.lost = True
                break
        else:
            for r in stage.reductions:
                found += self._reduction(k, stage, r)
            if stage.contraction is not None and not found:
                found += self._contraction(stage)
        self.lost = self.lost or bool(found)
        yield from found

    def rows_never_kept(self) -> Iterator[str]:
        """Yield the rows that no stage keeps."""
        for k in range(len(self.form.keeps)):
            if k not in self.kept:
                yield f"rule 10: row {k} is never kept"

    # ------------------------------------------------------------------ stages
    def _kind_findings(self, k: int, stage: Stage) -> Iterator[str]:
        if stage.kind not in ("point", "contract", *_LOOPING):
            yield f"rule 6: {stage.kind!r:.40} is no kind of stage"
        if stage.kind in _LOOPING and not self.inner:
            yield f"rule 6: stage {k}, a {stage.kind}, has no inner axes"
        scans = any(i.op == "scan" for i in stage.body)
        if scans != (stage.kind == "scan"):
            yield f"rule 6: stage {k}, a {stage.kind!r:.20}, has {'a' if scans else 'no'} scan"
        if (stage.kind == "reduce" and not stage.reductions) or (
            stage.reductions and stage.kind not in ("reduce", "scan")
        ):
            yield f"rule 6: stage {k}, a {stage.kind!r:.20}, has {len(stage.reductions)} reductions"
        contracts = bool(self.form.contracted) and k == 0
        if (stage.kind == "contract", stage.contraction is not None) != (contracts, contracts):
            yield f"rule 12: stage {k} {'is no' if contracts else 'should be no'} contraction"

    def _new(self, dtype: str, moves: frozenset[int], stage: int) -> None:
        self.values.dtypes.append(dtype)
        self.values.moves.append(moves)
        self.values.stages.append(stage)

    # ------------------------------------------------------------------ instructions
    def _instruction(self, k: int, stage: Stage, i: Instr) -> str | None:
        """Return what is wrong with an instruction, and number its value."""
        if i.dtype not in REAL:
            return f"rule 8: {i.dtype!r:.40} is no dtype of values"
        problem = self._unreadable(k, i.args)
        if problem is not None:
            return problem
        dtypes = tuple(self.values.dtypes[a] for a in i.args)
        rule = _RULES.get(i.op)
        problem = elementwise_problem(i, dtypes) if rule is None else rule(self, k, stage, i, dtypes)
        if problem is not None:
            return problem
        moves = self._moves(i)
        if stage.kind == "point" and moves & self.inner:
            return "rule 7: it moves along an inner axis, in a point stage"
        if stage.kind != "contract" and moves & self.contracted:
            return "rule 7: it moves along a contracted axis, outside the contract stage"
        self._new("" if i.op in ("store", "keep") else i.dtype, moves, k)
        return None

    def _unreadable(self, k: int, args: Sequence[int]) -> str | None:
        """Return why a stage cannot read these values."""
        dtypes, moves, stages = self.values
        for a in args:
            if not 0 <= a < len(dtypes) or not dtypes[a]:
                return f"rule 7: v{a} is no value that is made before"
            if stages[a] != k and moves[a] & (self.inner | self.contracted):
                return f"rule 7: v{a} moves within its own stage {stages[a]}"
        return None

    def _moves(self, i: Instr) -> frozenset[int]:
        found = frozenset[int]().union(*(self.values.moves[a] for a in i.args))
        if i.op == "index":
            return found | {i.imm}
        if i.op in ("load", "store"):
            found |= {a for a, c in enumerate(self.form.operands[i.imm[0]].strides) if c != "0"}
            sweep = self.form.sweep
            if sweep is not None and i.imm[0] in (*sweep.counted, *(read for read, _ in sweep.carried)):
                found |= {0}
        return found | self.inner if i.op in ("keep", "kept", "scan") else found

    def _param(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = not dtypes and is_below(i.imm, len(self.form.params)) and self.form.params[i.imm] == i.dtype
        return None if known else "rule 8: there is no such parameter"

    def _const(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        return None if not dtypes and fits(i.imm, i.dtype) else f"rule 8: {i.imm!r:.40} is no {i.dtype}"

    def _index(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = not dtypes and is_below(i.imm, len(self.form.axes)) and i.dtype == "int64"
        return None if known else "rule 8: there is no such axis to count along in int64"

    def _load(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        if not is_access(i.imm, len(self.form.operands)):
            return "rule 8: it names no operand"
        o = self.form.operands[i.imm[0]]
        in_parts = o.dtype in COMPONENT
        if o.out or component(o.dtype) != i.dtype or len(i.imm) != 3 + in_parts:
            return f"rule 9: operand {i.imm[0]} is not read as {i.dtype}"
        if in_parts and not is_below(i.imm[3], 2):
            return "rule 9: a complex number has parts 0 and 1"
        return access_problem(i, dtypes)

    def _store(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        if not is_access(i.imm, len(self.form.operands)) or len(i.imm) != 3:
            return "rule 8: it names no operand"
        o = self.form.operands[i.imm[0]]
        parts = o.cell * (1 + (o.dtype in COMPONENT))
        if not o.out or component(o.dtype) != i.dtype or dtypes[:parts] != (i.dtype,) * parts:
            return f"rule 9: operand {i.imm[0]} is not written as {i.dtype}"
        if stage.kind == "contract":
            return "rule 12: a contract stage stores"
        return access_problem(i, dtypes[parts:])

    def _keep(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        if not is_below(i.imm, len(self.form.keeps)) or (i.dtype,) != dtypes or self.form.keeps[i.imm] != i.dtype:
            return "rule 8: there is no such row to keep"
        if stage.kind not in _LOOPING or i.imm in self.kept:
            return "rule 10: the row is kept more than once, or where nothing goes through the inner points"
        self.kept[i.imm] = k
        return None

    def _kept(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        if dtypes or not is_below(i.imm, len(self.form.keeps)) or self.form.keeps[i.imm] != i.dtype:
            return "rule 8: there is no such kept row"
        if stage.kind not in _LOOPING or self.kept.get(i.imm, k) >= k:
            return "rule 10: the row is not kept by an earlier stage, or nothing goes through the inner points"
        return None

    def _random(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = dtypes == ("int64",) * 4 and i.dtype in ("float32", "float64") and i.imm is None
        return None if known else "rule 8: random makes a float of four int64"

    def _scan(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = type(i.imm) is str and i.imm in _SCANS and dtypes == (i.dtype,)
        return None if known else "rule 8: there is no such scan"

    def _require(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = dtypes == (i.dtype, "bool") and type(i.imm) is int and i.imm in MESSAGES
        return None if known else "rule 8: require takes a value, a bool and a status"

    def _bounded(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        known = dtypes in (("int64",) * 2, ("int64", "int64", "bool")) and i.dtype == "int64"
        return None if known and is_below(i.imm, MAX_CHECKS) else "rule 8: bounded takes an index, an extent, a mask"

    def _astype(self, k: int, stage: Stage, i: Instr, dtypes: tuple[str, ...]) -> str | None:
        return None if len(dtypes) == 1 and i.imm is None else "rule 8: astype takes one value"

    # ------------------------------------------------------------------ reductions and contractions
    def _reduction(self, k: int, stage: Stage, r: Reduction) -> Iterator[str]:
        if not has_combine(r.combine, r.dtype):
            yield f"rule 11: there is no {r.combine!r:.20} of {r.dtype!r:.20}"
            return
        problem = self._unreadable(k, r.values)
        if problem is not None or any(self.values.dtypes[v] != r.dtype for v in r.values):
            yield problem or f"rule 11: a value is no {r.dtype}"
            return
        if r.phase == "whole":
            if not r.values or r.store_to or r.load_from or self.phases != {"whole"}:
                yield "rule 11: a whole reduction has values, no positions, and no phases beside it"
        elif r.phase in ("partial", "final"):
            yield from self._phase(k, stage, r, partial=r.phase == "partial")
        else:
            yield f"rule 11: {r.phase!r:.40} is no phase"
        for _ in range(max(1, len(r.values))):
            self._new(r.result_dtype if r.phase != "partial" else "", frozenset(range(len(self.form.grid))), k)

    def _phase(self, k: int, stage: Stage, r: Reduction, *, partial: bool) -> Iterator[str]:
        form, grid = self.form, len(self.form.grid)
        if self.phases != {r.phase} or form.contracted or stage.kind != "reduce" or form.lane_axis < grid:
            yield f"rule 11: a {r.phase} reduction has others, a contraction or a scan beside it, or lanes on the grid"
        if partial and (len(form.stages) != 1 or not grid or len(r.values) != 1 or r.load_from):
            yield "rule 11: a partial reduction is of one value, in a single stage, over chunks on the grid"
        points = {s.kind for s in form.stages[1:]} <= {"point"}
        if not partial and (k or stage.body or len(form.inner) != 1 or r.values or r.store_to or not points):
            yield "rule 11: a final reduction is of rows alone, over one inner axis, before points"
        operands = r.store_to if partial else r.load_from
        classes = ("n",) * grid + ("0" if partial else "n",) * len(form.inner)
        rows = [dtype for dtype, _ in r.partial_rows]
        known = len(operands) == len(rows) and all(0 <= o < len(form.operands) for o in operands)
        if not known or any(
            form.operands[o] != Operand(dtype, classes, partial) for o, dtype in zip(operands, rows, strict=True)
        ):
            yield f"rule 11: the rows of a {r.phase} reduction are not where they should be"

    def _contraction(self, stage: Stage) -> Iterator[str]:
        form, c = self.form, stage.contraction
        assert c is not None
        if (c.combine, c.multiply) != ("sum", "multiply") or c.dtype not in _SUMMED_IN or not form.keeps or (
            form.keeps[0] != c.dtype
        ):
            yield "rule 12: the contraction is no sum of products that row 0 can hold"
        if len(form.contracted) != 1 or len(form.inner) != 1 or not form.grid or form.sweep is not None or any(
            axis.extent is not None for axis in form.axes
        ):
            yield "rule 12: a contraction is over one axis beside one inner axis, of run-time extents, and not swept"
            return
        self.kept[0] = 0
        for side, value, still in (("left", c.left, form.lane_axis), ("right", c.right, row_axis(form))):
            problem = self._unreadable(0, (value,))
            if problem is not None or self.values.dtypes[value] != c.dtype:
                yield problem or f"rule 12: the {side} side is no {c.dtype}"
            elif still in self.values.moves[value]:
                yield f"rule 12: the {side} side moves along axis {still}"


_RULES: Final[dict[str, Callable[..., str | None]]] = {
    "param": _Checker._param, "const": _Checker._const, "index": _Checker._index, "load": _Checker._load,
    "store": _Checker._store, "keep": _Checker._keep, "kept": _Checker._kept, "random": _Checker._random,
    "scan": _Checker._scan, "require": _Checker._require, "bounded": _Checker._bounded, "astype": _Checker._astype,
}
