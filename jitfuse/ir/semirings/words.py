"""Records: how one sum of products of two tensors is written, as 64-bit words.

    out[k] = sum over s of a[k, s] * b[k, s]

A record has three kinds of loops: units, over axes of the result; one inner axis, whose elements are neighbours or a
fixed distance apart; and a list of offsets for all that is summed besides. Loop `R` is the number of axes of the units.

| word | is |
|---|---|
| 0 | words of the record |
| 1 | what the inner axis is, `SPLAT` to `EXTREMES`, or `REPEAT`, `BRANCHES` |
| 2 | 1: units may run at the same time in several threads |
| 3 | number of units |
| 4, 5 | the result: number of its memory, first element |
| 6, 7 | a, in the same way |
| 8, 9 | b |
| 10 | extent of the inner axis |
| 11, 12, 13 | its strides in the result, a and b |
| 14 | number of offsets; of `EXTREMES` and `PARTS`, elements of one tensor |
| 15 | R |
| 16 .. | R times: extent, strides in the result, a and b; the first axis is the slowest |
| then | for each offset that of a and that of b |

Strides and offsets count elements.
"""
from __future__ import annotations

from typing import Final

LENGTH, KIND, PARALLEL, UNITS = 0, 1, 2, 3
OUT, A, B = 4, 6, 8
"""Where the two words of each tensor are."""
EXTENT, INNER_STRIDES, OFFSETS, RANK = 10, 11, 14, 15
AXES: Final = 16
"""Words before those of the axes of the units."""
MAX_RANK: Final = 64
"""Axes of the units."""

SPLAT, PAIRS, STRIDED, SUM_SPLAT, SUM_PAIRS, EXTREMES, PARTS, REPEAT, BRANCHES = range(9)
"""Kinds of the inner axis, and loops over records:

SPLAT      elements of the result and of a are neighbours, b is one number
PAIRS      those of b are neighbours too
STRIDED    any strides
SUM_SPLAT  summed: elements of a are neighbours, b is one number
SUM_PAIRS  summed: those of b are neighbours too
EXTREMES   the result is a scale of a, and one over it: the power of two next above its largest element, or 1 where that
           is 0 or infinite; the inner axis is a batch of tensors. Smallest elements are those of b
PARTS      the same of parts of a tensor, one for each unit: largest elements of all, then smallest ones
REPEAT     word 2: how often the records behind it run; word 3: how many these are; then for each of them by how many
           elements the result, a and b move on each time
BRANCHES   its units are lists of records behind it, which may run at the same time; word 4: words of all of them; then
           for each list how many words behind this record it begins, and how many records it has
"""
SUMS: Final = (SPLAT, PAIRS, STRIDED, SUM_SPLAT, SUM_PAIRS)
TIMES, BODY, MOVES = 2, 3, 4
"""Where words of REPEAT are."""
INSIDE, LISTS = 4, 5
"""Where words of BRANCHES are."""

WORKSPACE, ONE, LEAST, RESULT, STACKS = range(5)
"""Numbers of memories: what records write and read, a number one, the least of tensors over their scales and of these,
what stays when all records have run, and the operands, one after the other.
"""

CARRIERS: Final = ("sum_product", "max_product", "max_sum", "min_sum", "log", "modular")
"""Semirings that there is code for; "modular" is that of residues, in float64."""
MODULUS_LIMIT: Final = 1 << 49
"""Residues below it are exact in "modular"."""
