"""Read kernel forms back from their canonical bytes. Bytes from a file are data, never evaluated."""
from __future__ import annotations

import json
from typing import Any

from jitfuse.base.floats import text_float
from jitfuse.errors import JitfuseError
from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Operand, Sweep
from jitfuse.ir.kernels.stages import Contraction, Instr, Reduction, Stage

_WORDS = (("'", '"'), ("None", "null"), ("True", "true"), ("False", "false"))


def form_of(data: bytes) -> KernelForm:
    """Return the form with exactly these canonical bytes; raise JitfuseError if there is none."""
    try:
        text = data.decode("ascii")
        for python, plain in _WORDS:  # no string of a form holds a quote or one of these words
            text = text.replace(python, plain)
        form = _form(json.loads(text))
        if form.canonical_bytes == data:
            return form
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
        pass
    raise JitfuseError("these bytes are no kernel form")


def _form(value: dict[str, Any]) -> KernelForm:
    return KernelForm(
        grid=_axes(value["grid"]), inner=_axes(value["inner"]), lane_axis=value["lane_axis"],
        operands=tuple([Operand(dtype, tuple(strides), *rest) for dtype, strides, *rest in value["operands"]]),
        params=tuple(value["params"]), stages=tuple([_stage(*stage) for stage in value["stages"]]),
        keeps=tuple(value["keeps"]), contracted=_axes(value["contracted"]),
        then=None if value["then"] is None else _form(value["then"]), link=(value["link"][0], value["link"][1]),
        sweep=None if value["sweep"] is None else _sweep(*value["sweep"]),
        version=value["version"],
    )


def _sweep(carried: list[list[int]], steps: list[int | None], counted: list[int]) -> Sweep:
    return Sweep(tuple([(read, written) for read, written in carried]), tuple(steps), tuple(counted))


def _axes(value: list[int | None]) -> tuple[KernelAxis, ...]:
    return tuple([KernelAxis(extent) for extent in value])


def _stage(kind: str, body: list[Any], reductions: list[Any], contraction: list[Any] | None) -> Stage:
    made = tuple([Instr(op, dtype, tuple(args), _immediate(imm)) for op, dtype, args, imm in body])
    reduced = tuple([_reduction(*fields) for fields in reductions])
    return Stage(kind, made, reduced, None if contraction is None else Contraction(*contraction))


def _reduction(
    combine: str, dtype: str, values: list[int], phase: str, store_to: list[int], load_from: list[int]
) -> Reduction:
    return Reduction(combine, dtype, tuple(values), phase, tuple(store_to), tuple(load_from))


def _immediate(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if len(value) == 2 and value[0] == "f" and isinstance(value[1], str):
        return text_float(value[1])
    return tuple([_immediate(item) for item in value])
