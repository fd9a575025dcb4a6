"""UAI's files of answers: each task in both dialects, the last of several tries, round trips, and each error."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.errors import ModelError
from jitfuse.factors.formats import uai_results
from jitfuse.factors.formats.uai_results import Result

SIZES = [2, 1, 3]
MARGINALS = "3 2 0.25 0.75 1 1 3 0.5 0.5 0"


def plain(result: Result) -> Any:
    """Return the solutions with lists for arrays."""
    if result.task != "MAR":
        return result.solutions
    return tuple([row.tolist() for row in solution] for solution in result.solutions)


ROWS = [[0.25, 0.75], [1.0], [0.5, 0.5, 0.0]]
FILES: list[tuple[str, str, Any]] = [
    ("PR\n-0.2008\n", "PR", (-0.2008,)), ("PR 0", "PR", (0.0,)), ("PR\n-inf", "PR", (-np.inf,)),
    ("PR\n1\n-0.5", "PR", (-0.5,)), ("PR\n2\n-0.5\n-1", "PR", (-0.5, -1.0)),
    ("PR\n7 8\n-BEGIN-\n-0.5", "PR", (-0.5,)), ("pr 3", "PR", (3.0,)),
    ("MAP\n3 1 0 2", "MAP", ((1, 0, 2),)), ("MPE\n3 1 0 2", "MPE", ((1, 0, 2),)),
    ("MPE\n1\n3 1 0 2", "MPE", ((1, 0, 2),)), ("MPE\n2\n3 1 0 2\n3 0 0 0", "MPE", ((1, 0, 2), (0, 0, 0))),
    ("MPE\n-BEGIN-\n3 0 0 0\n-BEGIN-\n3 1 0 2", "MPE", ((1, 0, 2),)),
    (f"MAR\n{MARGINALS}", "MAR", (ROWS,)), (f"MAR\n1\n{MARGINALS}", "MAR", (ROWS,)),
    (f"MAR\n2\n{MARGINALS}\n{MARGINALS}", "MAR", (ROWS, ROWS)),
]


@pytest.mark.parametrize(("content", "task", "solutions"), FILES)
def test_by_hand(tmp_path: Path, content: str, task: str, solutions: Any) -> None:
    (tmp_path / "r").write_text(content)
    result = uai_results.read_result(tmp_path / "r", SIZES)
    assert result.task == task and plain(result) == solutions
    for counted in (False, True)[len(solutions) > 1:]:
        for name in ("again", "again.gz"):
            uai_results.write_result(tmp_path / name, result, counted=counted)
            again = uai_results.read_result(tmp_path / name, SIZES)
            assert again.task == task and plain(again) == solutions


@pytest.mark.parametrize(("content", "message"), [
    ("", "1: expected a text, found an empty file"),
    ("MMAP\n1 2 0", "1: expected PR or MAR or MAP or MPE, found 'MMAP'"),
    ("PR", "1: expected the log10 of the partition function (1 in all), or a number of solutions before them"),
    ("PR\nnan", "2: expected the log10 of the partition function, a number or -inf, found nan"),
    ("PR\ninf", "2: expected the log10 of the partition function, a number or -inf, found inf"),
    ("PR\n1 2 3", "2: expected the log10 of the partition function (1 in all), or a number of solutions"),
    ("MAP\n3 1 0", "2: expected the number of variables, then the state of each (4 in all), or a number"),
    ("MAP\n3 1 0 3", "2: expected the state of variable 2, a whole number from 0 to 2, found 3"),
    ("MAP\n4 1 0 2", "2: expected 3, the number of variables, a whole number from 3 to 3, found 4"),
    ("MAP\n3 1 0 0.5", "2: expected the state of variable 2, a whole number from 0 to 2, found 0.5"),
    (f"MAR\n{MARGINALS.replace('3 2', '3 3')}", "2: expected 2, the number of states of variable 0, a whole number"),
    (f"MAR\n{MARGINALS.replace('0.25', '-0.25')}", "2: expected a probability of variable 0, a finite number from 0"),
    (f"MAR\n{MARGINALS} 1", "2: expected the number of variables, then each one's states and prob"),
])
def test_errors(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "m.uai.PR"
    path.write_text(content)
    with pytest.raises(ModelError) as caught:
        uai_results.read_result(path, SIZES)
    assert str(caught.value).startswith(f"{path}:{message}")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a task of PR, MAR, MAP, MPE, found 'MMAP'"):
        uai_results.write_result(tmp_path / "r", Result("MMAP", ((),)))
    with pytest.raises(ModelError, match="one solution where they are not counted, found 2"):
        uai_results.write_result(tmp_path / "r", Result("PR", (1.0, 2.0)))
