"""The pages of docs/reasons: one for each reason, with an example that leads to it, and one that does not."""
from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import device_or_skip

from jitfuse import reasons
from jitfuse.budget import DEFAULT
from jitfuse.graph_breaks.limits import Limits

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reasons"
CODES = {r.code: r for r in vars(reasons).values() if isinstance(r, reasons.Reason) and r.code}
WITHOUT_EXAMPLE = {
    "JF204": "state that nobody sees: below",
    "JF301": "a fault of ours: tests/compile/run/test_interpreting.py",
    "JF303": "a fault of ours: tests/compile/run/test_direct.py",
}


def _blocks(code: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (FOLDER / f"{code}.md").read_text(encoding="utf-8"), re.DOTALL)


def _run(block: str, name: str) -> tuple[Any, str]:
    """Return an example's result, and all that it says of its function `f`."""
    namespace: dict[str, Any] = {"__name__": name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(block, f"{name}.py", "exec"), namespace)
    return namespace["result"], "\n".join([*(str(w.message) for w in caught), namespace["f"].why()])


def test_every_reason_has_a_page_and_a_line_in_the_index() -> None:
    assert {path.stem for path in FOLDER.glob("JF*.md")} == set(CODES)
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    for code, reason in CODES.items():
        assert (FOLDER / f"{code}.md").read_text(encoding="utf-8").startswith(f"# {code}: {reason.title}\n")
        assert f"| [{code}]({code}.md) | {reason.title} |" in index
    assert {code for code in CODES if not _blocks(code)} == set(WITHOUT_EXAMPLE)


@pytest.mark.parametrize("code", sorted(set(CODES) - set(WITHOUT_EXAMPLE)))
def test_the_example_leads_to_the_reason_and_the_way_out_does_not(code: str) -> None:
    example, *way_out = _blocks(code)
    if "import torch" in example:
        pytest.importorskip("torch")
    if "import scipy" in example:
        pytest.importorskip("scipy")
    if 'device="gpu"' in example:
        device_or_skip()
    result, said = _run(example, code)
    assert f"[{code}]" in said
    for block in way_out:
        other, said = _run(block, code)
        assert f"[{code}]" not in said
        if isinstance(result, str):
            assert other == result
        else:
            np.testing.assert_allclose(np.asarray(other), np.asarray(result), rtol=1e-9)


def test_decisions_by_what_nobody_sees_have_a_reason() -> None:
    limits = Limits(DEFAULT)
    for _ in range(5):
        limits.note_change()
    assert limits.reason is not None and str(limits.reason).endswith("[JF204]")
