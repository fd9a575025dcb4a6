"""How often a function may look at the values of traced data, and how much a call may come to, before its calls run as
plain Python.

Owns the limits, what is counted against them, and what is said where one is reached. Does not own what a function does
then (`jitfuse.graph_breaks.call_path`).
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from jitfuse.base.later import Later
from jitfuse.dtypes import COMPONENT
from jitfuse.tracing.record.known_values import way_out

if TYPE_CHECKING:
    from jitfuse.graph_breaks import signals
    from jitfuse.ir.analysis import effort
    from jitfuse.ir.program import FusedProgram
    from jitfuse.tracing.control import loop_ranges
    from jitfuse.tracing.record.value_reads import Answer, Question, Site
else:
    effort = Later("jitfuse.ir.analysis.effort")
    loop_ranges = Later("jitfuse.tracing.control.loop_ranges")
    signals = Later("jitfuse.graph_breaks.signals")

MAX_VALUES: Final = 8
"""Different values at one place that a function may look at; past that it runs as plain Python."""
MAX_EXTENTS: Final = 64
"""The same for extents of arrays that depend on data."""
MAX_SUBGRAPHS: Final = 512
"""Subgraphs that a function keeps ready; past that it starts over, with every kernel still cached."""
MAX_STATES: Final = 20_000
"""Looks in a tree; past that the function starts over."""
MAX_STEPS: Final = 16_384
"""Steps of a program, loops counted as one and those of complex numbers as several: more take many seconds to plan."""
MAX_EFFORT: Final = 1_500_000
"""What one call may come to that looks at data, as its operators, looks and steps are estimated (in µs) by"""
EFFORT: Final = 15, 4000, 300
"""what recording an operator takes, in each run of the function, a look that is new, and planning and compiling a step
between looks. A call that takes longer is seldom made up for: ever new looks are what most of it goes into."""
MAX_REFUSALS: Final = 3
"""Calls in a row that cannot be traced before the function runs as plain Python without another try."""
PROFILED_CALLS: Final = 16
MAX_GROWING: Final = 12
MAX_GROWN: Final = 96
"""How many of the last so many calls may add branches, and looks that they may add together."""
MAX_LONG: Final = 3
MAX_ADDED: Final = 256
"""The same for few calls that add many looks each."""
MAX_RETRACED: Final = 16_384
LONG_TRACE: Final = 2048
"""Operators recorded for calls that differ from others in texts and floats alone; short traces do not count."""
MAX_RERUN: Final = 65_536
"""Operators recorded anew in calls that went a known way at first; short runs do not count."""
MAX_LOST: Final = 8
"""Calls in a row that have left the known paths, past which a function that is plain does not try these any more."""
MAX_CHANGES: Final = 3
"""Times that a function may ask other questions in the same situation before it runs as plain Python."""
MAX_BRANCHINGS: Final = 8
"""Times that a function may be traced anew for its branches, to if-convert them or no more; then Python decides in
all."""


class Limits:
    """What one function has used up. Its methods note what happens; those that say so raise GiveUpSignal."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why every call that fits no signature runs as plain Python."""
        self.refusals = 0
        """Calls in a row that could not be traced, and that plain Python has answered."""
        self.states = 0
        """Looks in the tree."""
        self._decided: set[Site] = set()
        """Branches in which Python decides, because they cannot be if-converted."""
        self._branchings = 0
        self._changes = 0
        self._spent = 0
        """Estimated microseconds that earlier runs of the function have taken in this call."""
        self._values: dict[tuple[str, str], set[Hashable]] = {}
        self._run_through: dict[str, int] = {}
        """How often the iterations of a loop at a place had to be run through to find another end."""
        self._growing: tuple[int, ...] = ()
        """How many looks each of the last calls has added."""
        self._retraced = self._rerun = 0
        self._moves = 0
        self._lost: int | None = None
        """Calls in a row that have left the known paths, where these are gone on with though the function is plain."""

    # ------------------------------------------------------------------ room
    @property
    def tree_is_full(self) -> bool:
        """Whether the tree has to start over."""
        return self.states > MAX_STATES

    def are_full(self, subgraphs: int) -> bool:
        """Return whether so many subgraphs leave no room for another."""
        return subgraphs >= MAX_SUBGRAPHS

    # ------------------------------------------------------------------ calls
    def note_refusal(self, error: Exception) -> None:
        """Note a call that could not be traced where plain Python has answered it; that is not tried for ever."""
        self.refusals += 1
        if self.refusals >= MAX_REFUSALS:
            self.reason = str(error).splitlines()[0]

    def note_change(self) -> None:
        """Note a call that asked other questions than another in the same situation."""
        self._changes += 1
        if self._changes > MAX_CHANGES:
            self.reason = "Python takes other decisions in the same situation from call to call"

    def note_growth(self, added: int, rerun: int) -> None:
        """Note how many looks a call has added, and how many operators it has recorded though it began as others did.

        What goes another way in each call is not traced for ever. Known ways are gone on with.
        """
        self._growing = (*self._growing, added)[-PROFILED_CALLS:]
        self._rerun += rerun if rerun >= LONG_TRACE else 0
        if self._lost is not None:
            self._lost = 0
            return
        calls, reads = sum(map(bool, self._growing)), sum(self._growing)
        many = (calls >= MAX_GROWING and reads >= MAX_GROWN) or (calls >= MAX_LONG and reads >= MAX_ADDED)
        if self.reason is None and (many or self._rerun >= MAX_RERUN):
            self._lost = 0
            self.reason = ("Python looks at data and goes another way in each call, which is traced each time. Work on "
                          "whole arrays (np.where, masks), or use jf.cond and jf.while_loop.")

    @property
    def keeps_paths(self) -> bool:
        """Whether calls go on along known paths though the function is plain."""
        return self._lost is not None and self._lost < MAX_LOST

    def note_lost(self) -> None:
        """Note a call that has left the known paths."""
        self._lost = None if self._lost is None else self._lost + 1

    def note_moving_state(self) -> None:
        """Note a trace that leaves other state than it has read: new items of a dict, another length, shape or text.

        What grows from call to call is another one for each trace. What is known stays native.
        """
        self._moves += 1
        if self._moves > MAX_VALUES:
            self.reason = ("the function leaves its caller's state with other keys, lengths, shapes or texts in call "
                          "after call, each of which is traced. Return what is new instead, and store it there.")

    def note_trace(self, operators: int, why: Sequence[str]) -> None:
        """Note a trace of a call like others but for texts and floats that Python has looked at, as `why` says.

        Long ones for what is new in each call are not made for ever. What is known goes on to be answered
        natively.
        """
        self._retraced += operators if operators >= LONG_TRACE else 0
        if self._retraced >= MAX_RETRACED:
            what = f" ({why[0].partition(':')[0]})" if why else ""
            self.reason = (f"Python looks at texts or floats that are new in each call{what}, and {self._retraced:,} "
                          "operators were traced for them. Pass arrays of numbers in place of texts, and compare "
                          "floats with np.where.")

    # ------------------------------------------------------------------ if-converted branches
    @property
    def may_branch(self) -> bool:
        """Whether branches of the function may be if-converted at all."""
        return self._branchings < MAX_BRANCHINGS

    def decides(self, place: Site) -> bool:
        """Return whether Python decides in a branch, or looks at a number where it is made."""
        return place in self._decided or not self.may_branch

    def note_branching(self, refused: Iterable[Site] = ()) -> None:
        """Note a run that ends because branches are to be if-converted, or Python is to decide in those refused.

        After so many of them Python decides everywhere, so that nothing is left to be refused. Loops that were tried to
        be spread do not count: each is tried once.
        """
        places = set(refused)
        if not places or not loop_ranges.is_trial(places):
            self._branchings += 1
        self._decided |= places

    # ------------------------------------------------------------------ looks within a call
    def note_iterations(self, question: Question) -> None:
        """Note a loop that is run through iteration by iteration; raises GiveUpSignal where that has happened often."""
        times = self._run_through[question.place] = self._run_through.get(question.place, 0) + 1
        if times > MAX_VALUES:
            self.give_up(f"a loop at {question.place} is traced round by round, because each round changes what "
                          "Python knows (a list that grows, a counter that is more than counted with), and its end "
                          "changes from call to call. Count in an array, or use jf.while_loop.")

    def note_length(self, question: Question, reads: int) -> NoReturn:
        """Note a call that looks at data too often for its looks to be traced one by one; raises GiveUpSignal."""
        self.give_up(f"Python looks at data more than {reads} times in a call, last at {question.place}, and "
                      "each look is traced once. Work on whole arrays (np.where, masks), or use jf.while_loop and "
                      "jf.fori_loop.")

    def note_writes(self, program: FusedProgram) -> None:
        """Note what is to be compiled; raises GiveUpSignal where its writes go over what Python leaves alone."""
        if "scatter" in program.op_names or "rolled_loop" in program.op_names:
            found = effort.touched(program)
            if found.is_waste:
                self.give_up(f"{found.writes:,} writes at places that data says (x[i] = v) would go over "
                              f"{found.over >> 20:,} MiB of arrays, and there is little else to compile. Write at all "
                              "places at once: x[i] = v with arrays i and v, np.add.at(x, i, v) or np.bincount(i).")

    def note_program(self, program: FusedProgram) -> None:
        """Note a program that is to be compiled; raises GiveUpSignal where it has too many steps."""
        steps = len(program.steps) if program.dtypes.isdisjoint(COMPONENT) else effort.planned(program)
        if steps > MAX_STEPS:
            self.give_up(f"its calls come to more than {MAX_STEPS:,} steps that are no equal rounds of loops, and each "
                          "is planned and compiled. Work on whole arrays, or use jf.fori_loop, jf.scan and jf.map.")

    def begin_call(self) -> None:
        """Note a call that nothing has been recorded for."""
        self._spent = 0

    def note_run(self, operators: int, reads: int, steps: int) -> None:
        """Note a run that has ended before the call had its answer, and what it came to."""
        self._spent += _effort(operators, reads, steps)

    def note_effort(self, question: Question, operators: int, reads: int, steps: int) -> None:
        """Note what a run has come to, at a look; raises GiveUpSignal where the call is not worth compiling."""
        if self.is_too_much(operators, reads, steps):
            self.give_up(f"a call comes to {operators:,} operators and {steps:,} steps between {reads} looks at data, "
                          f"last at {question.place}, not counting what had to be traced again, and each is traced, "
                          "planned and compiled. Work on whole arrays (np.where, masks), or use jf.cond, jf.fori_loop "
                          "and jf.while_loop.")

    def is_too_much(self, operators: int, reads: int, steps: int) -> bool:
        """Return whether a call that looks at data is not worth compiling, by what this run of it has come to."""
        return self._spent + _effort(operators, reads, steps) > MAX_EFFORT

    def is_one_too_many(self, question: Question, answer: Answer) -> bool:
        """Count an answer at its place; return whether there have been too many different ones."""
        values = self._values.setdefault((question.place, question.what), set())
        values.add(answer.key)
        return len(values) > (MAX_EXTENTS if question.extent else MAX_VALUES)

    def note_answer(self, question: Question, answer: Answer) -> None:
        """Count an answer at its place; raises GiveUpSignal where there have been too many different ones."""
        if self.is_one_too_many(question, answer):
            limit = MAX_EXTENTS if question.extent else MAX_VALUES
            what = "extents" if question.extent else "values"
            self.give_up(f"{question.what} at {question.place} has looked at more than {limit} different {what} of "
                          f"traced data, and each is traced anew. {way_out(question.what)} Or use jf.cond and "
                          "jf.while_loop.")

    def give_up(self, why: str) -> NoReturn:
        """Have the function be plain Python from now on."""
        self.reason = why
        raise signals.GiveUpSignal


def _effort(operators: int, reads: int, steps: int) -> int:
    """Return the microseconds that a run is estimated to take."""
    return sum(n * each for n, each in zip((operators, reads, steps), EFFORT, strict=True))
