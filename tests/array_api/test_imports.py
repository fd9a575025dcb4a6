"""Each module of eager arrays and of the namespace can be imported before all others: there is no circle."""
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import jitfuse

PROGRAM = """
import os, sys, traceback
import numpy, jitfuse
for name in sys.argv[1:]:
    child = os.fork()  # in which nothing else is imported yet
    if not child:
        try:
            __import__(name)
            os._exit(0)
        except BaseException:
            print(name, file=sys.stderr)
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_each_module_imports_first() -> None:
    root = Path(jitfuse.__file__).parent
    names = [f"jitfuse.{folder}.{path.stem}" for folder in ("arrays", "array_api")
             for path in sorted((root / folder).glob("[!_]*.py"))]
    without = [] if importlib.util.find_spec("torch") else ["torch"]
    names = [name for name in names if not any(part in name for part in without)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=False)
    assert len(names) > 10 or without, names
    assert done.returncode == 0, done.stderr[-3000:]
