"""Mutations of documents of programs: of their bytes, of their structure, and of what they say.

A structure is lists, dicts and scalars; a change takes a random node and drops, doubles, swaps or replaces it, by what
stands elsewhere in the document or by a value that programs hold at such places. Few of these are valid programs. So
others change a step or a feed within its rules, and give all results the looks that follow from it.
"""
from __future__ import annotations

import copy
import random
from contextlib import suppress
from typing import Any, Final

from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.analysis.attributes import ATTR_KINDS
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs

_NUMBERS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 12, 64, 65, 255, -1, -2, -3, 1 << 20, 1 << 31, 1 << 62, 1 << 63, 1 << 64,
                   -(1 << 63), 10**30, 10**5000)
_WORDS: Final = (
    *SUPPORTED, *ops.names(), *ATTR_KINDS, "cpu", "gpu", "jf.random.state", "raise", "wrap", "clip", "linear",
    "nearest", "constant", "edge", "reflect", "complete", "ij,jk->ik", "i,i->", "...", "normal", "random", "integers",
    "choice", "bit_generator", "__class__", "bytes", "nan", "inf", "0x1.8p+1", "nan:7ff8000000000123", "AAAA", "",
    "é\n'\"",
)
_SCALARS: Final = (None, True, False, 0.5, {"float": "nan"}, {"float": "-0x0.0p+0"}, {"complex": ["nan", "0x1.0p+0"]},
                   {"bytes": "AAAAAAAAAAA="}, {"float": "0x1.0p+2000"}, "\ud800", [], {}, [[]], [0, 1], [[0, 1]])


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with some of them replaced, dropped, doubled or cut off."""
    for _ in range(draw.choice((1, 1, 2, 8))):
        at, length = draw.randrange(len(data) + 1), draw.choice((1, 1, 2, 16))
        part = data[at : at + length]
        new = draw.choice((b"", bytes([draw.randrange(256)]), part * 2, draw.randbytes(length), part * 3000))
        data = data[:at] + new + data[at + (0 if draw.random() < 0.3 else length) :]
        if draw.random() < 0.05:
            data = data[: draw.randrange(len(data) + 1)]
    return data


def changed(document: Any, draw: random.Random) -> Any:
    """Return a structure with up to four changes."""
    document = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = _places(document)
        if not places:
            break
        holder, key = draw.choice(places)
        _change(holder, key, places, draw)
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return where everything in a structure lies: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            found += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]
    return found


def _change(holder: Any, key: Any, places: list[tuple[Any, Any]], draw: random.Random) -> None:
    old, way = holder[key], draw.random()
    if way < 0.2:
        del holder[key]
    elif way < 0.3 and isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(old) for _ in range(draw.choice((1, 1, 2, 40)))]
    elif way < 0.6:  # what stands elsewhere, of the same type if there is any: ids, dtypes, shapes, whole steps
        others = [held[at] for held, at in places if type(held[at]) is type(old)]
        holder[key] = copy.deepcopy(draw.choice(others))
    elif way < 0.7 and isinstance(holder, list):
        draw.shuffle(holder)
    elif way < 0.73:
        for _ in range(draw.choice((1, 20, 120))):
            old = [old]
        holder[key] = old
    elif isinstance(old, str) and way < 0.95:
        holder[key] = draw.choice(_WORDS)
    elif type(old) is int and way < 0.95:
        holder[key] = draw.choice((old + 1, old - 1, -old, *_NUMBERS))
    else:
        holder[key] = copy.deepcopy(draw.choice((*_SCALARS, *_NUMBERS, *_WORDS)))


# ---------------------------------------------------------------- programs that are likely to be valid
_VALUES: Final = (
    None, True, False, 0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -7, 1 << 40, (1 << 64) - 1, -(1 << 63), 0.0, 0.25, 1.0, -0.5,
    1e300, float("nan"), float("inf"), 1j, complex("nan"), b"", bytes(8), bytes(48), (), (0,), (1,), (2,), (-1,), (3,),
    (0, 1), (1, 0), (2, 2), (1, 1), (0, 0), (-1, -2), (2, 3, 4), (1, 1, 1), (0, 1, 2), (1.5, 2), (True, 1j), (1 << 40,),
    ((0, 1),), ((0,),), ((),), ((0, 1), (0, 1)), ((0, 0, 1, 0),), ((0, 0, 1, 0, 1, 1),), ((0, 0, 1),), *_WORDS,
)


def altered(program: FusedProgram, draw: random.Random) -> FusedProgram:
    """Return a program with up to three steps or feeds changed, and the metas that its rows infer then."""
    steps, meta = list(program.steps), dict(program.meta)
    for _ in range(draw.choice((1, 1, 2, 3))):
        if steps and draw.random() < 0.8:
            k = draw.randrange(len(steps))
            steps[k] = _altered_step(steps[k], [*program.meta], draw)
        elif program.feeds:
            feed = draw.choice(program.ordered_feeds)
            meta[feed] = _altered_meta(meta[feed], draw)
    for step in steps:
        row = ops.get(step.op_name)
        with suppress(Exception):  # the judge reads what has been inferred until then
            assert row is not None
            made = row.result_metas([meta[i] for i in step.input_ids], step.attr_dict)
            meta.update(zip(step.result_ids, made, strict=True))
    return program.replace(steps=tuple(steps), meta=meta)


def _altered_step(step: OpStep, ids: list[int], draw: random.Random) -> OpStep:
    way, attrs = draw.random(), step.attr_dict
    if way < 0.2 and step.input_ids:
        inputs = list(step.input_ids)
        inputs[draw.randrange(len(inputs))] = draw.choice(ids)
        return step._replace(input_ids=tuple(inputs[: draw.choice((1, 9, 9))] * draw.choice((1, 1, 1, 2))))
    if way < 0.4:
        row = ops.get(draw.choice(ops.names()))
        assert row is not None
        inputs = [draw.choice((*step.input_ids, *ids)) for _ in range(row.arity)] if row.arity >= 0 else step.input_ids
        attrs = {name: attrs.get(name, _value_of(name, draw)) for name in row.attrs}
        return step._replace(op_name=row.name, input_ids=tuple(inputs), attrs=make_attrs(attrs),
                             mode_sensitive=row.mode_sensitive)
    if not attrs:
        return step
    name = draw.choice([*attrs])
    if isinstance(attrs[name], FusedProgram):
        return step._replace(attrs=make_attrs({**attrs, name: altered(attrs[name], draw)}))
    return step._replace(attrs=make_attrs({**attrs, name: _value_of(name, draw)}))


def _value_of(name: str, draw: random.Random) -> Any:
    """Return a value that an attribute of this name may have."""
    fits, _ = ATTR_KINDS[name]
    return draw.choice([value for value in _VALUES if fits(value)] or [0])


def _altered_meta(meta: Meta, draw: random.Random) -> Meta:
    if draw.random() < 0.5:
        return meta._replace(dtype=draw.choice([*SUPPORTED]))
    shapes = ((), (0,), (1,), (3,), (2, 3), (3, 2), (3, 3), (0, 3), (2, 3, 3), (1, 1, 1, 1), (1 << 40,), (1 << 30,) * 2)
    return meta._replace(shape=draw.choice((meta.shape[::-1], meta.shape[1:], (*meta.shape, 2), *shapes)), weak=False)
