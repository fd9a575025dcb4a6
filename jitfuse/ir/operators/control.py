"""Loops and branches: operators whose attributes hold programs, and which may have several results.

A program's feeds, in ascending order, correspond to the operands, as the row's `nested_feeds` defines; its outputs, in
order, to the results. Values of the enclosing function that a loop's body reads are ordinary operands.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators.op import CONTROL, REQUIRED, VARIADIC, InferResults, NestedFeeds, Op, add
from jitfuse.ir.schema import Meta, ProgramData
from jitfuse.ir.semantics import control, rerolled

_INDEX = Meta((), "int64")


def _outputs(program: ProgramData) -> list[Meta]:
    """Return the metas of a program's outputs; weak ones become strong."""
    metas = [program.meta[i] for i in program.outputs.values()]
    return [Meta(m.shape, m.dtype, m.device) for m in metas]


def _alike(a: Meta, b: Meta) -> bool:
    return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)


def _same(name: str, metas: Sequence[Meta], others: Sequence[Meta], sides: tuple[str, str]) -> None:
    """Raise an error if two sides of an operator do not agree."""
    if len(metas) != len(others):
        raise ArgumentError(f"{name}: {sides[0]} has {len(metas)} value(s), {sides[1]} has {len(others)}")
    for k, (a, b) in enumerate(zip(metas, others, strict=True)):
        if not _alike(a, b):
            raise ShapeError(f"{name}: value {k} is {a} in {sides[0]}, and {b} in {sides[1]}")


