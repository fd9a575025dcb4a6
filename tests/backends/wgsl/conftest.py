"""A device for the tests; without one they are skipped, and say why."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from adapters import device_or_skip


@pytest.fixture(scope="session")
def device() -> Any:
    return device_or_skip()


@pytest.fixture(scope="session")
def plain_device(device: Any) -> Iterator[Any]:
    """The same adapter without 64-bit types."""
    from jitfuse.backends.wgsl.runtime.device import Device

    yield Device(features=())
