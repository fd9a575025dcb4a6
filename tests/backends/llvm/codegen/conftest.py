"""Puts the helpers of these tests on the import path."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have LLVM verify every module: what it would refuse may abort the process otherwise."""
    monkeypatch.setenv("JITFUSE_DEBUG", "1")
