"""Each pass on small programs: what it changes, as text."""
from __future__ import annotations

import pytest

from jitfuse.factors.ir.schema import Program
from jitfuse.factors.ir.text import from_text, to_text
from jitfuse.factors.ir.verify import check
from jitfuse.factors.rewrites.common_subexpressions import common_subexpressions
from jitfuse.factors.rewrites.dead_code import dead_code
from jitfuse.factors.rewrites.free_early import free_early
from jitfuse.factors.rewrites.fuse_eliminations import fuse_eliminations
from jitfuse.factors.rewrites.levels import by_level, levels
from jitfuse.factors.rewrites.pipeline import PASSES, Pass, explain, rewritten
from jitfuse.factors.rewrites.pooling import peak, pool

CASES: dict[str, tuple[Pass, str, str]] = {
    "free early": (free_early, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        UNIT dst=1 spec=(v1:2)
        STORE_SLOT slot=('a',) src=0
        ELIMINATE dst=2 src=0 keep_keys=() spec=()
        STORE_SLOT slot=('b',) src=2
        FREE srcs=(0, 1, 2)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        UNIT dst=1 spec=(v1:2)
        FREE srcs=(1)
        STORE_SLOT slot=('a',) src=0
        ELIMINATE dst=2 src=0 keep_keys=() spec=()
        FREE srcs=(0)
        STORE_SLOT slot=('b',) src=2
        FREE srcs=(2)
    """),
    "dead code": (dead_code, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_FACTOR dst=1 factor_id=1 spec=(v1:2)
        CONTRACT dst=2 inputs=(0, 1) spec=(v0:2)
        STORE_SLOT slot=('a',) src=0
        FREE srcs=(0, 1, 2)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        STORE_SLOT slot=('a',) src=0
        FREE srcs=(0)
    """),
    "NORMALIZE keeps a divisor, so it is alive": (dead_code, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        NORMALIZE dst=1 src=0 scale=('scale', 0) spec=(v0:2)
        FREE srcs=(0, 1)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        NORMALIZE dst=1 src=0 scale=('scale', 0) spec=(v0:2)
        FREE srcs=(0, 1)
    """),
    "common subexpressions": (common_subexpressions, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_SLOT dst=1 slot=('msg', 0, 1) spec=(v0:2)
        CONTRACT dst=2 inputs=(0, 1) spec=(v0:2)
        STORE_SLOT slot=('a',) src=2
        FREE srcs=(0, 1, 2)
        LOAD_FACTOR dst=3 factor_id=0 spec=(v0:2)
        LOAD_SLOT dst=4 slot=('msg', 0, 1) spec=(v0:2)
        CONTRACT dst=5 inputs=(3, 4) spec=(v0:2)
        ELIMINATE dst=6 src=5 keep_keys=() spec=()
        STORE_SLOT slot=('b',) src=6
        FREE srcs=(3, 4, 5, 6)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_SLOT dst=1 slot=('msg', 0, 1) spec=(v0:2)
        CONTRACT dst=2 inputs=(0, 1) spec=(v0:2)
        FREE srcs=(0, 1)
        STORE_SLOT slot=('a',) src=2
        ELIMINATE dst=6 src=2 keep_keys=() spec=()
        FREE srcs=(2)
        STORE_SLOT slot=('b',) src=6
        FREE srcs=(6)
    """),
    "fusion": (fuse_eliminations, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
        CONTRACT dst=1 inputs=(0, 0) spec=(v1:2, v0:2)
        ELIMINATE dst=2 src=1 keep_keys=(v1) spec=(v1:2)
        STORE_SLOT slot=('a',) src=2
        FREE srcs=(0, 1, 2)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
        CONTRACT dst=2 inputs=(0, 0) spec=(v1:2)
        FREE srcs=(0)
        STORE_SLOT slot=('a',) src=2
        FREE srcs=(2)
    """),
    "order by levels": (by_level, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        ELIMINATE dst=1 src=0 keep_keys=() spec=()
        STORE_SLOT slot=('a',) src=1
        LOAD_SLOT dst=2 slot=('a',) spec=()
        LOAD_FACTOR dst=3 factor_id=1 spec=(v1:2)
        ELIMINATE dst=4 src=3 keep_keys=() spec=()
        CONTRACT dst=5 inputs=(2, 4) spec=()
        STORE_SLOT slot=('b',) src=5
        FREE srcs=(0, 1, 2, 3, 4, 5)
    """, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_FACTOR dst=3 factor_id=1 spec=(v1:2)
        ELIMINATE dst=1 src=0 keep_keys=() spec=()
        FREE srcs=(0)
        ELIMINATE dst=4 src=3 keep_keys=() spec=()
        FREE srcs=(3)
        STORE_SLOT slot=('a',) src=1
        FREE srcs=(1)
        LOAD_SLOT dst=2 slot=('a',) spec=()
        CONTRACT dst=5 inputs=(2, 4) spec=()
        FREE srcs=(4, 2)
        STORE_SLOT slot=('b',) src=5
        FREE srcs=(5)
    """),
}
BEFORE = from_text("LOAD_SLOT slot=('msg', 0, 1) spec=(v0:2)").instructions[0]


@pytest.mark.parametrize("name", CASES)
def test_a_pass(name: str) -> None:
    rewrite, given, expected = CASES[name]
    check(from_text(given), before={BEFORE.args["slot"]: BEFORE.spec})
    assert to_text(rewrite(from_text(given))) == to_text(from_text(expected))


SAME: dict[str, tuple[Pass, str]] = {
    "a product in another order is another product": (common_subexpressions, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_FACTOR dst=1 factor_id=1 spec=(v0:2)
        CONTRACT dst=2 inputs=(0, 1) spec=(v0:2)
        CONTRACT dst=3 inputs=(1, 0) spec=(v0:2)
        STORE_SLOT slot=('a',) src=2
        STORE_SLOT slot=('b',) src=3
        FREE srcs=(0, 1, 2, 3)
    """),
    "a divisor is kept for each NORMALIZE": (common_subexpressions, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        NORMALIZE dst=1 src=0 scale=('scale', 1) spec=(v0:2)
        NORMALIZE dst=2 src=0 scale=('scale', 2) spec=(v0:2)
        FREE srcs=(0, 1, 2)
    """),
    "other axes of one product": (common_subexpressions, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
        CONTRACT dst=1 inputs=(0) spec=(v0:2)
        CONTRACT dst=2 inputs=(0) spec=(v1:2)
        STORE_SLOT slot=('a',) src=1
        STORE_SLOT slot=('b',) src=2
        FREE srcs=(0, 1, 2)
    """),
    "a product that others read too": (fuse_eliminations, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
        CONTRACT dst=1 inputs=(0) spec=(v0:2, v1:2)
        ELIMINATE dst=2 src=1 keep_keys=(v0) spec=(v0:2)
        STORE_SLOT slot=('bel', 0) src=1
        STORE_SLOT slot=('msg', 0, 1) src=2
        FREE srcs=(0, 1, 2)
    """),
    "a sum of a sum": (fuse_eliminations, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
        CONTRACT dst=1 inputs=(0) spec=(v0:2)
        ELIMINATE dst=2 src=1 keep_keys=() spec=()
        ELIMINATE dst=3 src=2 keep_keys=() spec=()
        STORE_SLOT slot=('a',) src=3
        FREE srcs=(0, 1, 2, 3)
    """),
    "a tree of products": (fuse_eliminations, """
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        LOAD_FACTOR dst=1 factor_id=1 spec=(v0:2)
        CONTRACT dst=2 inputs=(0, 1) spec=(v0:2)
        CONTRACT dst=3 inputs=(2, 1) spec=(v0:2)
        STORE_SLOT slot=('a',) src=3
        FREE srcs=(0, 1, 2, 3)
    """),
}


