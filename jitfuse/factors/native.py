"""Runs tables of records over the stacks of a model.

Owns what native code is given: memory, and answers as arrays. Does not own the tables (`assembly.py`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.semirings.records import STACKS, WORKSPACE
from jitfuse.compile.objects.semiring_object import parallel_address, recycled, semiring_function
from jitfuse.factors.assembly import Assembled, Tensor
from jitfuse.factors.ir.schema import SlotKey

LARGE: Final = 1 << 17
"""Numbers from which on memory is recycled."""


def run_table(
    table: Assembled, carrier: str, stacks: Sequence[np.ndarray], dtype: Any, *, one: float, modulus: int = 0,
    workspace: np.ndarray | None = None,
) -> tuple[dict[SlotKey, np.ndarray], float]:
    """Return the wanted slots of a table, and the smallest number but 0 of what was divided by its scale, of scales and
    of one over these.

    Args:
        table: what `assemble` made for stacks of these shapes.
        carrier: the arithmetic, one of `jitfuse.backends.llvm.semirings.records.CARRIERS`.
        stacks: the tables [rows, *shape, batch], contiguous; batch may be missing.
        dtype: of all of them.
        one: the semiring's one.
        modulus: that of residues.
        workspace: the registers' memory; None: new memory.
    """
    function = semiring_function(carrier, np.dtype(dtype).name)
    if workspace is None:
        workspace = (np.empty if table.workspace < LARGE else recycled)(table.workspace, dtype)
    least = np.full(1, np.inf, dtype)
    memories = [workspace, np.full(1, one, dtype), least, *stacks]
    addresses = np.array([m.__array_interface__["data"][0] for m in memories], np.int64)
    function(_address(table.code), table.count, _address(addresses), float(modulus or 1),
             parallel_address() if table.threads else 0)
    return {key: _read(x, memories, table.batch) for key, x in table.slots.items()}, float(least[0])


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _read(tensor: Tensor, memories: Sequence[np.ndarray], batch: int) -> np.ndarray:
    """Return a tensor, with the batch in front."""
    memory = memories[tensor.memory]
    if tensor.memory != WORKSPACE and tensor.memory < STACKS:
        return np.broadcast_to(memory[0], tensor.spec.shape)
    count = batch if tensor.batched else 1
    flat = memory.reshape(-1)[tensor.first : tensor.first + tensor.spec.size * count]
    array = np.moveaxis(flat.reshape((*tensor.spec.shape, count)), -1, 0) if tensor.batched else flat.reshape(
        tensor.spec.shape)
    return array.copy() if 2 * array.nbytes < memory.nbytes else array  # it must not hold the memory of all registers
