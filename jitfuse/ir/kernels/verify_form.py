"""The rules of a valid kernel form, and the check that finds all violations at once.

A form from a file may hold anything; a backend only gets valid ones. Owns the rules of the index space, operands,
chains and sweeps. Rules of stages and instructions are checked in `jitfuse.ir.kernels.verify_stages`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jitfuse.dtypes import COMPONENT, KINDS
from jitfuse.errors import VerifyError
from jitfuse.ir.kernels.form import FORM_VERSION, MAX_CELL, MAX_STATIC_EXTENT, KernelAxis, KernelForm, Operand, Sweep
from jitfuse.ir.kernels.stages import Instr, Stage
from jitfuse.ir.kernels.values import access
from jitfuse.ir.kernels.verify_fields import REAL
from jitfuse.ir.kernels.verify_stages import stage_findings, values_of

MAX_FORM_BYTES: Final = 1 << 20
"""Longer canonical forms are not read; those of the largest programs in the tests have 60,000 bytes."""
MAX_AXES: Final = 72
"""NumPy's 64, and axes for chunks, a contraction and a loop."""
MAX_OPERANDS: Final = 1 << 8
MAX_PARAMS: Final = 1 << 12
MAX_INSTRUCTIONS: Final = 1 << 13
"""Limit over all stages; with static inner extents, an instruction counts once per inner point."""
MAX_REDUCTIONS: Final = 1 << 10
"""Limit over all stages; the planner puts at most 1000 steps into a kernel, each of which may be one."""
MAX_STAGES: Final = 1 << 10
MAX_KEEPS: Final = 1 << 10


def verify_form(form: KernelForm) -> None:
    """Raise VerifyError with all findings where a kernel form is not valid. A valid form keeps these rules:

    1. Its version is the one that this jitfuse works with. Every field has exactly the type that its class declares: a
       bool is no int.
    2. There is a grid axis or an inner axis, and at most `MAX_AXES` of all kinds. An extent is None, or an int from
       1 to `MAX_STATIC_EXTENT`. Lanes run along the last grid axis or the last inner one.
    3. There are at most `MAX_OPERANDS` operands. Each has a known dtype, and a stride class for every axis: "0", "1"
       or "n"; "2" to "4" only where it is read, along the lanes of a form without contraction. It has cells of one
       element where it is read, and of up to `MAX_CELL` where it is written.
    4. Parameters, and kept rows, have real dtypes; there are at most `MAX_PARAMS`, and `MAX_KEEPS`.
    5. There are from 1 to `MAX_STAGES` stages, with `MAX_REDUCTIONS` reductions and `MAX_INSTRUCTIONS` instructions
       at most. Where inner axes have static extents, each instruction counts once for each inner point.
    6. Kinds of stages are point, map, reduce, scan and contract. map, reduce and scan need an inner axis. reduce has
       reductions, scan has a scan; no other stage has them, but that scan may have reductions too.
    7. An argument is the number of an earlier value; a store and a keep make none. A value that moves along inner axes
       is read in its own stage alone, and not made in a point stage. A value that moves along contracted axes is read
       in the contract stage alone.
    8. An instruction has the operands, the dtype and the immediate of its kind (`jitfuse.ir.kernels.stages`): param,
       index, load, store, keep and kept name what exists; a const fits its dtype; require names a status. Others are
       elementwise operators of the op table without a decomposition, over dtypes of one of their loops. 16-bit floats
       are only loaded, stored, selected, cast and stepped through (nextafter).
    9. Loads read operands that are not out, stores write those that are: in the operand's dtype, a complex one in
       parts, whole cells. An offset is an int64, a mask a bool.
    10. A row is kept once, and read only in later stages; both in stages that loop over the inner points.
    11. A reduction's dtype supports its combine. In the whole phase it has values, and no partial rows. If one is
        partial, all are: in a single stage, of one value each, over one grid axis at least, with lanes along the inner
        axes. If one is final, all are: in the first stage, which has no instructions, over a single inner axis, before
        point stages. Their rows are operands of the right dtypes: partial ones are outputs, "n" along the grid and "0"
        along the inner axes; final ones are inputs, "n" along all axes.
    12. A contract stage is the first one, and exists exactly if there is a contracted axis: one, beside one inner axis,
        all of run-time extents, in a form without sweep. It is a sum of products, in a dtype that sums have. It
        neither stores nor keeps. The left side does not move along the lanes, the right one not along the rows; row 0
        has the contraction's dtype.
    13. A chain is two contractions over the same grid with lanes along the inner axis; the second has no `then`. The
        link is an operand of one dtype that the first one stores and the second one loads in its contraction, without
        offset and mask. Its class is "n" along the rows in both, and along the rest of the grid the same and not "1".
        After that it is "1", "0" in the first and "0", "1" in the second.
    14. A sweep's first axis is a grid axis of run-time extent, along which every operand is "0" or "n". It has a step
        or None for each operand, numbers below that of operands, and None for those of class "0". Carried pairs have
        one dtype, one element each at every iteration, and no other grid axis is longer than 1: the first is read and
        the second written, once and in full. A counted operand is an int64 that is read, and one element.

    A finding names the rule and what is wrong.
    """
    findings = tuple(form_findings(form))
    if findings:
        raise VerifyError(findings, "the kernel form")


