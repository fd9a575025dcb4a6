"""Rewritten code does what the code did: whole modules of the standard library, run from rewritten code."""
from __future__ import annotations

import importlib
import opcode
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from amount import extended

from jitfuse.tracing.interception import assembler
from jitfuse.tracing.interception.bytecode import is_rewritten, rewrite

MODULES = ["textwrap", "heapq", "difflib", "json.decoder", "dataclasses", "contextlib"]
if extended():
    MODULES += ["argparse", "typing", "inspect", "ast", "_pydecimal", "asyncio.base_events", "tokenize", "pickle"]


def compiled(name: str) -> types.CodeType:
    filename = importlib.import_module(name).__file__
    assert filename is not None
    with open(filename, encoding="utf-8") as file:
        return compile(file.read(), filename, "exec")


def rewritten(name: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": name}
    exec(rewrite(compiled(name), nested=True), space)
    own = [v for v in space.values() if type(v) is types.FunctionType and v.__globals__ is space]
    assert any(is_rewritten(fn.__code__) for fn in own)
    return space


def all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)


def positions(code: types.CodeType) -> list[Any]:
    """Line and column entries in order, each once per run."""
    found: list[Any] = []
    for entry in code.co_positions():
        if not found or found[-1] != entry:
            found.append(entry)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_positions_and_signature_stay(name: str) -> None:
    for code in all_code(compiled(name)):
        new = rewrite(code)
        assert positions(new)[1:] == positions(code)[1:] or positions(new) == positions(code)
        assert (new.co_flags, new.co_varnames, new.co_freevars, new.co_cellvars, new.co_filename) == (
            code.co_flags, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_filename)


def test_textwrap() -> None:
    import textwrap

    text = "  A long line, with words - some hyphen-ated - that wrap at twenty columns.\n\n  And more.  " * 5
    new = rewritten("textwrap")
    for width in (10, 20, 33):
        assert new["wrap"](text, width) == textwrap.wrap(text, width)
    assert new["dedent"](text) == textwrap.dedent(text)


def test_heapq_and_difflib() -> None:
    import difflib

    heap = rewritten("heapq")
    assert list(heap["merge"]([1, 4, 6], [2, 3, 9], reverse=False)) == [1, 2, 3, 4, 6, 9]
    assert heap["nsmallest"](3, range(20, 0, -1), key=lambda v: v % 7) == sorted(
        range(20, 0, -1), key=lambda v: v % 7)[:3]
    a, b = ["one", "two", "three", "four"], ["zero", "one", "three", "five", "four"]
    new = rewritten("difflib")
    assert list(new["unified_diff"](a, b)) == list(difflib.unified_diff(a, b))
    assert list(new["ndiff"](a, b)) == list(difflib.ndiff(a, b))


def test_dataclasses_and_contextlib() -> None:
    new = rewritten("dataclasses")

    class Point:
        x: int
        y: int = 2

    cls = new["dataclass"](Point, order=True)
    assert cls(1) < cls(1, 3) and new["asdict"](cls(1)) == {"x": 1, "y": 2}
    scope = rewritten("contextlib")
    log: list[str] = []
    with scope["ExitStack"]() as stack:
        stack.callback(log.append, "done")
        with scope["suppress"](KeyError):
            raise KeyError
    assert log == ["done"]


def test_jumps_longer_than_a_byte() -> None:
    lines = "\n".join(f"        total = total + rate * {i} + box['k'] + box.get('k')" for i in range(300))
    source = f"def f(n):\n    total = 0\n    for i in range(n):\n        if i == 1:\n            continue\n{lines}\n" \
             "    else:\n        total += 1\n    return total\n"
    space: dict[str, Any] = {"rate": 2, "box": {"k": 3}}
    exec(source, space)
    new = types.FunctionType(rewrite(space["f"].__code__), space)
    assert new(3) == space["f"](3)


def test_two_hundred_names_and_constants() -> None:
    names = [f"name_{i}" for i in range(400)]
    space: dict[str, Any] = {name: i for i, name in enumerate(names)}
    exec("def f():\n    try:\n        return [" + ", ".join(f"({name}, {i}.5)" for i, name in enumerate(names))
         + "]\n    finally:\n        done.append(1)\n", space)
    space["done"] = []
    new = types.FunctionType(rewrite(space["f"].__code__), space)
    assert new() == space["f"]() and len(space["done"]) == 2


def test_this_python_is_known() -> None:
    assert assembler.IS_KNOWN, "see tracing/interception/assembler.py: what is new in the instructions of this Python?"


def test_one_instruction_does_one_thing() -> None:
    """Those that do two are two for the rules, which know no others."""
    def f(a: Any, b: Any) -> Any:
        c, d = a, b
        while c < d:
            c, d = d, c
        return (c, d) if a == b else None

    code, steps = f.__code__, assembler.parse(f.__code__)
    names = [opcode.opname[step.op] for _, step in steps]
    assert names.count("STORE_FAST") == 4 and not any(name.count("_FAST") > 1 for name in names)
    assert not any(step.op in assembler._COMPOUND and assembler._parts(step.op, step.arg) for _, step in steps)
    groups = [assembler.InstructionGroup(at, step.code, step if step.target >= 0 else None) for at, step in steps]
    groups = [group._replace(code=b"") if group.jump else group for group in groups]
    again = types.FunctionType(assembler.assemble(code, groups, code.co_consts, more_stack=0), {})
    assert again(1, 1) == f(1, 1) == (1, 1) and again(1, 2) is f(1, 2) is None


UNKNOWN = """
import collections, sys, warnings, _frozen_importlib_external
import numpy as np
_frozen_importlib_external.MAGIC_NUMBER = b"\\xff\\xff\\r\\n"
sys.version_info = collections.namedtuple("Version", "major minor micro")(3, 99, 0)
import jitfuse as jf
class State: count = 0
def f(x):
    State.count += 1
    return np.sin(x) + State.count
fused = jf.fuse(f)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert [float(fused(np.zeros(2))[0]) for _ in range(3)] == [1, 2, 3]
assert State.count == 3 and fused.stats()["fallbacks"] == 3 and not jf.FusedFunction.native
assert ["are not known" in str(w.message) for w in caught] == [True], caught
try:
    jf.fuse(f, strict=True)(np.zeros(2))
except jf.UntraceableError:
    assert float(jf.sum(jf.asarray(np.ones(3)) * 2)) == 6
    print("done")
"""


def test_functions_run_as_they_are_on_an_unknown_python() -> None:
    ran = subprocess.run([sys.executable, "-c", UNKNOWN], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
