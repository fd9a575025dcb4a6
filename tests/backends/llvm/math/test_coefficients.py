"""The committed coefficients are those that the committed script fits."""
from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path

from jitfuse.backends.llvm.math import coefficients

ROOT = Path(__file__).parents[4]


def test_script_writes_the_coefficients():
    spec = importlib.util.spec_from_file_location("fit_polynomials", ROOT / "benchmarks/fit_polynomials.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        script.main()
    assert written.getvalue() == Path(coefficients.__file__).read_text()
