"""The user's lines of what is recorded: those that Python says, however many are asked for."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.tracing.tracer import trace


@pytest.mark.parametrize("count", [1, 7, 8, 9, 80])
def test_each_step_has_its_line(count: int, tmp_path: Path) -> None:
    lines = ["def function(x):"]
    for k in range(count):
        lines += ["", f"    x = np.maximum(x * {k + 2.5},", "        x", "    )"]
    lines += ["    for k in range(3):", "        x = x + k", "", "    return (", "        x -", "        1", "    )"]
    file = tmp_path / "lines.py"
    file.write_text("\n".join(lines))
    names: dict[str, Any] = {"np": np}
    exec(compile(file.read_text(), str(file), "exec"), names)
    program = trace(names["function"], (np.ones(3),), {}).program
    sources = [program.sources[s.step_id] for s in program.steps if s.op_name in ("multiply", "maximum")]
    want = [4 * k + 3 for k in range(count) for _ in range(2)]
    assert sorted(sources) == sorted(f"{file}:{line}" for line in want)
    after = {program.sources[s.step_id] for s in program.steps if s.op_name in ("add", "subtract")}
    assert after == {f"{file}:{4 * count + 3}", f"{file}:{4 * count + 6}"}
