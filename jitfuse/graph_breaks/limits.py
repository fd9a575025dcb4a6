"""What one function has used of its budget: graph breaks, tracing and compiling, before calls fall back.

Owns what is counted, and the reason given when a limit is reached. Does not own the budget (`jitfuse.budget`) or the
fallback itself (`jitfuse.graph_breaks.call_path`).
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitfuse import reasons
from jitfuse.base.later import Later
from jitfuse.dtypes import COMPONENT
from jitfuse.reasons import Reason, Why
from jitfuse.tracing.record.fallback_reason import why_plain
from jitfuse.tracing.record.known_values import way_out

if TYPE_CHECKING:
    from jitfuse.budget import Budget
    from jitfuse.ir.program import FusedProgram
    from jitfuse.tracing.record.value_reads import Answer, Question, Site

effort = Later("jitfuse.ir.analysis.effort")
loop_ranges = Later("jitfuse.tracing.control.loop_ranges")
signals = Later("jitfuse.graph_breaks.signals")

EXTENTS: Final = 8
"""Extents of arrays with data-dependent shapes that a source line may have, for each value that it may read."""
STATES: Final = 40
"""Graph breaks in a tree, for each subgraph of the budget; past that the function starts over."""
STEP: Final = 10
"""Operators that are traced in the time in which one step is planned and compiled. A loop counts as one step, a complex
step as several."""
EFFORT: Final = 15, 4000, 300
"""Estimated µs: to record an operator in one run, to add a graph break, to plan and compile a step of a subgraph.
A call past the budget seldom pays off: most of its cost is ever new graph breaks."""
MAX_REFUSALS: Final = 3
"""Failed traces in a row, after which the function runs as plain Python without another try."""
RETRACE: Final = 1500, 20, 130, 1500, 25, 5000
"""Estimated µs to trace and plan a signature, and for each recorded operator, step, launch, guard and new kernel."""
RAISED: Final = 400
"""Estimated µs to trace a call up to an error that the function raises."""
EARNED: Final = 25
"""Estimated µs that a native launch saves."""
RETRIED: Final = 1000
"""Plain calls after which one more is traced: what is new may have become usual, and what failed may work, as under
torch.no_grad(). Each further one takes twice as many, so that tracing becomes no part of the time of a call."""
MAX_LOST: Final = 8
"""Calls in a row that left the known paths, after which a function that fell back stops trying them."""
MAX_CHANGES: Final = 3
"""How often the same path may lead to a different read before the function runs as plain Python."""
MAX_BRANCHINGS: Final = 8
"""How often a function may be traced again to if-convert its branches, or to stop doing so. After that Python takes
every branch itself."""


class Limits:
    """What one function has used of its budget. Methods record events; some raise GiveUpSignal, as they say."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.reason: Why | None = None
        """Why every call that fits no signature runs as plain Python; None while none does."""
        self.refusals = 0
        """Calls in a row that could not be traced and ran as plain Python."""
        self.states = 0
        """Graph breaks in the tree."""
        self._decided: set[Site] = set()
        """Branches that Python takes itself because they cannot be if-converted."""
        self._branchings = 0
        self._changes = 0
        self._spent = 0
        """Estimated microseconds that earlier runs of the function took in this call."""
        self._values: dict[tuple[str, str], set[Hashable]] = {}
        self._numbers: dict[str, set[str]] = {}
        """By name of a number: the values that Python has read, up to those of the budget."""
        self._run_through: dict[str, int] = {}
        """By source line: how often a loop had to be traced through its iterations to find another end."""
        self._news = self._retraced = self._plain = self._retries = 0
        self._beyond: Why | None = None
        """The reason for calls beyond the budget of signatures and paths, once there has been one."""
        self._passing: Why | None = None
        """The reason that a later call may find gone: what was new has become usual, or what failed works."""
        self._kernels: set[Hashable] = set()
        """The kernels that signatures launch."""
        self._moves = 0
        self._lost: int | None = None
        """Calls in a row that left the known paths; None unless known paths are still followed after a fallback."""

    # ------------------------------------------------------------------ room
    @property
    def tree_is_full(self) -> bool:
        """Whether the tree has to start over."""
        return self.states > STATES * self.budget.subgraphs

    def are_full(self, subgraphs: int) -> bool:
        """Return whether this number of subgraphs leaves no room for another."""
        return subgraphs >= self.budget.subgraphs

    def __str__(self) -> str:
        """Return what is used of the budget, as reports show it."""
        budget = self.budget
        return (f"{self._retraced / 1e6:.2f} of {budget.seconds:g} s for {self._news:,} signatures and paths; "
                f"a call: {budget.operators:,} operators, {budget.branches:,} reads, {budget.values:,} values a line")

    # ------------------------------------------------------------------ calls
    def note_refusal(self, error: Exception) -> None:
        """Record a call that could not be traced and ran as plain Python; `MAX_REFUSALS` of them are a fallback."""
        self.refusals += 1
        if self.refusals >= MAX_REFUSALS:
            self._settle(why_plain(error))

    def note_change(self) -> None:
        """Record a call that read something else than an earlier call at the same point of the same path."""
        self._changes += 1
        if self._changes > MAX_CHANGES + sum(map(self.varies, self._numbers)):  # what has become data is read anew
            self.reason = Why(
                reasons.MOVING_DECISIONS, "Python takes other decisions in the same situation from call to call")

    @property
    def keeps_paths(self) -> bool:
        """Whether calls still follow known paths although the function has fallen back."""
        return self._lost is not None and self._lost < MAX_LOST

    def note_known(self) -> None:
        """Record a call that a known path has answered."""
        self._lost = None if self._lost is None else 0

    def note_lost(self) -> None:
        """Record a call that has left the known paths."""
        self._lost = None if self._lost is None else self._lost + 1

    def note_moving_state(self) -> None:
        """Record a trace that leaves Python state with other dict keys, lengths, shapes or strings than it read.

        State that grows from call to call needs a new trace each time. Signatures that are known stay native.
        """
        self._moves += 1
        if self._moves > self.budget.values:
            self.reason = Why(reasons.MOVING_STATE, (
                "the function leaves its caller's state with other keys, lengths, shapes or texts in call after call, "
                "each of which is traced. Return what is new instead, and store it there."))

    def note_signature(self, operators: int, steps: int, launched: int, why: Sequence[str]) -> None:
        """Record a new signature; `launched` counts the kernels that known ones have launched, `why` says what is new.

        Signatures are not traced for ever for arguments that are new in each call. Known ones still answer natively.
        """
        if self._exceeds(RETRACE[1] * operators + RETRACE[2] * steps, launched):
            last = f", last {why[0]:.120}" if why else ""
            self._exceed(reasons.NEW_SIGNATURES,
                         f"arguments are new again and again{last}; each of {self._news:,} was traced. What changes "
                         "should be numbers to compute with, or elements of arrays of few shapes.")

    def note_plan(self, launches: int, guards: int, kernels: Iterable[Hashable]) -> None:
        """Record the plan of a new signature: its kernels and library calls, its conditions, and its kernels.

        Kernels count that are new in the function, stored on disk or not, so that runs repeat.
        """
        new = set(kernels) - self._kernels
        self._kernels |= new
        if self._news > 1:
            self._retraced += RETRACE[3] * launches + RETRACE[4] * guards + RETRACE[5] * len(new)

    def note_path(self, effort: tuple[int, int, int], launched: int) -> None:
        """Record a run that has added a path to the tree, and its effort, in the same way. Known paths stay."""
        if self._exceeds(_effort(*effort), launched):
            self._lost = 0
            self._exceed(reasons.NEW_PATHS,
                         "calls take another path, or have other shapes, again and again, and each of "
                         f"{self._news:,} was traced. Work on whole arrays (np.where, masks) of few shapes, or use "
                         "jf.cond and jf.while_loop.")

    def note_raised(self) -> None:
        """Record a call that the function ended by an error of its own, which is traced each time, and has no path."""
        self._retraced += RAISED
        if self.reason is None and self._retraced > 1e6 * self.budget.seconds:
            self._exceed(reasons.RAISED, "calls raise errors again and again, and each of them is traced up to there. "
                         "Check what they raise for outside the function.")

    def _exceeds(self, effort: int, launched: int) -> bool:
        """Count one more that was traced; return whether that exceeds the budget."""
        self._news += 1
        self._retraced += RETRACE[0] + effort if self._news > 1 else 0
        return self.reason is None and self._retraced > 1e6 * self.budget.seconds + EARNED * launched

    def _exceed(self, reason: Reason, text: str) -> None:
        self._beyond = self._beyond or Why(reason, text)  # one warning
        self._settle(self._beyond)

    def _settle(self, why: Why) -> None:
        self.reason = self._passing = why

    def note_plain(self) -> None:
        """Record a call of a settled function; after many calls beyond the budget, the next one may be traced."""
        self._plain += 1
        if self._plain >= RETRIED << self._retries and self.reason is self._passing:
            self._plain, self._retries, self.reason = 0, self._retries + 1, None

    # ------------------------------------------------------------------ numbers that Python reads
    def note_number(self, name: str, value: Any) -> None:
        """Record a value that Python has read of a number that is no data: calls with another value are traced anew."""
        known = self._numbers.setdefault(name, set())
        if len(known) < self.budget.values:
            known.add(repr(value))

    def varies(self, name: str) -> bool:
        """Return whether Python has read so many values of a number that it counts as data from now on.

        Then a place in an array or a bound of a slice is a run-time value, and other reads are graph breaks.
        """
        return len(self._numbers.get(name, ())) == self.budget.values

    # ------------------------------------------------------------------ if-converted branches
    @property
    def may_branch(self) -> bool:
        """Whether branches of the function may be if-converted at all."""
        return self._branchings < MAX_BRANCHINGS

    def decides(self, site: Site) -> bool:
        """Return whether Python takes this branch itself, or reads this number where it is made."""
        return site in self._decided or not self.may_branch

    def note_branching(self, refused: Iterable[Site] = ()) -> None:
        """Record a run that ends to if-convert branches, or to have Python take the `refused` ones.

        After `MAX_BRANCHINGS` runs Python takes every branch, so nothing is left to be refused. Trials of vectorised
        loops do not count: each loop is tried once.
        """
        sites = set(refused)
        if not sites or not loop_ranges.is_trial(sites):
            self._branchings += 1
        self._decided |= sites

    # ------------------------------------------------------------------ graph breaks of a call
    def note_iterations(self, question: Question) -> None:
        """Record a loop that is traced iteration by iteration; raises GiveUpSignal if that has happened often."""
        times = self._run_through[question.line] = self._run_through.get(question.line, 0) + 1
        if times > self.budget.values:
            self.give_up(reasons.ITERATIONS,
                         f"a loop at {question.line} is traced iteration by iteration, because each changes what "
                         "Python knows (a list that grows, a counter that is more than counted with), and its end "
                         "changes from call to call. Count in an array, or use jf.while_loop.")

    def note_length(self, question: Question, reads: int) -> NoReturn:
        """Raise GiveUpSignal: the call has more graph breaks than are worth tracing."""
        self.give_up(reasons.MANY_READS,
                     f"Python reads data more than {reads} times in a call, last at {question.line}, and "
                     "each read is traced once. Work on whole arrays (np.where, masks), or use jf.while_loop and "
                     "jf.fori_loop.")

    def note_writes(self, program: FusedProgram) -> None:
        """Check a program before compiling; raises GiveUpSignal if it mostly writes single elements."""
        if "scatter" in program.op_names or "rolled_loop" in program.op_names:
            found = effort.touched(program)
            if found.is_waste:
                self.give_up(reasons.SINGLE_WRITES,
                             f"{found.writes:,} writes at indices that are data (x[i] = v) would go over "
                             f"{found.over >> 20:,} MiB of arrays, and there is little else to compile. Write at all "
                             "indices at once: x[i] = v with arrays i and v, np.add.at(x, i, v) or np.bincount(i).")

    def note_program(self, program: FusedProgram) -> None:
        """Check a program that is to be compiled; raises GiveUpSignal if it has too many steps."""
        steps = len(program.steps) if program.dtypes.isdisjoint(COMPONENT) else effort.planned(program)
        most = self.budget.operators // STEP
        if steps > most:
            self.give_up(reasons.LARGE_CALL,
                         f"its calls come to more than {most:,} steps that are no equal iterations, and each "
                         "is planned and compiled. Work on whole arrays, or use jf.fori_loop, jf.scan and jf.map.")

    def begin_call(self) -> None:
        """Start the estimate of a call's cost at zero."""
        self._spent = 0

    def note_run(self, operators: int, reads: int, steps: int) -> None:
        """Add the cost of a run that ended before the call had its answer."""
        self._spent += _effort(operators, reads, steps)

    def note_effort(self, question: Question, operators: int, reads: int, steps: int) -> None:
        """Check a run's cost at a graph break; raises GiveUpSignal if the call is not worth compiling."""
        if self.is_too_much(operators, reads, steps):
            self.give_up(reasons.LARGE_CALL,
                         f"a call comes to {operators:,} operators and {steps:,} steps between {reads} reads of data, "
                         f"last at {question.line}, not counting what had to be traced again, and each is traced, "
                         "planned and compiled. Work on whole arrays (np.where, masks), or use jf.cond, jf.fori_loop "
                         "and jf.while_loop.")

    def is_too_much(self, operators: int, reads: int, steps: int) -> bool:
        """Return whether this run has brought the cost of a call with graph breaks over the budget."""
        return self._spent + _effort(operators, reads, steps) > 1e6 * self.budget.seconds

    def is_one_too_many(self, question: Question, answer: Answer) -> bool:
        """Count an answer at its source line; return whether there have been too many different ones."""
        values = self._values.setdefault((question.line, question.what), set())
        values.add(answer.key)
        return len(values) > self._allowed(question)

    def _allowed(self, question: Question) -> int:
        return self.budget.values * (EXTENTS if question.extent else 1)

    def note_answer(self, question: Question, answer: Answer) -> None:
        """Count an answer at its source line; raises GiveUpSignal if there have been too many different ones."""
        if self.is_one_too_many(question, answer):
            limit = self._allowed(question)
            if question.of_numbers:
                self.give_up(reasons.MANY_NUMBERS,
                             f"Python needs a number of the call at {question.line}, which has had more than {limit} "
                             "different values, and each is traced anew. Numbers to compute with, and positions such "
                             "as x[i] and x[t - 5 : t], may vary; lengths, ranges and texts should be few. Take "
                             "this line out of the function, or select by a mask of a fixed length.")
            what = "extents" if question.extent else "values"
            self.give_up(reasons.MANY_VALUES,
                         f"{question.what} at {question.line} has read more than {limit} different {what} of "
                         f"traced data, and each is traced anew. {way_out(question.what)} Or use jf.cond and "
                         "jf.while_loop.")

    def give_up(self, reason: Reason, text: str) -> NoReturn:
        """Have the function run as plain Python from now on; raises GiveUpSignal."""
        self.reason = Why(reason, text)
        raise signals.GiveUpSignal


def _effort(operators: int, reads: int, steps: int) -> int:
    """Return the estimated cost of a run in microseconds."""
    return sum(n * each for n, each in zip((operators, reads, steps), EFFORT, strict=True))
