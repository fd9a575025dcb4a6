"""Text files that people asked for: replaced as a whole, or not at all."""
from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file under another name beside it, and put it in place when it is complete; raises OSError."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
