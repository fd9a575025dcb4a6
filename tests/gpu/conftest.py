"""Tests of arrays on the GPU; without one they are skipped, and say why."""
from __future__ import annotations

import pytest
from adapters import device_or_skip


@pytest.fixture(autouse=True, scope="session")
def device() -> None:
    device_or_skip()
