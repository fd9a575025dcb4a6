"""The integer program: valid orders, never worse than the others, best where all orders can be tried."""
from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest

from jitfuse.errors import ArgumentError
from jitfuse.tracing.schedule.scheduler import ILPScheduler, Load, SchedulingProblem

pytest.importorskip("highspy", reason="schedule='ilp' needs highspy (extra `ilp`)")


def random_problem(count: int, seed: int) -> SchedulingProblem:
    rng = random.Random(seed)
    inputs = [tuple(sorted(rng.sample(range(k), rng.randint(0, min(3, k))))) for k in range(count)]
    used = {i for read in inputs for i in read}
    nbytes = {k: rng.choice([0, 1 << 12, 1 << 20, 1 << 20, 1 << 22]) for k in range(count)}
    ids = tuple(7 * k for k in range(count))
    return SchedulingProblem(
        ids, tuple(inputs), tuple((k,) for k in range(count)), nbytes, frozenset(range(count)) - used
    )


def order_of(problem: SchedulingProblem, method: str) -> list[int]:
    levels = ILPScheduler(method).levels(problem)
    return [op for _, op in sorted((levels[op], op) for op in problem.ids)]


def valid(problem: SchedulingProblem, order: list[int]) -> bool:
    place = {op: k for k, op in enumerate(order)}
    pairs = zip(problem.ids, problem.positions().before(), strict=True)
    return sorted(order) == list(problem.ids) and all(
        place[problem.ids[p]] < place[op] for op, before in pairs for p in before
    )


def best_load(problem: SchedulingProblem) -> Load:
    orders = (list(o) for o in itertools.permutations(problem.ids))
    return min(problem.load_of(order) for order in orders if valid(problem, order))


@pytest.mark.parametrize("seed", range(4))
def test_small_problems_are_solved(seed: int) -> None:
    problem = random_problem(7, seed)
    assert problem.load_of(order_of(problem, "ilp")) == best_load(problem)


@pytest.mark.parametrize(("count", "seed"), [(10, 1), (20, 2), (36, 3)])
def test_never_worse_than_the_other_methods(count: int, seed: int) -> None:
    problem = random_problem(count, seed)
    found = order_of(problem, "ilp")
    assert valid(problem, found)
    assert problem.load_of(found) <= min(problem.load_of(order_of(problem, m)) for m in ("asap", "slack"))
    assert found == order_of(problem, "ilp")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_nothing_to_choose(count: int) -> None:
    problem = random_problem(count, 1)
    assert sorted(order_of(problem, "ilp")) == list(problem.ids)


def test_without_weights_the_order_stands() -> None:
    weights = dict.fromkeys(range(3), 0)
    problem = SchedulingProblem((0, 1, 2), ((), (0,), (0, 1)), ((0,), (1,), (2,)), weights, frozenset({2}))
    assert order_of(problem, "ilp") == [0, 1, 2]


def test_a_missing_solver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ArgumentError, match="pip install highspy"):
        ILPScheduler("ilp").levels(random_problem(5, 1))


SILENT = """
import random
import highspy
from jitfuse.tracing.schedule import integer_schedule
from jitfuse.tracing.schedule.scheduler import ILPScheduler, SchedulingProblem

draw = random.Random(0)
for count in (0, 1, 2, 9, 11, 40):  # one program, pieces, and more nodes than are allowed
    ids = tuple(range(count))
    inputs = tuple(tuple(draw.sample(range(k), min(k, draw.randint(0, 3)))) for k in ids)
    weights = {k: draw.choice([0, 4096, 1 << 20, 1 << 28]) for k in ids}
    problem = SchedulingProblem(ids, inputs, tuple((k,) for k in ids), weights, frozenset(ids[-1:]))
    ILPScheduler("ilp").levels(problem)
program = integer_schedule._Program(highspy)
column = program.column(1.0, integer=True)
program.row([(column, 1.0)], 2.0, 3.0)
assert program.minimise([(column, 1.0)], {}) is None  # infeasible
"""


@pytest.mark.full
def test_nothing_is_printed() -> None:
    """Neither by Python nor by the solver, whose own buffers are written out when the process ends."""
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
