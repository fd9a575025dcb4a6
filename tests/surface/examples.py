"""An example as a function, and what a fused function makes of it: the ground of the support tables.

Owns the outcomes: fused, with library steps, with loops, with graph breaks where Python reads values, or unsupported,
with a way out.
They come from a trace of every example, so that no table can say what is not so.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import JitfuseError
from jitfuse.ir.operators import ops
from jitfuse.tracing.tracer import trace


class Outcome(Record, frozen=True):
    """What became of one example: the kinds of its steps' operators, or the text of what it raised."""

    libraries: frozenset[str]
    contracts: bool
    loops: bool
    runs: str
    error: str


def function_of(expression: str, names: dict[str, Any], given: list[str]) -> tuple[Callable[..., Any], list[str]]:
    """Return a function that returns an expression's value, and the names of its arguments among those given."""
    used = [k for k in given if re.search(rf"(?<![\w.'\"]){k}(?![\w(=])", expression)]
    space = {**names, "__name__": "examples"}
    exec(f"def example({', '.join(used)}):\n    return {expression}\n", space)
    return space["example"], used


def outcome(
    function: Callable[..., Any], arguments: list[Any], foreign: frozenset[int] = frozenset(),
    given: Sequence[Any] | None = None,
) -> Outcome:
    """Return what a fused function makes of a call.

    `foreign` has the ids of arrays that stand for torch tensors, `given` the arguments with the tensors themselves.
    """
    try:
        traced = trace(function, arguments, {}, foreign=foreign)
    except JitfuseError as error:
        runs = _runs(function, arguments if given is None else given)
        return Outcome(frozenset(), contracts=False, loops=False, runs=runs, error=_way_out(str(error)))
    kinds = {s.op_name: getattr(ops.get(s.op_name), "kind", "") for s in traced.program.steps}
    return Outcome(frozenset(k for k, v in kinds.items() if v == ops.LIBRARY),
                   contracts=ops.CONTRACTION in kinds.values(), loops=ops.CONTROL in kinds.values(), runs="",
                   error="")


def _runs(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    """Return how a call runs where a program without data does not: "" for not at all."""
    from jitfuse.fuse import fuse

    fused = fuse(function)
    try:
        fused(*arguments)
    except Exception:
        return ""
    counts = fused.stats()
    if "[JF401]" in fused.why():
        return "the library's own function, called at a graph break"
    if counts["splits"]:
        return "graph break: its shape depends on values"
    if counts["fallbacks"]:
        return ""
    return "fused, compacted at the end of the call; graph break where Python needs its shape"


_PLACE: Final = re.compile(r",? ?\(?(?:at|made at) (?:<string>|\S+\.py):\d+\)?")


def _way_out(message: str) -> str:
    return " ".join(_PLACE.sub("", message).split())


def words(outcomes: list[Outcome]) -> str:
    """Return what the examples of one function show, in words."""
    failed = [o for o in outcomes if o.error]
    if failed and not all(o.runs for o in failed):
        some = "" if len(failed) == len(outcomes) else "some forms "
        return f"{some}unsupported: {failed[0].error}"
    if failed:
        return failed[0].runs
    libraries = sorted(frozenset[str]().union(*(o.libraries for o in outcomes)))
    parts = []
    if any(not o.libraries and not o.contracts and not o.loops for o in outcomes) or not (libraries or any(
            o.contracts or o.loops for o in outcomes)):
        parts.append("fused")
    if any(o.contracts for o in outcomes):
        parts.append("product, by kernel or library")
    if libraries:
        parts.append(f"library step ({', '.join(libraries)})")
    if any(o.loops for o in outcomes):
        parts.append("loop step")
    return "; ".join(parts)
