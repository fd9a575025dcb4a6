"""The device that GPU tests run on: one with 64-bit numbers, or none."""
from __future__ import annotations

from typing import Any

import pytest

from jitfuse.errors import DeviceError


def device_or_skip() -> Any:
    """Return the device; skip the test where there is none, or it lacks what the tests are written for."""
    try:
        from jitfuse.backends.wgsl.runtime.device import FEATURES, default_device

        device = default_device()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")
    missing = [feature for feature in FEATURES if feature not in device.features]
    if missing:
        pytest.skip(f"no GPU with {' and '.join(missing)}: {device.name} ({device.info.backend}) is another")
    return device
