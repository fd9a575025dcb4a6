"""The register machine: runs a program over arrays of any kind, in any semiring.

Over NumPy's arrays it is the plain reference; over traced arrays it writes the steps of a fused function.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.factors.contractions import Contraction, Row
from jitfuse.factors.ir.schema import OpCode, Program, SlotKey, TensorSpec
from jitfuse.factors.semirings import Array, Semiring

Load = Callable[[int], Array | Row]


class Machine:
    """A program, with the contraction of each of its instructions.

    Args:
        program: a valid program.
        row_of: the row of a factor's table, among those that lie in one array.
    """

    def __init__(self, program: Program, row_of: Callable[[int], int]) -> None:
        self.program = program
        self.contractions: dict[int, Contraction] = {}
        specs = self._specs = dict[int, TensorSpec]()
        rows: dict[int, int] = {}
        tables, end = [np.zeros(0, np.int64)], 0
        for place, step in enumerate(program.instructions):
            if step.op in (OpCode.CONTRACT, OpCode.ELIMINATE):
                assert step.spec is not None
                inputs = [specs[r] for r in step.reads]
                made = self.contractions[place] = Contraction(inputs, step.spec, end, [rows.get(r) for r in step.reads])
                tables.append(made.tables)
                end += len(made.tables)
            if step.dst is not None and step.spec is not None:
                specs[step.dst] = step.spec
            if step.dst is not None and step.op is OpCode.LOAD_FACTOR:
                rows[step.dst] = row_of(step.args["factor_id"])
        self.offsets = np.concatenate(tables)
        """The offsets that the contractions read: give them to `run`, as they are or traced."""

    def run(
        self, semiring: Semiring, load_factor: Load, slots: dict[SlotKey, Array], offsets: Array, *,
        load_selector: Load | None = None, dtype: Any = np.float64, batch: tuple[int, ...] = (),
    ) -> None:
        """Run the program: what it stores is in `slots` afterwards.

        Args:
            semiring: what product and sum are.
            load_factor: the tensor of a factor, with axes as the instruction says: an array, behind any number of batch
                axes, or the row of one.
            slots: what earlier programs stored.
            offsets: `self.offsets`.
            load_selector: the array of a selector.
            dtype: that of ones.
            batch: the shape of the axes that all tensors have in front.
        """
        registers: dict[int, Array | Row] = {}

        def alone(register: int) -> Array:
            held = registers[register]
            return held.alone(self._specs[register].ndim) if isinstance(held, Row) else held

        for place, step in enumerate(self.program.instructions):
            args, array = step.args, None
            if step.op is OpCode.STORE_SLOT:
                slots[args["slot"]] = alone(args["src"])
                continue
            if step.op is OpCode.FREE:
                for register in args["srcs"]:
                    del registers[register]
                continue
            assert step.dst is not None and step.spec is not None
            if step.op is OpCode.LOAD_FACTOR:
                array = load_factor(args["factor_id"])
            elif step.op is OpCode.LOAD_SLOT:
                array = slots[args["slot"]]
            elif step.op is OpCode.LOAD_SELECTOR:
                assert load_selector is not None, "a program with selectors needs them"
                array = load_selector(args["selector_id"])
            elif step.op is OpCode.UNIT:
                array = np.full_like(offsets, semiring.one, dtype=dtype, shape=batch + step.spec.shape)
            elif step.op is OpCode.NORMALIZE:
                array, slots[args["scale"]] = _normalized(alone(args["src"]), step.spec.ndim)
            else:
                array = self.contractions[place](semiring, [registers[r] for r in step.reads], offsets)
            registers[step.dst] = array


def _normalized(array: Array, axes: int) -> tuple[Array, Array]:
    """Return an array divided by its largest element over its last axes, and that; one of zeros as it is, and one."""
    largest = array.max(tuple(range(array.ndim - axes, array.ndim)))
    divisor = np.where((largest > 0) & np.isfinite(largest), largest, largest.dtype.type(1))
    return array / divisor.reshape(divisor.shape + (1,) * axes), divisor
