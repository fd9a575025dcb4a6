"""Schedules by integer programming: orders of least peak memory, then of least memory over time.

Owns the integer program that HiGHS solves, and the improvement of long schedules piece by piece. Does not own the
scheduling problem or the other methods (`jitfuse.tracing.schedule.scheduler`).

The formulation has time slots of one op each (as in Elfeki et al., "MemTree"; Steiner et al., "OLLA", 2022):
y[i, t] says that op i has run by slot t, z[x, t] that tensor x is in memory in slot t. Slots that an op's ancestors or
descendants exclude have no variables. One thread, a fixed seed and bounds on nodes, never on time, give the same
schedule everywhere.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ArgumentError

if TYPE_CHECKING:
    from jitfuse.tracing.schedule.scheduler import SchedulingProblem

WHOLE: Final = 10
"""Ops up to which a schedule is one integer program; longer ones are improved in overlapping pieces."""
PIECE: Final = 8
ITERATIONS: Final = 3
MAX_NODES: Final = 50
"""Most branch-and-bound nodes of one integer program; the best solution found by then is used."""


def improved(problem: SchedulingProblem, order: Sequence[int]) -> list[int]:
    """Return an order of ids that is never worse than the given valid one, by (peak, bytes over time).

    Raises ArgumentError if highspy is not installed.
    """
    solver = _solver()
    best = list(order)
    load = problem.load_of(best)
    if len(best) <= WHOLE:
        found = _solve(solver, _piece(problem, best, 0, len(best)))
        return found if problem.load_of(found) < load else best
    for _ in range(ITERATIONS):
        before = load
        for begin in range(0, len(best) - PIECE // 2, PIECE // 2):
            end = min(begin + PIECE, len(best))
            candidate = [*best[:begin], *_solve(solver, _piece(problem, best, begin, end)), *best[end:]]
            reached = problem.load_of(candidate)
            if reached < load:
                best, load = candidate, reached
        if load == before:
            break
    return best


def _solver() -> Any:
    try:
        import highspy
    except ImportError:
        raise ArgumentError(
            "schedule='ilp' solves integer programs with HiGHS, which is not installed: pip install highspy"
        ) from None
    return highspy


_OPTIONS: Final = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_max_nodes": MAX_NODES, "mip_rel_gap": 0.0}


class _Tensor(NamedTuple):
    """A tensor in a piece of the schedule: its maker and readers in the piece, and whether it outlives the piece."""

    nbytes: int
    maker: int | None
    readers: tuple[int, ...]
    kept: bool


class _ScheduleRun(NamedTuple):
    """A piece of a schedule that is reordered: ids in order, the ops before each, tensors that it makes or frees."""

    ids: tuple[int, ...]
    before: tuple[frozenset[int], ...]
    tensors: tuple[_Tensor, ...]


def _piece(problem: SchedulingProblem, order: Sequence[int], begin: int, end: int) -> _ScheduleRun:
    """Return order[begin:end] as a problem of its own, given the tensors that live before and after it."""
    ids = tuple(order[begin:end])
    position = {op: k for k, op in enumerate(problem.ids)}
    local = {op: k for k, op in enumerate(ids)}
    later: set[int] = set(problem.kept)
    for op in order[end:]:
        later.update(problem.inputs[position[op]])
    readers: dict[int, list[int]] = {}
    maker: dict[int, int] = {}
    for op in ids:
        for t in set(problem.inputs[position[op]]):
            readers.setdefault(t, []).append(local[op])
        for t in problem.results[position[op]]:
            maker[t] = local[op]
    made_before = {t for op in order[:begin] for t in problem.results[position[op]]}
    tensors = [
        _Tensor(problem.nbytes[t], maker.get(t), tuple(sorted(readers.get(t, ()))), t in later)
        for t in sorted(maker.keys() | (readers.keys() & made_before))
        if problem.nbytes[t] and not (t in later and t not in maker)
    ]
    before = tuple(
        frozenset(maker[t] for t in problem.inputs[position[op]] if t in maker) for op in ids
    )
    return _ScheduleRun(ids, before, tuple(tensors))


def _windows(piece: _ScheduleRun) -> tuple[list[int], list[int]]:
    """Return the first and the last slot of each op, which leave room for its ancestors and descendants."""
    n = len(piece.ids)
    ancestors: list[set[int]] = []
    for k in range(n):
        ancestors.append({a for p in piece.before[k] for a in (*ancestors[p], p)})
    descendants = [0] * n
    for k in range(n):
        for a in ancestors[k]:
            descendants[a] += 1
    return [len(a) for a in ancestors], [n - 1 - d for d in descendants]


Column = int | bool
"""A column of a program, or False or True for a constant 0 or 1."""
Term = tuple[Column, float]


class _Program:
    """An integer program under construction: columns with bounds, rows of sparse inequalities."""

    def __init__(self, solver: Any) -> None:
        self.solver = solver
        self.upper: list[float] = []
        self.kinds: list[Any] = []
        self.starts: list[int] = [0]
        self.columns: list[int] = []
        self.factors: list[float] = []
        self.bounds: list[tuple[float, float]] = []

    def column(self, upper: float, *, integer: bool) -> int:
        """Add a column from 0 to `upper`."""
        self.upper.append(upper)
        kinds = self.solver.HighsVarType
        self.kinds.append(kinds.kInteger if integer else kinds.kContinuous)
        return len(self.upper) - 1

    def row(self, terms: Iterable[Term], lower: float, upper: float) -> None:
        """Add lower <= sum of factor * column <= upper."""
        gathered: dict[int, float] = {}
        for column, factor in terms:
            if isinstance(column, bool):
                lower, upper = lower - column * factor, upper - column * factor
            else:
                gathered[column] = gathered.get(column, 0.0) + factor
        if gathered:
            self.columns += gathered
            self.factors += gathered.values()
            self.starts.append(len(self.columns))
            self.bounds.append((lower, upper))

    def minimise(self, objective: Iterable[Term], start: Mapping[int, float]) -> list[float] | None:
        """Return the columns' values in the best solution found from a partial start, or None."""
        costs = [0.0] * len(self.upper)
        for column, factor in objective:
            if not isinstance(column, bool):
                costs[column] += factor
        highs = self.solver.Highs.__base__()  # not `Highs` itself: registering its callbacks prints a banner
        for option, value in _OPTIONS.items():
            highs.setOptionValue(option, value)
        highs.passModel(self._model(costs))
        highs.setSolution(len(start), list(start), list(start.values()))
        highs.run()
        if highs.getInfo().primal_solution_status != self.solver.kSolutionStatusFeasible:
            return None
        return [float(v) for v in highs.getSolution().col_value]

    def _model(self, costs: list[float]) -> Any:
        model = self.solver.HighsLp()
        model.num_col_, model.num_row_ = len(self.upper), len(self.bounds)
        model.col_cost_, model.col_lower_, model.col_upper_ = costs, [0.0] * len(costs), self.upper
        model.integrality_ = self.kinds
        model.row_lower_ = [lower for lower, _ in self.bounds]
        model.row_upper_ = [upper for _, upper in self.bounds]
        model.a_matrix_.format_ = self.solver.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = self.starts, self.columns, self.factors
        return model


