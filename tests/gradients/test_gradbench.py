"""The problems of GradBench: derivatives as users write them, beside torch's autograd over the same source."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))
from gradbench_problems.table import PROBLEMS, Problem, difference, over_torch, to_torch

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch.func.jvp
KNOWN = {"particle": [0.2071918746486116], "saddle": [8.246324826140356e-06] * 4}
"""The answers of GradBench, whichever modes find them."""


@pytest.mark.parametrize("problem", PROBLEMS, ids=[p.name.replace(" ", "_") for p in PROBLEMS])
def test_derivatives_are_torchs(problem: Problem) -> None:
    arguments = problem.arguments(problem.tiny)
    tensors = to_torch(arguments)
    found = problem.fused(problem.module)(*arguments)
    known = KNOWN.get(problem.name.split()[0])
    expected = problem.eager()(*tensors) if known is None else np.array(known)
    assert difference(expected, found) < 1e-9
    assert difference(expected, problem.fused(over_torch(problem.module))(*tensors)) < 1e-9
