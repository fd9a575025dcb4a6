"""The version of jitfuse: the only place where it is written, read by the packaging and by cache keys."""
from __future__ import annotations

__version__ = "0.1.0"
