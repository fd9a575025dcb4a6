"""Every setting of torch's optim_db that jitfuse has, to 1e-9 in float64."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
import optim_db  # noqa: E402

SETTINGS = list(optim_db.settings())


@pytest.mark.parametrize(("name", "options"), [pytest.param(n, o, id=f"{n}-{d}") for n, d, o in SETTINGS])
def test_twenty_steps_are_those_of_torch(name: str, options: dict[str, Any]) -> None:
    assert optim_db.largest_difference(name, options, ((5, 3), (7,))) < 1e-9


def test_thirteen_of_fifteen_are_judged() -> None:
    assert len({name for name, _, _ in SETTINGS}) == 13
    assert len({name for name, _, _ in SETTINGS} | optim_db.LEFT_OUT.keys()) == 15
