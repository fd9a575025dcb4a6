"""A process that finds its kernels on the disk starts no compiler, and imports none of what one needs."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from amount import PATIENCE

from jitfuse.backends.llvm.loader import OWN_LOADER
from jitfuse.cache.sources import list_sources, package_root
from jitfuse.ir.operators.families import FAMILIES

FIRST_CALL = """
import json, sys
import numpy as np
import jitfuse as jf
f = jf.fuse(lambda x, b: (np.sin(x) * x + b, np.sum(x, axis=0)))
rows, columns = map(int, sys.argv[1:])
x = np.linspace(-3e9, 3e9, rows * columns).reshape(rows, columns)
got, total = f(x, 2.5)
np.testing.assert_allclose(got, np.sin(x) * x + 2.5, rtol=1e-12, atol=1e-3)
np.testing.assert_allclose(total, np.sum(x, axis=0), atol=1e-3)
print(json.dumps({"stats": f.stats(), "modules": sorted(sys.modules)}))
"""
GENERATORS = (
    "llvmlite", "jitfuse.backends.llvm.codegen.kernel", "jitfuse.backends.llvm.jit", "jitfuse.backends.llvm.math",
    "jitfuse.backends.llvm.runtime.atomics", "jitfuse.backends.llvm.runtime.fastcall",
    "jitfuse.backends.llvm.runtime.memory", "jitfuse.backends.llvm.runtime.pool", "jitfuse.backends.wgsl",
)
NOT_NEEDED = (
    *GENERATORS, "rich", "platformdirs", "cloudpickle", "bytecode", "mmap", "jitfuse.passes", "jitfuse.plans",
    "jitfuse.ir.kernels.form", "jitfuse.compile.planning", "jitfuse.backends.llvm.text.builder",
    *(f"jitfuse.ir.operators.{file}" for file in FAMILIES if file not in ("elementwise", "reductions")),
)


def loaded(found: dict[str, Any], packages: tuple[str, ...]) -> list[str]:
    """Return those modules of a process that are, or lie in, one of the packages."""
    return [name for name in found["modules"] if any(f"{name}.".startswith(f"{package}.") for package in packages)]


def first_call(folder: Path, rows: int = 3, columns: int = 333, **environment: str) -> dict[str, Any]:
    """Run the program in a new process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_CALL, str(rows), str(columns)], capture_output=True, text=True,
        timeout=PATIENCE, check=False,
        env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.mark.skipif(not OWN_LOADER, reason="this system loads through LLVM")
def test_a_warm_process_imports_no_compiler(tmp_path: Path) -> None:
    cold = first_call(tmp_path)
    assert cold["stats"]["compiles"] >= 1 and "llvmlite" in cold["modules"]
    warm = first_call(tmp_path)
    assert warm["stats"]["compiles"] == 0 and warm["stats"]["cache_misses"] == 0
    assert warm["stats"]["cache_hits"] >= 1
    assert loaded(warm, NOT_NEEDED) == []
    other_shape = first_call(tmp_path, 70, 41)  # planned anew, for kernels that are there
    assert other_shape["stats"]["compiles"] == 0 and loaded(other_shape, GENERATORS) == []


def test_the_sources_that_decide_on_code_are_in_keys() -> None:
    names = {source[0] for source in list_sources(package_root())}
    assert {
        "backends/llvm/jit.py", "backends/llvm/text/builder.py", "backends/llvm/codegen/kernel.py",
        "backends/llvm/runtime/native.py", "ir/kernels/form.py",
    } <= names
