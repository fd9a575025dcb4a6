"""Files for users: replaced as a whole, or not at all."""
from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a temporary file beside the target and rename it when it is complete on disk; raises OSError."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine could leave an empty file under the name
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
