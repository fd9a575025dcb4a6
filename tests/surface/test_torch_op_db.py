"""A sample of torch's own operator tests; `python tests/surface/op_db.py` runs them all."""
from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="expecttest is not installed, which torch's own tests import")
from surface import op_db  # noqa: E402

EVERY = 16
ROUNDED = frozenset({
    "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d", "nn.functional.soft_margin_loss"})
"""Functions in 16 bits that torch rounds between their steps, or sums in another order."""


@pytest.mark.full
@pytest.mark.parametrize("dtype", op_db.DTYPES)
def test_torchs_samples_give_what_torch_gives(dtype: str) -> None:
    kind, judged = getattr(torch, dtype), 0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in op_db.cases(kind, 1, every=EVERY, first=op_db.DTYPES.index(dtype)):
            found = op_db.judge(case, kind)
            if found is None or (dtype in ("float16", "bfloat16") and case.name in ROUNDED):
                continue
            judged += 1
            assert not found.difference, f"{case.name}: {found.difference}"
    assert judged >= 15
