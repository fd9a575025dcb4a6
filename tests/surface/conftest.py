"""Shares the tracing tests' replay of a program in plain NumPy."""
from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "tracing_conftest", Path(__file__).parents[1] / "tracing" / "conftest.py")
assert _SPEC is not None and _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)


@pytest.fixture(scope="session", name="replay")
def _replay() -> Callable[..., Any]:
    return _MODULE.replay  # type: ignore[no-any-return]
