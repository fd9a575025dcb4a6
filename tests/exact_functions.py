"""The tool that measures accuracy (`benchmarks/accuracy.py`) for tests: exact functions and where they are defined."""
from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

_FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "accuracy.py"


@cache
def accuracy_tool() -> ModuleType:
    """Return the module; it needs mpmath."""
    spec = importlib.util.spec_from_file_location("accuracy", _FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["accuracy"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
