"""The list of operators says which file each row is in, and files are read when one of theirs is asked for."""
from __future__ import annotations

import subprocess
import sys

import pytest

from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.operators.op import add, get

ENTERED = """
import sys
from importlib import import_module
from jitfuse.ir.operators import op
entered = []
op.add = lambda row, enter=op.add: (entered.append(row.name), enter(row))
for file in sys.argv[1:]:
    entered.clear()
    import_module(f"jitfuse.ir.operators.{file}")
    print(*entered)
"""


def test_each_file_enters_the_rows_that_it_is_listed_with() -> None:
    """In a process that has entered none: complex rows are made of others, which are listed before them."""
    program = "import types, sys, os; root = sys.argv.pop(1); jitfuse = types.ModuleType('jitfuse')\n" \
        "jitfuse.__path__ = [root]; sys.modules['jitfuse'] = jitfuse  # its own __init__ enters some\n" + ENTERED
    import jitfuse

    done = subprocess.run(
        [sys.executable, "-c", program, jitfuse.__path__[0], *FAMILIES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [tuple(line.split()) for line in done.stdout.splitlines()] == list(FAMILIES.values())


def test_the_table_is_in_the_order_of_the_list() -> None:
    assert [op.name for op in ops.table()] == list(ops.names()) == [n for names in FAMILIES.values() for n in names]


def test_rows_are_found_by_name_and_entered_once() -> None:
    assert get("no_such_operator") is None
    row = get("cholesky")
    assert row is not None and row.name == "cholesky" and get("cholesky") is row
    with pytest.raises(AssertionError):
        add(row)
