"""Tables of records for the GPU: levels, workspaces, and shaders that adapters take."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from semiring_tables import FIRST, SECOND, attributes, record, walks

from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError
from jitfuse.backends.wgsl.codegen.record_table import Dispatch, pack, unshared
from jitfuse.backends.wgsl.codegen.records import emit_records
from jitfuse.backends.wgsl.runtime.pipelines import Pipeline
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.tables import CARRIERS, Sum, sums

ROW = (1,)
BASES = {w.ONE: 0, w.WORKSPACE: 1, w.RESULT: 10_001, FIRST: 20_001, SECOND: 30_001}


def moved(*chain: tuple[Any, Any, Any], size: int, workspace: int, elements: int = 4) -> tuple[Sum, ...]:
    """Return records that multiply element by element; each is (result, a, b), as (memory, first)."""
    made = [record([elements], *((*place, ROW) for place in each)) for each in chain]  # type: ignore[arg-type]
    attrs = attributes("log", made, workspace, size)
    return sums(attrs["records"], (elements, elements), workspace, size)


def levels(table: Any) -> list[Dispatch]:
    return pack(table, BASES, np.zeros(1, "float32"))[1]


def test_a_workspace_that_is_written_again_makes_levels_unless_it_is_not_shared() -> None:
    a, b, here = (FIRST, 0), (SECOND, 0), (w.WORKSPACE, 0)
    table = moved((here, a, b), ((w.RESULT, 0), here, a), (here, b, b), ((w.RESULT, 4), here, b), size=8, workspace=4)
    assert levels(table) == [Dispatch(0, 4, 4)]
    apart, workspace = unshared(table, 4)
    assert workspace == 8 and [each.out.first for each in apart] == [0, 0, 4, 4]
    assert levels(apart) == [Dispatch(0, 2, 8)]


def test_large_levels_are_dispatches_of_their_own() -> None:
    here = (w.WORKSPACE, 0)
    chain = ((here, (FIRST, 0), (SECOND, 0)), ((w.RESULT, 0), here, here))
    table = moved(*chain, size=2000, workspace=2000, elements=2000)
    assert levels(table) == [Dispatch(0, 1, 2000), Dispatch(1, 2, 2000)]


def test_what_several_records_wrote_stays_in_one_workspace() -> None:
    halves = [record([2], (w.WORKSPACE, k, ROW), (FIRST, k, ROW), (SECOND, k, ROW)) for k in (0, 2)]
    attrs = attributes("log", [*halves, record([4], (w.RESULT, 0, ROW), (w.WORKSPACE, 0, ROW), (FIRST, 0, ROW))], 4, 4)
    table = sums(attrs["records"], (4, 4), 4, 4)
    assert unshared(table, 4) == (table, 4)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("small", [False, True])
def test_adapters_without_64_bits_take_shaders_of_float32(carrier: str, small: bool, plain_device: Any) -> None:
    Pipeline(plain_device, emit_records(carrier, "float32", plain_device.facts, small=small))
    with pytest.raises(UnknownOperatorError, match="float64"):
        emit_records(carrier, "float64", plain_device.facts, small=small)


def test_words_of_a_table() -> None:
    attrs = walks("log", 3)
    table = sums(attrs["records"], (9, 3), attrs["workspace"], attrs["size"])
    words, dispatches = pack(table, BASES, np.ones(1, "float32"))
    assert words.dtype == np.uint32 and words[0] == 0x3F800000 and dispatches == [Dispatch(0, 3, 3)]
    lists = [words[2 + 3 * level] for level in range(3)]
    records = [words[words[at + 1] :] for at in lists]
    assert [record[:3].tolist() for record in records] == [
        [10_001, 20_001, 30_001], [1, 20_001, 10_001], [10_004, 1, 30_001]]
