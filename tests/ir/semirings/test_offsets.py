"""Which sums of products are taken in parts: how many offsets records list, and what is summed between."""
from __future__ import annotations

import numpy as np

from jitfuse.ir.semirings import words as r
from jitfuse.ir.semirings.loops import FEW_OFFSETS, FEWER, MOST_OFFSETS, Operand, record_of
from tests.ir.semirings.test_records import LETTERS, operand, records_of


def test_few_offsets_are_listed_where_rows_are_short_and_tensors_large() -> None:
    """And what is summed first is still whole rows, in few records."""
    for sizes, most in ((dict.fromkeys("klmn", 20), FEW_OFFSETS), (dict.fromkeys("klmn", 8), MOST_OFFSETS)):
        whole, part = (operand(r.STACKS + k, axes, "klmn", sizes) for k, axes in enumerate(("klmn", "nmlk")))
        number = Operand(r.WORKSPACE, 0, (0, 0, 0, 0))
        one = record_of(number, whole, part, [*sizes.values()])
        assert (one is None) == (most == FEW_OFFSETS)
        assert record_of(number, whole, whole, [*sizes.values()]) is not None
        made, _ = records_of("", "klmn", "nmlk", sizes)
        assert len(made) == (1 if one is not None else 3)


def test_what_is_summed_between_is_much_smaller_than_the_tensors() -> None:
    """Whatever axes are summed: else it takes more time to write, and more memory than messages may take."""
    draw, splits, together = np.random.default_rng(0), 0, 0
    for size, rank in ((2, 16), (3, 10), (5, 6)) * 30:
        letters = LETTERS[:rank] + "mnop"[: max(0, rank - len(LETTERS))]
        summed = draw.choice([*letters], int(draw.integers(2, rank)), replace=False)
        out = "".join(x for x in letters if x not in summed)
        b = "".join(x for x in letters if draw.random() < 0.4)
        records, between = records_of(out, letters, b, dict.fromkeys(letters, size))
        assert between <= size**rank / (FEWER - 1)
        splits += len(records) > 1
        together += any(record[r.OFFSETS] > FEW_OFFSETS for record in records)
    assert splits > 10 and together > 10
