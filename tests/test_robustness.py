"""What a test must not depend on: how fast the machine is, which threads run beside it, what tests before have left."""
from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from amount import PATIENCE

Rule = Callable[[ast.Module], Iterator[int]]
"""Yields the lines that break it."""
TESTS = Path(__file__).parent
FILES = sorted(path for path in TESTS.rglob("*.py") if path != Path(__file__))
COUNTED = re.compile(r"\bgetrefcount\(|\bgetallocatedblocks\(|\blive_bytes\(\)")
"""What garbage of other tests changes when it is found."""
KEPT_STILL = re.compile(r"'still'|\bgc\.collect\(\)|\bno_collection\(\)")


def broken(rule: Rule, *words: str) -> list[str]:
    """Return where files that have one of the words break a rule."""
    found = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("test_") and any(word in text for word in words):
            found += [f"{path.relative_to(TESTS)}:{line}" for line in rule(ast.parse(text))]
    return found


def within(tree: ast.AST, inside: tuple[ast.AST, ...] = ()) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Yield each node with those that it is in, the outermost first."""
    for node in ast.iter_child_nodes(tree):
        yield node, inside
        yield from within(node, (*inside, node))


def called(node: ast.AST) -> str:
    """Return the last name of what a node calls, or an empty text."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def short_timeouts(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "timeout" and isinstance(node.value, ast.Constant):
            seconds = node.value.value
            if isinstance(seconds, int | float) and seconds < PATIENCE:
                yield node.value.lineno


def limits_of_elapsed_time(tree: ast.Module) -> Iterator[int]:
    """Of processor time a limit may be set, generously: others that run take none of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.comparators[-1], ast.Constant | ast.BinOp):
            clocks = {called(part) for part in ast.walk(node.left)} & {"perf_counter", "monotonic", "perf_counter_ns"}
            if clocks and isinstance(node.ops[-1], ast.Lt | ast.LtE):
                yield node.lineno


def alarms_that_may_ring_too_soon(tree: ast.Module) -> Iterator[int]:
    """An alarm is set in the block that expects it."""
    for node, inside in within(tree):
        if called(node) == "setitimer" and isinstance(node, ast.Call) and ast.unparse(node.args[1]) != "0":
            blocks = [item.context_expr for outer in inside if isinstance(outer, ast.With) for item in outer.items]
            if not any(called(block) == "raises" for block in blocks):
                yield node.lineno


def counts_beside_garbage(tree: ast.Module) -> Iterator[int]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            source = ast.unparse(node)
            counted, kept = COUNTED.search(source), KEPT_STILL.search(source)
            if counted and (kept is None or kept.start() > counted.start()):
                yield node.lineno


@pytest.mark.parametrize(("rule", "words"), [
    (short_timeouts, ["timeout"]), (limits_of_elapsed_time, ["perf_counter", "monotonic"]),
    (alarms_that_may_ring_too_soon, ["setitimer"]),
    (counts_beside_garbage, ["getrefcount", "getallocatedblocks", "live_bytes"]),
])
def test_no_outcome_hangs_on_the_machine_or_on_other_tests(rule: Rule, words: list[str]) -> None:
    assert broken(rule, *words) == []


def test_threads_of_the_system_are_told_apart_in_one_place() -> None:
    """A thread that is new among those of the process may be one that is ending: see `kernels.only_worker`."""
    listing = "listdir(" + '"/proc/self/task"'
    found = [path.name for path in FILES if listing in path.read_text(encoding="utf-8")]
    assert found == ["kernels.py"]


@pytest.mark.parametrize(("rule", "wrong", "right"), [
    (short_timeouts, "run(x, timeout=60)", "run(x, timeout=PATIENCE)"),
    (limits_of_elapsed_time, "assert time.monotonic() - begin < 30", "assert time.process_time() - begin < 30"),
    (alarms_that_may_ring_too_soon, "signal.setitimer(signal.ITIMER_REAL, 0.1)\nwith pytest.raises(E):\n    f()",
     "with pytest.raises(E):\n    signal.setitimer(signal.ITIMER_REAL, 0.1)\n    f()\nsignal.setitimer(R, 0)"),
    (counts_beside_garbage, "def test_a():\n    return sys.getrefcount(x)",
     "@pytest.mark.usefixtures('still')\ndef test_a():\n    return sys.getrefcount(x)"),
])
def test_the_rules_find_what_they_are_for(rule: Rule, wrong: str, right: str) -> None:
    assert list(rule(ast.parse(wrong))) == [1] and list(rule(ast.parse(right))) == []
