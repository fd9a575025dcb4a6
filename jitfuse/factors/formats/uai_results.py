"""Files of answers in the format of the UAI inference competitions: partition functions, marginals, assignments.

The first word is the task: PR (log10 of the partition function), MAR (the number of variables, then for each its number
of states and its probabilities), MAP or MPE (the number of variables, then the state of each). Since 2011 one solution
follows; in 2008 and 2010 their number came first, one for each sample of evidence. Of several tries, each after
-BEGIN-, the last one counts.
"""
from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import Record
from jitfuse.errors import ModelError
from jitfuse.factors.formats.text import Numbers, read_text, write_text
from jitfuse.factors.formats.uai import header

_TASKS: Final = ("PR", "MAR", "MAP", "MPE")
_BEGIN: Final = "-BEGIN-"


class Result(Record, frozen=True, eq=False):
    """The answers to one task, one for each sample of evidence.

    task       "PR", "MAR", "MAP" or "MPE"
    solutions  PR: float, the log10 of the partition function; MAR: a tuple of float64 arrays, the probabilities of each
               variable's states; MAP and MPE: a tuple of the states of all variables
    """

    task: str
    solutions: tuple[Any, ...]


def read_result(path: str | os.PathLike[str], sizes: Sequence[int]) -> Result:
    """Read a file of answers, gzipped or not, for variables of these sizes; ModelError with file and line.

    Example:
        >>> read_result("asia.uai.MAP", [2, 2, 3])
        Result(task='MAP', solutions=((0, 1, 2),))
    """
    text = read_text(path)
    task, start = header(text, _TASKS)
    tried = text.content.rfind(_BEGIN)
    numbers = Numbers(text, start if tried < 0 else tried + len(_BEGIN))
    length, expected = {
        "PR": (1, "the log10 of the partition function"),
        "MAR": (1 + len(sizes) + sum(sizes), "the number of variables, then each one's states and probabilities"),
    }.get(task, (1 + len(sizes), "the number of variables, then the state of each"))
    total, count = len(numbers.values), 1
    if total != length:
        wanted = f"{expected} ({length} in all), or a number of solutions before them"
        count = numbers.whole(wanted)
        if total != 1 + count * length:
            raise numbers.error(total, wanted, f"{total} numbers")
    return Result(task, tuple(_solution(numbers, task, sizes) for _ in range(count)))


def _solution(numbers: Numbers, task: str, sizes: Sequence[int]) -> Any:
    if task == "PR":
        value = float(numbers.take(1, "")[0])
        if math.isnan(value) or value == math.inf:
            raise numbers.error(numbers.position - 1, "the log10 of the partition function, a number or -inf")
        return value
    numbers.whole(f"{len(sizes)}, the number of variables", len(sizes), len(sizes) + 1)
    if task == "MAR":
        return tuple(_probabilities(numbers, variable, size) for variable, size in enumerate(sizes))
    return tuple(numbers.whole(f"the state of variable {variable}", 0, size) for variable, size in enumerate(sizes))


def _probabilities(numbers: Numbers, variable: int, size: int) -> np.ndarray:
    numbers.whole(f"{size}, the number of states of variable {variable}", size, size + 1)
    found = numbers.take(size, f"the probabilities of variable {variable}")
    good = (found >= 0) & (found < math.inf)
    if not good.all():
        wrong = numbers.position - size + int(np.argmin(good))
        raise numbers.error(wrong, f"a probability of variable {variable}, a finite number from 0 up")
    return found


def write_result(path: str | os.PathLike[str], result: Result, *, counted: bool = False) -> None:
    """Write a file of answers: one solution; or, `counted`, the number of solutions and then each, as in 2008 and 2010.

    Example:
        >>> write_result("asia.uai.PR", Result("PR", (-1.5,)))
    """
    name = os.fspath(path)
    if result.task not in _TASKS:
        raise ModelError(f"{name}: expected a task of {', '.join(_TASKS)}, found {result.task!r}")
    if len(result.solutions) != 1 and not counted:
        raise ModelError(f"{name}: expected one solution where they are not counted, found {len(result.solutions)}")
    count = [str(len(result.solutions))] if counted else []
    write_text(path, "\n".join([result.task, *count, *(_words(result.task, one) for one in result.solutions)]) + "\n")


def _words(task: str, solution: Any) -> str:
    if task == "PR":
        return repr(float(solution))
    if task == "MAR":
        rows = [[str(len(row)), *map(repr, np.asarray(row, np.float64).tolist())] for row in solution]
        return " ".join([str(len(solution)), *(word for row in rows for word in row)])
    return " ".join(map(str, [len(solution), *map(int, solution)]))
