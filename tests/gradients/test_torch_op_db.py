"""A sample of torch's own gradient tests; `python tests/gradients/op_db_gradients.py` runs them all."""
from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="expecttest is not installed, which torch's own tests import")
sys.path.insert(0, str(Path(__file__).parent))
import op_db_gradients  # noqa: E402

EVERY = 16
KINKS = frozenset({"linalg.norm", "masked.logaddexp"})
"""Where torch's second derivatives are NaN."""


@pytest.mark.full
@pytest.mark.parametrize("mode", op_db_gradients.MODES)
def test_derivatives_of_torchs_samples_are_torchs(mode: str) -> None:
    judged = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in op_db_gradients.cases(1, every=EVERY, first=op_db_gradients.MODES.index(mode)):
            verdict = op_db_gradients.judge(case, mode)
            judged += verdict.how == "right"
            assert verdict.how != "wrong" or case.name in KINKS, f"{case.name}: {verdict.why}"
    assert judged >= 20