@pytest.mark.parametrize("name", SAME)
def test_a_pass_leaves_alone(name: str) -> None:
    rewrite, given = SAME[name]
    program = from_text(given)
    check(program)
    assert rewrite(program) == program


def test_levels_are_what_can_run_at_once() -> None:
    program = from_text("""
        LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2)
        ELIMINATE dst=1 src=0 keep_keys=() spec=()
        STORE_SLOT slot=('a',) src=1
        LOAD_SLOT dst=2 slot=('a',) spec=()
        LOAD_FACTOR dst=3 factor_id=1 spec=()
        CONTRACT dst=4 inputs=(2, 3) spec=()
        FREE srcs=(0, 1)
        FREE srcs=(2, 3, 4)
    """)
    assert levels(program) == ((0,), (1,), (2,), (3, 4, 6), (5,), (7,))


def test_the_pool_of_a_chain() -> None:
    program = from_text("""
        UNIT dst=0 spec=(v0:4)
        UNIT dst=1 spec=(v1:2)
        FREE srcs=(0)
        UNIT dst=2 spec=(v2:3)
        FREE srcs=(1)
        UNIT dst=3 spec=(v3:8)
        FREE srcs=(2, 3)
    """)
    found = pool(program)
    assert found.entries == {0: 0, 1: 1, 2: 0, 3: 1}
    assert (found.sizes, found.before, found.after, found.least) == ((32, 64), 136, 96, 88)
    assert peak(program) == 88


