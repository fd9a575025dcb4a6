"""A device for the tests; without one they are skipped, and say why."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jitfuse.errors import DeviceError


@pytest.fixture(scope="session")
def device() -> Any:
    try:
        from jitfuse.backends.wgsl.runtime.device import default_device

        return default_device()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")


@pytest.fixture(scope="session")
def plain_device(device: Any) -> Iterator[Any]:
    """The same adapter without 64-bit types."""
    from jitfuse.backends.wgsl.runtime.device import Device

    yield Device(features=())
