"""Tests of arrays on the GPU; without one they are skipped, and say why."""
from __future__ import annotations

import pytest

from jitfuse.errors import DeviceError


@pytest.fixture(autouse=True, scope="session")
def device() -> None:
    try:
        from jitfuse.backends.wgsl.runtime.device import default_device

        default_device()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")