class _Slots:
    """The columns of a piece: whether op i has run by slot t, whether a tensor is in memory in slot t."""

    def __init__(self, program: _Program, piece: _ScheduleRun) -> None:
        self.program = program
        self.piece = piece
        n = len(piece.ids)
        first, last = _windows(piece)
        self._done: list[list[Column]] = [
            [False if t < first[i] else True if t >= last[i] else program.column(1.0, integer=True) for t in range(n)]
            for i in range(n)
        ]
        for t in range(n):
            program.row([(self.done(i, t), 1.0) for i in range(n)], t + 1, t + 1)
            for i in range(n):
                self._at_most(self.done(i, t - 1), self.done(i, t))
                for p in piece.before[i]:
                    self._at_most(self.done(i, t), self.done(p, t - 1))

    def _at_most(self, a: Column, b: Column) -> None:
        self.program.row([(b, 1.0), (a, -1.0)], 0.0, self.program.solver.kHighsInf)

    def done(self, op: int, slot: int) -> Column:
        """Return the column, or the constant, that says whether an op has run by the end of a slot."""
        return self._done[op][slot] if slot >= 0 else False

    def live(self, slot: int) -> list[Term]:
        """Return the bytes in memory in a slot, in units of the largest tensor."""
        unit = float(max(x.nbytes for x in self.piece.tensors))
        return [(self._lives(x, slot), x.nbytes / unit) for x in self.piece.tensors]

    def _lives(self, x: _Tensor, slot: int) -> Column:
        made = True if x.maker is None else self.done(x.maker, slot)
        if x.kept or made is False:
            return made
        column = self.program.column(1.0, integer=False)
        for r in x.readers:
            terms: list[Term] = [(column, 1.0), (made, -1.0), (self.done(r, slot - 1), 1.0)]
            self.program.row(terms, 0.0, self.program.solver.kHighsInf)
        return column

    def as_given(self) -> dict[int, float]:
        """Return the columns' values for the given order of the piece."""
        return {
            c: float(t >= i) for i, row in enumerate(self._done) for t, c in enumerate(row) if not isinstance(c, bool)
        }

    def order(self, values: Sequence[float]) -> list[int]:
        """Return the ids in the order of the columns' values."""
        waits = [sum(not (c if isinstance(c, bool) else values[c] > 0.5) for c in row) for row in self._done]
        return [self.piece.ids[i] for i in sorted(range(len(waits)), key=waits.__getitem__)]


def _solve(solver: Any, piece: _ScheduleRun) -> list[int]:
    """Return the ids of a piece in the best order found, least peak first, then least memory over time."""
    if not piece.tensors:
        return list(piece.ids)
    program = _Program(solver)
    slots = _Slots(program, piece)
    peak = program.column(solver.kHighsInf, integer=False)
    over_time: list[Term] = []
    for t in range(len(piece.ids)):
        live = slots.live(t)
        over_time += live
        program.row([(peak, 1.0), *((c, -f) for c, f in live)], 0.0, solver.kHighsInf)
    start = slots.as_given()
    lowest = program.minimise([(peak, 1.0)], start)
    if lowest is None:
        return list(piece.ids)
    program.upper[peak] = lowest[peak] + 1e-6
    shortest = program.minimise(over_time, {c: round(lowest[c]) for c in start})
    return slots.order(lowest if shortest is None else shortest)