def test_a_slot_holds_what_is_stored_until_it_is_loaded_for_the_last_time() -> None:
    program = from_text("""
        UNIT dst=0 spec=(v0:4)
        STORE_SLOT slot=('a') src=0
        FREE srcs=(0)
        UNIT dst=1 spec=(v1:8)
        FREE srcs=(1)
        LOAD_SLOT dst=2 slot=('a') spec=(v0:4)
        FREE srcs=(2)
        UNIT dst=3 spec=(v2:16)
        FREE srcs=(3)
    """)
    assert (peak(program), pool(program).least) == (128, 128)
    kept = Program((*program.instructions[:5], *program.instructions[7:]))
    assert (peak(kept), pool(kept).least) == (160, 128)
    assert peak(Program(program.instructions[:7])) == 96
    assert peak(Program(program.instructions[:2])) == 32


WIDE = """
LOAD_FACTOR dst=0 factor_id=0 spec=(v0:8)
ELIMINATE dst=1 src=0 keep_keys=() spec=()
STORE_SLOT slot=('a',) src=1
FREE srcs=(0, 1)
LOAD_FACTOR dst=2 factor_id=1 spec=(v1:8)
ELIMINATE dst=3 src=2 keep_keys=() spec=()
STORE_SLOT slot=('b',) src=3
FREE srcs=(2, 3)
"""


def test_a_pass_that_needs_more_memory_is_not_taken() -> None:
    narrow, wide = rewritten(from_text(WIDE)), rewritten(from_text(WIDE), limit=200)
    assert [step.name for step in narrow.steps] == [rewrite.__name__ for rewrite in PASSES]
    assert [step.taken for step in narrow.steps] == [True] * 4 + [False]
    assert narrow.steps[-1].before.bytes == peak(narrow.program) == 80
    assert narrow.steps[-1].after.bytes == peak(wide.program) == 136
    assert wide.program == by_level(from_text(WIDE)) and all(step.taken for step in wide.steps)


def test_explain_shows_before_and_after() -> None:
    text = explain(rewritten(from_text(CASES["fusion"][1])))
    assert text == """\
pass                         instructions              bytes at once
free_early                         5 -> 7                   80 -> 64
dead_code                          7 -> 7                   64 -> 64
common_subexpressions              7 -> 7                   64 -> 64
fuse_eliminations                  7 -> 5                   64 -> 48
by_level                           5 -> 5                   48 -> 48
4 levels, at most 2 instructions at once
registers: 48 bytes apart, 48 pooled in 2 entries

before:
[0] LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
[1] CONTRACT dst=1 inputs=(0, 0) spec=(v1:2, v0:2)
[2] ELIMINATE dst=2 src=1 keep_keys=(v1) spec=(v1:2)
[3] STORE_SLOT slot=('a') src=2
[4] FREE srcs=(0, 1, 2)

after:
[0] LOAD_FACTOR dst=0 factor_id=0 spec=(v0:2, v1:2)
[1] CONTRACT dst=2 inputs=(0, 0) spec=(v1:2)
[2] FREE srcs=(0)
[3] STORE_SLOT slot=('a') src=2
[4] FREE srcs=(2)"""
    assert "0 levels" in explain(rewritten(from_text("")))