def form_findings(form: KernelForm, *, chained: bool = False) -> Iterator[str]:
    """Yield what is wrong with a form; `chained`: it is the second one of a chain, and has no second one itself."""
    wrong = [*_type_findings(form)]
    yield from wrong
    if wrong:  # later checks rely on the types
        return
    for check in (_space_findings, _operand_findings, _size_findings, stage_findings):  # each relies on those before
        found = [*check(form)]
        yield from found
        if found:
            return
    if form.sweep is not None:
        yield from _sweep_findings(form, form.sweep)
    if form.then is not None:
        if chained:
            yield "rule 13: the second form of a chain has a third behind it"
            return
        of_second = [*form_findings(form.then, chained=True)]
        yield from (f"in the form behind it, {finding}" for finding in of_second)
        if not of_second:
            yield from _chain_findings(form, form.then)


# ---------------------------------------------------------------- types
def _is_int(value: Any, low: int, high: int) -> bool:
    """Return whether a value is an int, no bool, from `low` to below `high`."""
    return type(value) is int and low <= value < high


def _tuple_of(value: Any, check: Callable[[Any], bool]) -> bool:
    return type(value) is tuple and all(map(check, value))


def _plain_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 31


def _is_text(value: Any) -> bool:
    return type(value) is str


def _type_findings(form: KernelForm) -> Iterator[str]:
    if not _is_int(form.version, FORM_VERSION, FORM_VERSION + 1):
        yield f"rule 1: the version is {form.version!r:.40}, not {FORM_VERSION}"
    fits: dict[str, bool] = {
        "grid": _tuple_of(form.grid, lambda a: isinstance(a, KernelAxis)),
        "inner": _tuple_of(form.inner, lambda a: isinstance(a, KernelAxis)),
        "contracted": _tuple_of(form.contracted, lambda a: isinstance(a, KernelAxis)),
        "lane_axis": _plain_int(form.lane_axis),
        "operands": _tuple_of(form.operands, _is_operand),
        "params": _tuple_of(form.params, _is_text), "keeps": _tuple_of(form.keeps, _is_text),
        "stages": type(form.stages) is tuple,
        "then": form.then is None or isinstance(form.then, KernelForm),
        "link": _tuple_of(form.link, _plain_int) and len(form.link) == 2,
        "sweep": form.sweep is None or _is_sweep(form.sweep),
    }
    for name, fit in fits.items():
        if not fit:
            yield f"rule 1: {name} is not of its type"
    if fits["stages"]:
        yield from (f"rule 1: stage {k} is not of its type: {_parts(s)}" for k, s in enumerate(form.stages)
                    if not _is_stage(s))


def _parts(stage: Any) -> str:
    """Return the parts of a stage with their types, for whoever must find out which is wrong."""
    flat = [stage]
    for part in flat:  # grows
        flat += part if isinstance(part, tuple | list) else ()
    return ", ".join([f"{type(part).__name__} {part!r:.40}" for part in flat if not isinstance(part, tuple | list)])


def _is_operand(o: Any) -> bool:
    return (
        isinstance(o, Operand) and _is_text(o.dtype) and _tuple_of(o.strides, _is_text) and type(o.out) is bool
        and _plain_int(o.cell)
    )


