"""What these tests share: their helpers on the import path, and the runtime."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitfuse.backends.llvm.runtime import native

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def runtime() -> Iterator[Any]:
    """Return the runtime; it has as many threads as before when the test is over."""
    found = native.runtime()
    before = found.threads
    yield found
    found.set_threads(before)
