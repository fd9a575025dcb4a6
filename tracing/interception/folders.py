"""The folders of Python and of installed packages, found without loading sysconfig's build variables."""
from __future__ import annotations

import os
import site
import sys
from typing import Final


def _standard() -> tuple[str, ...]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    return os.path.dirname(os.__file__), *dict.fromkeys(os.path.join(p, sys.platlibdir, version) for p in prefixes)


STANDARD: Final = _standard()
"""Folders of the standard library."""
PACKAGES: Final = (*site.getsitepackages(), site.getusersitepackages())
"""Folders that packages are installed in."""