def _is_stage(s: Any) -> bool:
    if not isinstance(s, Stage) or not _is_text(s.kind) or type(s.body) is not tuple or type(s.reductions) is not tuple:
        return False
    c = s.contraction
    return (
        all(_is_text(i.op) and _is_text(i.dtype) and _tuple_of(i.args, _plain_int) for i in s.body)
        and all(
            _is_text(r.combine) and _is_text(r.dtype) and _is_text(r.phase)
            and all(_tuple_of(numbers, _plain_int) for numbers in (r.values, r.store_to, r.load_from))
            for r in s.reductions
        )
        and (c is None or (all(map(_is_text, c[:3])) and _plain_int(c.left) and _plain_int(c.right)))
    )


def _is_sweep(s: Sweep) -> bool:
    return (
        _tuple_of(s.carried, lambda pair: _tuple_of(pair, _plain_int) and len(pair) == 2)
        and _tuple_of(s.steps, lambda step: step is None or _plain_int(step)) and _tuple_of(s.counted, _plain_int)
    )


# ---------------------------------------------------------------- index space and operands
def _space_findings(form: KernelForm) -> Iterator[str]:
    if not form.grid and not form.inner:
        yield "rule 2: there is neither a grid axis nor an inner one"
    if len(form.axes) > MAX_AXES:
        yield f"rule 2: there are {len(form.axes)} axes, more than {MAX_AXES}"
    for a, axis in enumerate(form.axes[:MAX_AXES]):
        if axis.extent is not None and not _is_int(axis.extent, 1, MAX_STATIC_EXTENT + 1):
            yield f"rule 2: the extent of axis {a} is {axis.extent!r:.40}"
    last = {len(axes) - 1 for axes in (form.grid, form.grid + form.inner)}
    if form.lane_axis not in last or form.lane_axis < 0:
        yield f"rule 2: axis {form.lane_axis} is not the last of the grid or of the inner axes"


def _operand_findings(form: KernelForm) -> Iterator[str]:
    if len(form.operands) > MAX_OPERANDS:
        yield f"rule 3: there are {len(form.operands)} operands, more than {MAX_OPERANDS}"
        return
    few = {str(n) for n in range(2, MAX_STATIC_EXTENT + 1)}
    for k, o in enumerate(form.operands):
        if o.dtype not in KINDS:
            yield f"rule 3: the dtype of operand {k} is {o.dtype!r:.40}"
        if len(o.strides) != len(form.axes):
            yield f"rule 3: operand {k} has {len(o.strides)} stride classes for {len(form.axes)} axes"
            continue
        if not 1 <= o.cell <= (MAX_CELL if o.out else 1):
            yield f"rule 3: operand {k} has cells of {o.cell}"
        for a, stride in enumerate(o.strides):
            has_distance = stride in few and not o.out and a == form.lane_axis and not form.contracted
            if stride not in ("0", "1", "n") and not has_distance:
                yield f"rule 3: the stride class of operand {k} along axis {a} is {stride!r:.40}"


def _size_findings(form: KernelForm) -> Iterator[str]:
    for what, dtypes, most in (("parameters", form.params, MAX_PARAMS), ("kept rows", form.keeps, MAX_KEEPS)):
        if len(dtypes) > most:
            yield f"rule 4: there are {len(dtypes)} {what}, more than {most}"
        yield from (f"rule 4: {dtype!r:.40} is no dtype of {what}" for dtype in set(dtypes) - REAL)
    if not 1 <= len(form.stages) <= MAX_STAGES:
        yield f"rule 5: there are {len(form.stages)} stages"
    reductions = sum(max(1, len(r.values)) for stage in form.stages for r in stage.reductions)
    if reductions > MAX_REDUCTIONS:
        yield f"rule 5: there are {reductions} reductions, more than {MAX_REDUCTIONS}"
    points = 1
    for axis in form.inner:
        points *= axis.extent or 1
    instructions = points * sum(len(stage.body) for stage in form.stages)
    if instructions > MAX_INSTRUCTIONS:
        yield f"rule 5: there are {instructions} instructions, more than {MAX_INSTRUCTIONS}"


