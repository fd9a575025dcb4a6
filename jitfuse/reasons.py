"""Every reason for which calls run slower than they could: a closed set, each with a code and a page of docs/reasons.

Warnings and `FusedFunction.why` give the codes. The hundreds are kinds: what compiled code cannot do, what is used up
of the budget, kernels that are not there, graph breaks, and steps that are not fused.
"""
from __future__ import annotations

from typing import Final

from jitfuse.base.records import NamedTuple


class Reason(NamedTuple):
    """A reason: its code, as users see it, and the title of its page."""

    code: str
    title: str

    def __str__(self) -> str:
        return f"{self.title} [{self.code}]"


class Why(NamedTuple):
    """One reason in one function: the text names what was met, where, and the way out."""

    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.text} [{self.reason.code}]"


# ------------------------------------------------------------------ what compiled code cannot do
UNSUPPORTED: Final = Reason("JF101", "a function, method or option that compiled code does not have")
DTYPE: Final = Reason("JF102", "a dtype that compiled code does not have")
ARGUMENT: Final = Reason("JF103", "an argument that compiled code does not take")
NEEDED_VALUE: Final = Reason("JF104", "Python needs a value in a place where it cannot be read")
OVERLAP: Final = Reason("JF105", "a written array shares memory with another argument")
WIDE_INT: Final = Reason("JF106", "a Python int leaves 64 bits")
UNSEEN: Final = Reason("JF107", "code or state whose changes are not seen")
UNREPEATABLE: Final = Reason("JF108", "something that a trace cannot repeat")
FOREIGN_ERROR: Final = Reason("JF109", "code that takes real arrays alone")
STRICTER: Final = Reason("JF110", "a call that traced arrays refuse and real ones do not")
ERROR_STATE: Final = Reason("JF111", "np.errstate asks for errors, calls or logs")
MODE_IN_OPTIONS: Final = Reason("JF112", "training= among a function's **options")

# ------------------------------------------------------------------ what is used up of the budget
NEW_SIGNATURES: Final = Reason("JF201", "arguments that are new again and again")
NEW_PATHS: Final = Reason("JF202", "paths that are new again and again")
MOVING_STATE: Final = Reason("JF203", "state that grows from call to call")
MOVING_DECISIONS: Final = Reason("JF204", "other decisions in the same situation")
MANY_VALUES: Final = Reason("JF205", "Python reads many different values of an array at a line")
MANY_NUMBERS: Final = Reason("JF206", "Python reads many different values of a number at a line")
MANY_READS: Final = Reason("JF207", "Python reads data many times in a call")
LARGE_CALL: Final = Reason("JF208", "a call that is too large to be traced")
ITERATIONS: Final = Reason("JF209", "a loop that is traced iteration by iteration")
SINGLE_WRITES: Final = Reason("JF210", "writes of single elements, and little else")
SINGLE_DRAWS: Final = Reason("JF211", "random numbers drawn one by one, and little else")
RAISED: Final = Reason("JF212", "calls that raise again and again")

# ------------------------------------------------------------------ kernels that are not there
INTERPRETED: Final = Reason("JF301", "a kernel that could not be built")
NO_WGSL: Final = Reason("JF302", "an operator without a version for the GPU")
NO_RUNTIME: Final = Reason("JF303", "kernels launched from Python")

# ------------------------------------------------------------------ graph breaks
LIBRARY_CALL: Final = Reason("JF401", "a function that Python calls between compiled code")
VALUE_READ: Final = Reason("JF402", "a value that Python reads, and takes a path by")

# ------------------------------------------------------------------ steps that are not fused
INDEX_SPACES: Final = Reason("JF501", "their index spaces differ")
MISALIGNED: Final = Reason("JF502", "a reduced value is needed at other grid points")
BETWEEN: Final = Reason("JF503", "a step between them must run in a kernel or library call of its own")
SPLIT_REDUCTION: Final = Reason("JF504", "the reduction is split into partial ones over chunks")
SWEPT_ROWS: Final = Reason("JF505", "the plan sweeps the rows once, and this value needs their reduction first")
MANY_OPERANDS: Final = Reason("JF506", "the kernel would have too many memory operands")
HELD_VALUES: Final = Reason("JF507", "what they store would lie in memory at once, and is needed one after the other")
LARGE_KERNEL: Final = Reason("JF508", "the kernel would hold too many steps")
UNRELATED: Final = Reason("", "they share no value")
"""No reason for users: nothing is lost where steps that share nothing are not fused."""
