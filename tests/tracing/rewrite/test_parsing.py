"""Functions parsed without the rest of their module: the code that comes of it is theirs, wherever they stand."""
from __future__ import annotations

import ast
import linecache
import types
import warnings
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.tracing.rewrite import parsing


def indented(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))


BODY = "    y = np.zeros(x.shape[0])\n    for k in range(x.shape[0]):\n        y[k] = np.sin(x[k])\n    return y"
MODULES = {
    "plain": f"import numpy as np\n\ndef f(x):\n{BODY}\n",
    "first line": f"def f(x):\n{BODY}\nimport numpy as np\n",
    "future": f"'''Text.'''\nfrom __future__ import annotations\nimport numpy as np\ndef f(x: Unknown):\n{BODY}\n",
    "decorator in parentheses": f"import numpy as np\ndef same(f): return f\n@(\n    same\n)\ndef f(x):\n{BODY}\n",
    "decorator after a backslash": f"import numpy as np\ndef same(f): return f\n@\\\n    same\ndef f(x):\n{BODY}\n",
    "backslash at the end": f"import numpy as np\ndef f(x):\n{BODY} \\\n\n\nz = 1\n",
    "one line": "import numpy as np; z = 1; f = None\nif z: y = [\n1,\n]; w = 2\ndef f(x):\n" + BODY + "\nz = 2",
    "statements that share lines": f"import numpy as np\na = 1; b = [\n2,\n]; c = 3\ndef f(x):\n{BODY}\n",
    "class": f"import numpy as np\nclass A:\n    @staticmethod\n    def f(x):\n{indented(BODY)}\nf = A.f\n",
    "if": f"import numpy as np\nif True:\n    def f(x):\n{indented(BODY)}\n",
    "try": "try:\n    import numpy as np\nexcept ImportError:\n    np = None\n\ndef f(x):\n" + BODY,
    "nested": f"import numpy as np\ndef g():\n    def f(x):\n{indented(BODY)}\n    return f\nf = g()\n",
    "form feed": f"import numpy as np\nz = '\\x0c'\n\x0cdef f(x):\n{BODY}\n",
    "other line ends in texts": f"import numpy as np\nz = '\u2028\x1c'\ndef f(x):\n{BODY}\n",
    "escape": f"import numpy as np\nz = '\\d'\ndef f(x):\n    '\\d'\n{BODY}\n",
    "imported in a function": f"def g():\n    import os\n    return os\nimport numpy as np\ndef f(x):\n{BODY}\n",
}


def loaded(name: str, text: str, *, split: bool = False) -> types.FunctionType:
    """Return the function `f` of a module with this text, whose lines are in the cache of lines."""
    filename = f"<parsed {name} {split}>"
    lines = text.splitlines(keepends=True) if split else [line + "\n" for line in text.split("\n")]
    linecache.cache[filename] = (len(text), None, lines, filename)
    names: dict[str, Any] = {"__name__": "parsed", "Unknown": None}
    with warnings.catch_warnings(action="ignore"):
        exec(compile(text, filename, "exec", dont_inherit=True), names)
    return names["f"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_the_code_is_that_of_the_whole_module(name: str, split: bool) -> None:
    fn = loaded(name, MODULES[name], split=split)
    code = fn.__code__
    tree = parsing.parsed(code.co_filename, code.co_firstlineno)
    assert tree is not None
    found = parsing.function_at(tree, code.co_firstlineno)
    assert found is not None and found.name == "f"
    with warnings.catch_warnings(action="ignore"):
        todo = [compile(tree, code.co_filename, "exec", dont_inherit=True)]
    codes = []
    while todo:
        one = todo.pop()
        codes.append((one.co_qualname, one.co_firstlineno, one.co_code, one.co_linetable, one.co_names))
        todo += [c for c in one.co_consts if isinstance(c, types.CodeType)]
    assert (code.co_qualname, code.co_firstlineno, code.co_code, code.co_linetable, code.co_names) in codes


@pytest.mark.parametrize("name", MODULES)
def test_its_loops_are_vectorised(name: str) -> None:
    fn = loaded(name, MODULES[name])
    with warnings.catch_warnings(action="error"):
        fused, x = jf.fuse(fn), np.arange(40.0)
        np.testing.assert_allclose(fused(x), fn(x), rtol=1e-15)
    assert fused.stats()["fallbacks"] == 0


def test_sources_that_cannot_be_read_have_no_trees() -> None:
    fn = loaded("plain", MODULES["plain"])
    for text in ("def f(x:\n", "", "x = 1\n" * 3, "\0"):
        linecache.cache["<other>"] = (len(text), None, text.splitlines(keepends=True), "<other>")
        tree = parsing.parsed("<other>", 3)
        assert tree is None or parsing.function_at(tree, 3) is None
    assert parsing.parsed("<nowhere>", 1) is None
    assert isinstance(parsing.parsed(fn.__code__.co_filename, fn.__code__.co_firstlineno), ast.Module)


def test_effects_of_helpers_under_unusual_decorators_come_once() -> None:
    text = ("CALLS = []\ndef same(f): return f\n@(\n    same\n)\ndef helper(x):\n    d = {}\n"
            "    for k in range(2): d[k] = x * 2.0\n    CALLS.append(1)\n    return d[0] + d[1]\n"
            "def f(x): return helper(x) + 1\n")
    fn = loaded("helper", text)
    fused, calls = jf.fuse(fn), fn.__globals__["CALLS"]
    with warnings.catch_warnings(action="ignore"):
        for _ in range(4):
            before = len(calls)
            np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, 5.0))
            assert len(calls) == before + 1
