"""A FusedProgram as text for people: one line for each feed, step and output, which `from_text` reads back.

    program 1 {
      feed %0: float32[3, 4] 'args[0]'
      state %1: float32[4] "params['b']"
      %2: float32[3, 4] = add(%0, %1)  {step 0, level 0}  # model.py:12
      %3: float32[3] = sum(%2, axis=(1,), keepdims=False)  {step 1, level 1}  # model.py:13
      return "['total']": %3
      update %1 <- %2
      write %0 <- %2
    }

`mode` among the braces marks a step that reads the training flag. Every program that `verify` accepts comes back equal,
with its sources; of an invalid one this prints what can be printed. Owns printing; reading is in
`jitfuse.ir.formats.parse`.
"""
from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Final

from jitfuse.base.floats import float_text
from jitfuse.ir.schema import AttrValue, Meta, OpStep, ProgramData

_WORD: Final = re.compile(r"\w[\w:.-]*\Z")
_INDENT: Final = "  "


def to_text(program: ProgramData) -> str:
    """Return the whole program as text, without a newline at the end."""
    return "\n".join(_lines(program, ""))


def first_lines(program: ProgramData, count: int) -> list[str]:
    """Return the first lines of the program's text, at most `count`."""
    return "\n".join(itertools.islice(_lines(program, ""), count)).splitlines()[:count]


def step_text(program: ProgramData, step: OpStep) -> str:
    """Return one step as in the program's text, on one line; of nested programs and of constants only the size."""
    return _step(program, step, None) + _place(step) + _line(program, step)


def report_steps(program: ProgramData) -> tuple[list[OpStep], list[OpStep]]:
    """Return the steps in the order in which reports number them: those over arrays, then those of Python's numbers."""
    def is_number(step: OpStep) -> bool:
        metas = [program.meta.get(i) for i in (*step.input_ids, *step.result_ids)]
        return all(meta is not None and meta.weak and not meta.shape for meta in metas)

    return [s for s in program.steps if not is_number(s)], [s for s in program.steps if is_number(s)]


def report_lines(program: ProgramData) -> tuple[list[str], list[str]]:
    """Return the lines of `report_steps`, numbered from 0."""
    arrays, numbers = report_steps(program)
    lines = [f"{k}  {_step(program, step, None)}" + ("  (mode)" if step.mode_sensitive else "") + _line(program, step)
             for k, step in enumerate((*arrays, *numbers))]
    return lines[: len(arrays)], lines[len(arrays) :]


def meta_text(meta: Meta | None) -> str:
    """Return a meta as in the program's text: ``float32[3, 4] weak @gpu axes ('batch', 'channel')``."""
    if meta is None:
        return "?"
    text = f"{meta.dtype}[{', '.join(map(str, meta.shape))}]" + (" weak" if meta.weak else "")
    if meta.device != "cpu":
        text += f" @{meta.device if _WORD.match(meta.device) else repr(meta.device)}"
    return text if meta.axes is None else f"{text} axes {_value(meta.axes, None)}"


def _lines(program: ProgramData, indent: str) -> Iterator[str]:
    inner = indent + _INDENT
    yield f"program {program.version} {{"
    for i in program.ordered_feeds:
        word = "state" if i in program.state_in else "feed"
        name = f" {program.feed_names[i]!r}" if i in program.feed_names else ""
        yield f"{inner}{word} %{i}: {meta_text(program.meta.get(i))}{name}"
    for step in program.steps:
        yield inner + _step(program, step, inner) + _place(step) + _line(program, step)
    for path, i in program.outputs.items():
        yield f"{inner}return {path!r}: %{i}"
    for feed in sorted(program.state_out):
        yield f"{inner}update %{feed} <- %{program.state_out[feed]}"
    for feed in sorted(program.writes):
        yield f"{inner}write %{feed} <- %{program.writes[feed]}"
    yield indent + "}"


def _step(program: ProgramData, step: OpStep, indent: str | None) -> str:
    results = ", ".join(f"%{i}: {meta_text(program.meta.get(i))}" for i in step.result_ids)
    operands = [f"%{i}" for i in step.input_ids]
    operands += [f"{name}={_value(value, indent)}" for name, value in step.attrs]
    return f"{results} = {step.op_name}({', '.join(operands)})"


def _place(step: OpStep) -> str:
    return f"  {{step {step.step_id}, level {step.level}" + (", mode}" if step.mode_sensitive else "}")


def _line(program: ProgramData, step: OpStep) -> str:
    source = program.sources.get(step.step_id)
    return f"  # {' '.join(source.split())}" if source else ""


def _value(value: AttrValue, indent: str | None) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value) if math.isnan(value) else repr(float(value))
    if isinstance(value, complex):
        return f"complex({_value(value.real, indent)}, {_value(value.imag, indent)})"
    if isinstance(value, bytes):
        return f"h'{value.hex()}'" if indent is not None else f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        items = ", ".join(_value(v, indent) for v in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, ProgramData):
        return f"program of {len(value.steps)} steps" if indent is None else "\n".join(_lines(value, indent))
    return repr(str(value))