# ---------------------------------------------------------------- chains and sweeps
def _chain_findings(first: KernelForm, second: KernelForm) -> Iterator[str]:
    for form in (first, second):
        if not form.contracted or form.lane_axis < len(form.grid):
            yield "rule 13: a form of the chain is no contraction with lanes along its inner axis"
            return
    grid, (stored, loaded) = len(first.grid), first.link
    if first.grid != second.grid:
        yield "rule 13: the forms of the chain have different grids"
        return
    if not (0 <= stored < len(first.operands) and 0 <= loaded < len(second.operands)):
        yield f"rule 13: the link {first.link} names no operands"
        return
    a, b = first.operands[stored], second.operands[loaded]
    if not a.out or b.out or a.dtype != b.dtype or a.cell != 1:
        yield "rule 13: what is linked is not stored and loaded in one dtype"
    same = a.strides[:grid] == b.strides[:grid] and a.strides[grid - 1] == "n" and "1" not in a.strides[:grid]
    if not same or (a.strides[grid:], b.strides[grid:]) != (("1", "0"), ("0", "1")):
        yield "rule 13: what is linked does not lie row by row in both forms"
    for form, operand, stages in ((first, stored, first.stages[1:]), (second, loaded, second.stages[:1])):
        here = [i for s in stages for i in s.body if i in _accesses(form, operand)]
        everywhere = _accesses(form, operand)
        if not everywhere or len(here) != len(everywhere) or any(access(i)[1:3] != (False, False) for i in everywhere):
            yield "rule 13: what is linked is read or written elsewhere, or in part"


def _accesses(form: KernelForm, operand: int) -> list[Instr]:
    return [
        i for s in form.stages for i in s.body if i.op in ("load", "store") and access(i).operand == operand
    ]


def _sweep_findings(form: KernelForm, sweep: Sweep) -> Iterator[str]:
    count = len(form.operands)
    if not form.grid or form.grid[0].extent is not None or form.lane_axis == 0:
        yield "rule 14: the first axis does not count iterations beside the lanes"
        return
    if form.then is not None:
        yield "rule 14: a chain is swept"
    if len(sweep.steps) != count or any(step is not None and not 0 <= step < count for step in sweep.steps):
        yield f"rule 14: the steps {sweep.steps!r:.80} do not fit {count} operands"
        return
    for k, (o, step) in enumerate(zip(form.operands, sweep.steps, strict=True)):
        if o.strides[0] not in ("0", "n") or (step is not None and o.strides[0] == "0"):
            yield f"rule 14: operand {k} has the class {o.strides[0]} along the iterations, and the step {step}"
    named = [*sweep.counted, *(o for pair in sweep.carried for o in pair)]
    if len(set(named)) < len({*sweep.counted}) + len({read for read, _ in sweep.carried}) or any(
        not 0 <= o < count for o in named
    ):
        yield "rule 14: an operand that is handed on is there more than once, or not at all"
        return
    for counted in sweep.counted:
        one = form.operands[counted]
        if one.out or one.dtype != "int64" or set(one.strides) != {"0"}:
            yield f"rule 14: the counted operand {counted} is no int64 of one element that is read"
    if sweep.carried and any(axis.extent != 1 for axis in form.grid[1:]):
        yield "rule 14: a number is carried over grid axes that are longer than 1"
        return
    for read, written in sweep.carried:
        yield from _carried_findings(form, read, written)


def _carried_findings(form: KernelForm, read: int, written: int) -> Iterator[str]:
    a, b = form.operands[read], form.operands[written]
    if a.out or not b.out or a.dtype != b.dtype or a.dtype in COMPONENT:
        yield f"rule 14: operands {read} and {written} are not read and written in one real dtype"
    if set(a.strides) | set(b.strides[1:]) != {"0"} or b.cell != 1:
        yield f"rule 14: operands {read} and {written} are not one element each"
    stores = [i for i in _accesses(form, written) if i.op == "store"]
    moves = values_of(form).moves
    if len(stores) != 1 or any(access(stores[0])[1:3]) or moves[stores[0].args[0]] - {0}:
        yield f"rule 14: operand {written} is not written once and in full"
    if any(access(i)[1:3] != (False, False) for i in _accesses(form, read)):
        yield f"rule 14: operand {read} is read in part"
