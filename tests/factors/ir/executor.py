"""What a register program computes, in loops over indices: shares no code with the product but the data it runs.

Sums run over the summed axes in the order of their keys, whatever the layout, and products in the order of inputs, so
that two programs of the same arithmetic give the same bits.
"""
from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jitfuse.factors.ir.schema import AxisKey, OpCode, Program, SlotKey, TensorSpec


def run(
    program: Program, factors: Mapping[int, np.ndarray], slots: Mapping[SlotKey, np.ndarray],
    selectors: Mapping[int, np.ndarray] | None = None,
) -> dict[SlotKey, np.ndarray]:
    """Return all slots after the program; fails where it reads what is not there, or leaves a register.

    Without `selectors` each mode's values are all the states of its variable.
    """
    kept = dict(slots)
    registers: dict[int, tuple[TensorSpec, np.ndarray]] = {}
    written: set[int] = set()
    for step in program.instructions:
        args, spec, made = step.args, step.spec, None
        if step.op is OpCode.FREE:
            for register in args["srcs"]:
                del registers[register]
            continue
        if step.op is OpCode.STORE_SLOT:
            assert args["slot"] not in kept
            kept[args["slot"]] = registers[args["src"]][1]
            continue
        assert spec is not None and step.dst not in written
        if step.op is OpCode.UNIT:
            made = np.ones(spec.shape)
        elif step.op is OpCode.LOAD_FACTOR:
            made = factors[args["factor_id"]]
        elif step.op is OpCode.LOAD_SELECTOR:
            assert spec.ndim == 2
            made = np.eye(*spec.shape) if selectors is None else selectors[args["selector_id"]]
        elif step.op is OpCode.LOAD_SLOT:
            made = kept[args["slot"]]
        elif step.op is OpCode.CONTRACT:
            made = _summed([registers[register] for register in args["inputs"]], spec)
        elif step.op is OpCode.ELIMINATE:
            assert {*spec.keys} == {*args["keep_keys"]}
            made = _summed([registers[args["src"]]], spec)
        elif step.op is OpCode.NORMALIZE:
            assert args["scale"] not in kept and registers[args["src"]][0] == spec
            largest = registers[args["src"]][1].max()
            kept[args["scale"]] = np.array(largest)
            made = registers[args["src"]][1] / largest
        assert made is not None and made.shape == spec.shape and step.dst is not None
        registers[step.dst] = spec, made
        written.add(step.dst)
    assert not registers
    return kept


def _summed(inputs: list[tuple[TensorSpec, np.ndarray]], spec: TensorSpec) -> np.ndarray:
    sizes: dict[AxisKey, int] = {}
    for source, _ in inputs:
        for axis in source.axes:
            assert sizes.setdefault(axis.key, axis.size) == axis.size
    order = sorted(sizes, key=lambda key: (key[0].value, key[1]))
    out = np.zeros(spec.shape)
    for index in itertools.product(*(range(sizes[key]) for key in order)):
        at = dict(zip(order, index, strict=True))
        values = [array[tuple(at[key] for key in source.keys)] for source, array in inputs]
        product: Any = values[0]
        for value in values[1:]:
            product = product * value
        out[tuple(at[key] for key in spec.keys)] += product
    return out
