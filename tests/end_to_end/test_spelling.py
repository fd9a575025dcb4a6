"""The same program in other words is compiled to the same kernels, and traced as often: how names are imported, where a
helper stands, and the width of floats decide nothing."""
from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

PLAIN = '''
import numpy as np
{helper}
def elementwise(x, n):
    return np.sqrt(np.abs(x)) * n + np.maximum(x, 0)

def pairs(x, n):
    out = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            out[i, j] = np.sqrt(np.abs(x[i] - x[j]))
    return out

def relax(x, n):
    y = x.copy()
    while np.abs(y).max() > n:
        y = y * np.float32(0.5)
    return y

def search(x, n):
    for i in range(len(x)):
        if np.sqrt(np.abs(x[i])) > n:
            break
    return x * i

def helped(x, n):
    return scaled(np.sqrt(np.abs(x)), n).sum(axis=0)
'''
HELPER = """
def scaled(x, n):
    return np.sqrt(np.abs(x - n)) * 0.5
"""
NAMES = ["elementwise", "pairs", "relax", "search", "helped"]
PROGRAM = PLAIN.format(helper=HELPER)
SPELLINGS = {
    "another name of the module": PROGRAM.replace("import numpy as np", "import numpy as xp").replace("np.", "xp."),
    "the module's own name": PROGRAM.replace("import numpy as np", "import numpy").replace("np.", "numpy."),
    "functions imported by name": PROGRAM.replace(
        "import numpy as np", "import numpy as np\nfrom numpy import sqrt as s, abs as a").replace(
        "np.sqrt", "s").replace("np.abs", "a"),
    "an import in each function": PROGRAM.replace("import numpy as np\n", "").replace(
        ", n):\n", ", n):\n    import numpy as np\n"),
    "a helper in another module": PLAIN.format(helper="from the_helper import scaled"),
    "a helper as an attribute": PLAIN.format(helper="import the_helper").replace("scaled(", "the_helper.scaled("),
}


def _module(folder: Path, name: str, text: str) -> Any:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiled(function: Any, dtype: str) -> tuple[Any, ...]:
    """Return what a function is compiled to: the forms of its kernels, and its counts."""
    fused = jf.fuse(function)
    for shift in (0.0, 1.0, 5.0, 1.0):
        x = (np.arange(9.0) - 3 + shift).astype(dtype)
        np.testing.assert_allclose(fused(x.copy(), 1.5), function(x.copy(), 1.5), rtol=1e-6)
    counts = fused.stats()
    return [str(kernel.form) for kernel in fused.kernels], {k: counts[k] for k in ("traces", "fallbacks", "splits")}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_spelling_decides_nothing(spelling: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "the_helper.py").write_text(f"import numpy as np\n{HELPER}", encoding="utf-8")
    here = _module(tmp_path, "as_usual", PROGRAM)
    other = _module(tmp_path, "in_other_words", SPELLINGS[spelling])
    want = _compiled(getattr(here, name), "float64")
    assert want[0] and want[1]["fallbacks"] == 0
    assert _compiled(getattr(other, name), "float64") == want


@pytest.mark.parametrize("name", NAMES)
def test_the_width_of_floats_decides_nothing(name: str, tmp_path: Path) -> None:
    function = getattr(_module(tmp_path, "as_usual", PROGRAM), name)
    wide, narrow = _compiled(function, "float64"), _compiled(function, "float32")
    assert len(wide[0]) == len(narrow[0]) and wide[1] == narrow[1]
