"""A plugin of pytest that runs NumPy's own tests of einsum with jitfuse's."""
from __future__ import annotations

import numpy as np

import jitfuse as jf


def pytest_collection_finish() -> None:
    np.einsum = jf.einsum