def _infer_cond(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    if not metas or metas[0].shape != ():
        raise ShapeError(f"cond chooses by one value, not by {metas[0] if metas else 'none'}")
    chosen, other = _outputs(attrs["on_true"]), _outputs(attrs["on_false"])
    _same("cond", chosen, other, ("on_true", "on_false"))
    return tuple(chosen)


def _carried(name: str, metas: Sequence[Meta], count: int, body: ProgramData) -> tuple[Meta, ...]:
    """Return the metas of carried values, which the body must return as it got them."""
    if count > len(metas):
        raise ArgumentError(f"{name} carries {count} values, and has {len(metas)} operands for them")
    carried = [Meta(m.shape, m.dtype, m.device) for m in metas[:count]]
    _same(name, carried, _outputs(body)[:count], ("what the loop starts with", "what the body returns"))
    return tuple(carried)


def _infer_while(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    found = _outputs(attrs["condition"])
    if len(found) != 1 or found[0].shape != () or found[0].dtype != "bool":
        raise DTypeError(f"while_loop: the condition is one bool, not {', '.join(map(str, found)) or 'nothing'}")
    return _carried("while_loop", metas, attrs["carries"], attrs["body"])


def _infer_fori(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    if len(metas) < 2 or any(m.shape != () or m.dtype != "int64" for m in metas[:2]):
        raise DTypeError(f"fori_loop counts between two values of int64, not {', '.join(map(str, metas[:2]))}")
    return _carried("fori_loop", metas[2:], attrs["carries"], attrs["body"])


def _infer_scan(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    carries, scanned, length = attrs["carries"], attrs["scanned"], attrs["length"]
    if carries + scanned > len(metas):
        raise ArgumentError(f"scan carries {carries} and scans {scanned} values, and has {len(metas)} operands")
    for m in metas[carries : carries + scanned]:
        if m.shape[:1] != (length,):
            raise ShapeError(f"scan: an array of shape {m.shape} has no {length} parts along its first axis")
    carried = _carried("scan", metas, carries, attrs["body"])
    made = _outputs(attrs["body"])[carries:]
    return (*carried, *(Meta((length, *m.shape), m.dtype, m.device) for m in made))


def _infer_rerolled(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    carries, arrays, length = attrs["carries"], attrs["arrays"], attrs["length"]
    if carries + arrays > len(metas):
        raise ArgumentError(f"rolled_loop carries {carries} and writes {arrays} values, and has {len(metas)} operands")
    written, sources = metas[carries : carries + arrays], metas[carries:]
    windows = [(a, len(sources)) for a in rerolled.accesses(attrs["reads"])]
    windows += [(a, arrays) for a in rerolled.accesses(attrs["writes"])]
    for access, among in windows:
        if not 0 <= access.operand < among or not access.within(sources[access.operand].size, length):
            raise ShapeError(f"rolled_loop: a window leaves its array: {access}")
    carried = _carried("rolled_loop", metas, carries, attrs["body"])
    made = _outputs(attrs["body"])[carries:]
    targets = [
        Meta(a.shape, written[a.operand].dtype, written[a.operand].device) for a in rerolled.accesses(attrs["writes"])
    ]
    _same("rolled_loop", targets, made, ("where it writes", "what the body returns"))
    return (*carried, *(Meta(m.shape, m.dtype, m.device) for m in written))


def _windows(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    carries = attrs["carries"]
    sources = metas[carries:]
    parts = [
        Meta(a.shape, sources[a.operand].dtype, sources[a.operand].device, bool(a.weak))
        for a in rerolled.accesses(attrs["reads"])
    ]
    return [*metas[:carries], *parts, *sources]


def _as_operands(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    return list(metas)


def _counted(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    return [_INDEX, *metas[2:]]


def _parts(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    first, last = attrs["carries"], attrs["carries"] + attrs["scanned"]
    parts = [Meta(m.shape[1:], m.dtype, m.device) for m in metas[first:last]]
    return [*metas[:first], *parts, *metas[last:]]


def _row(
    name: str, attrs: dict[str, Any], results: InferResults, feeds: NestedFeeds, reference: Callable[..., Any], doc: str
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        found = results(metas, attrs)
        if len(found) != 1:
            raise ArgumentError(f"{name} makes {len(found)} values here, not one")
        return found[0]

    add(Op(name, VARIADIC, CONTROL, attrs, infer, reference, doc=doc, infer_results=results, nested_feeds=feeds))


_row("cond", {"on_true": REQUIRED, "on_false": REQUIRED}, _infer_cond, _as_operands, control.cond,
     "(choice, others...): what one of two programs makes of all operands, the choice among them.")
_row("while_loop", {"condition": REQUIRED, "body": REQUIRED, "carries": REQUIRED}, _infer_while, _as_operands,
     control.while_loop,
     "(carried..., others...): the carried values, replaced by what the body returns while the condition holds.")
_row("fori_loop", {"body": REQUIRED, "carries": REQUIRED}, _infer_fori, _counted, control.fori_loop,
     "(low, high, carried..., others...): the carried values after the body has run for each integer between.")
_row("scan", {"body": REQUIRED, "carries": REQUIRED, "scanned": REQUIRED, "length": REQUIRED, "reverse": False},
     _infer_scan, _parts, control.scan,
     "(carried..., scanned..., others...): carried values after the body has run over the parts of arrays along their "
     "first axis, then what else it returned, stacked.")
_row("rolled_loop", {"body": REQUIRED, "carries": REQUIRED, "arrays": REQUIRED, "length": REQUIRED, "reads": REQUIRED,
                     "writes": REQUIRED}, _infer_rerolled, _windows, rerolled.rolled_loop,
     "(carried..., written..., others...): carried values, and arrays with windows of them replaced, after so many "
     "iterations over windows that move on; what a Python loop of equal iterations becomes.")


# ---------------------------------------------------------------- results with derivatives of their own
def _infer_results(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    return tuple([Meta(m.shape, m.dtype, m.device) for m in metas[: attrs["results"]]])


def _results_and_captured(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    return list(metas[: attrs["results"] + attrs["captured"]])


def _inputs_and_captured(metas: Sequence[Meta], attrs: dict[str, Any]) -> list[Meta]:
    begin, end = attrs["results"], attrs["results"] + attrs["captured"]
    return [*metas[end:], *metas[begin:end]]


_CUSTOM: Final = {"rule": REQUIRED, "results": REQUIRED, "captured": REQUIRED}
_row("custom_vjp", _CUSTOM, _infer_results, _results_and_captured, control.given,
     "(results..., captured..., inputs...): the results, whose cotangents become those of the inputs by a program.")
_row("custom_jvp", _CUSTOM, _infer_results, _inputs_and_captured, control.given,
     "(results..., captured..., inputs...): the results, whose tangents a program makes of those of the inputs.")
_row("checkpoint", _CUSTOM, _infer_results, _inputs_and_captured, control.given,
     "(results..., captured..., inputs...): the results, which the reverse mode computes again by a program.")
