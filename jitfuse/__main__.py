"""``python -m jitfuse`` and the ``jitfuse`` script; the commands are in `jitfuse.cli`."""
from __future__ import annotations

import sys

from jitfuse.cli import main

if __name__ == "__main__":
    sys.exit(main())
