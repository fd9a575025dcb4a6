"""Recorder: one run of the user's function, recorded into a process graph.

Owns the recording of steps, and the active run of each thread. What the runs of one trace share is in
`jitfuse.tracing.record.session`, constants in `jitfuse.tracing.record.literals`, memory in
`jitfuse.tracing.record.memory`. Does not own the tensor class (`jitfuse.tracing.tensor.traced`), nor the work before
and after the run (`jitfuse.tracing.tracer`).
"""
from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from jitfuse import reasons
from jitfuse.base.floats import exact_text
from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.budget import DEFAULT
from jitfuse.errors import DTypeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import RANDOM_STATE, Attrs, Meta, make_attrs
from jitfuse.ir.statuses import FALLIBLE
from jitfuse.tracing.record import error_state
from jitfuse.tracing.record import layout as layouts
from jitfuse.tracing.record.memory import Memory, Storage
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.source import UserLines, user_line

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import GraphBreaker, Site

try_blocks = Later("jitfuse.tracing.record.try_blocks")


_AS_LONG: Final = 10
"""Operators of replicated iterations that take as long as one recorded operator."""
CAPTURED: Final = 2
"""Python's loops are captured as loops of the program, where possible, once a run has recorded this part of what it
may record."""
_NOTED: Final = 16_384
"""Operators between two reports of their number to the breaker."""


class Mixed(NamedTuple):
    """A scalar that may be a Python number: `truth` is the tensor that says whether it is, `python` its dtype then."""

    truth: int
    python: str


class Recorder(Memory):
    """Records the operators of one run. `mode` is the value of the training flag in this run."""

    def __init__(
        self, session: Session, mode: bool = True, replay: bool = False, breaker: GraphBreaker | None = None
    ) -> None:
        super().__init__(session)
        self.replays = replay
        self.breaker = breaker
        """What answers when Python reads a traced value; None: every such read is an error."""
        self.environment: Any = None
        """The run's tracing environment."""
        self.born: list[weakref.ref[Storage]] = []
        """The storages that the run has made, in order, where graph breaks are possible."""
        self.placeholders: list[tuple[Any, str]] = []
        """The values that printed texts have placeholders for, and the format of each."""
        self.value_reads = 0
        """How often Python has read traced values."""
        self.repeats = False
        """Whether Python's state at the last read equals an earlier state at that site, but for counters."""
        self.counted: dict[Any, int] = {}
        """For each counter, by name: `value_reads` when the counter was stored last."""
        self.ranges: list[weakref.ref[Any]] = []
        """The ranges of loops whose variables are counters."""
        self.active_branches: list[Any] = []
        """The if-converted branches that are being traced, the innermost last; each checks what is recorded in it."""
        self.loops: list[Any] = []
        """The Python loops that are being captured as loops of the program, the innermost last."""
        self.converted_sites: set[Site] = set()
        """The sites of if-converted conditionals, captured loops, and numbers that were made without a read."""
        self.external_generators: dict[int, Any] = {}
        """The proxies of generators from outside, by the tensors of their states."""
        self.most_operators = DEFAULT.operators if breaker is None else breaker.most_operators
        """How many operators the run may record where plain Python can take over."""
        self._most = min(_NOTED, self.many_operators)
        """The number of operators at which `_note_many` is called next."""
        self._are_many = False
        self.replicated_ops = 0
        """Operators recorded for iterations that Python did not run."""
        self.profiled_loops: list[Any] = []
        """The running loops whose iterations may be replicated, the outermost first."""
        self.speculative_loops: list[Site] = []
        """The loops with replicated iterations, until an iteration that Python runs confirms them."""
        self.slices: list[Any] | None = None
        """The bounds of slices that meet an end of their axis, in order; None as long as they are not needed."""
        self.rng_calls = 0
        """How many RNG calls have been recorded."""
        self.mixed: dict[int, Mixed] = {}
        """Scalars that are Python numbers if a branch has chosen one, and what is computed from them."""
        self.bounded: set[int] = set()
        """Indices that are within bounds even where the branch that made them is not taken."""
        self.mode = mode
        self.mode_read = False
        self.mode_matters = False
        """Whether the run has been ended by a ModeMattersSignal, which user code may have caught."""
        self.alive = True
        self.fixed_source: str | None = None
        self.feed_tensors: dict[int, Any] = {}
        self.wrapped_modules: dict[int, Any] = {}
        """The tensors of feeds, in another library's wrappers."""
        self.numbers: dict[int, Any] = {}
        """The tensors of Python numbers as operands, by id; only operators hold them."""
        self._lines = UserLines()
        self._errors = error_state.current()
        """The last state of `np.errstate` that was found to be supported."""
        self.settings = dict(np.geterr()), warnings.filters
        """How floating-point errors and warnings are handled where the function begins."""
        self.differentiated = 0
        """How many functions are being recorded to be differentiated, one in the other."""
        self.keeps_gradients = False
        """Whether the run is the forward pass of a function whose results are part of torch's graph."""
        self.may_print = True
        """Whether the function may print where no graph break is possible: in the trace alone."""
        self.has_gradients: Callable[[], bool] = lambda: True
        """Whether what runs now is to be differentiated, as far as torch knows: not under its `no_grad`."""
        self.random_calls = 0
        self.random_base: int | None = None
        """The tensor that is added to `random_calls`: calls of earlier loops, whose number is known at run time."""
        self._earlier: dict[Any, list[int]] | None = None
        self._matched: dict[Any, int] = {}
        if replay:
            self._earlier = {}
            for op in self.graph.ops:
                self._earlier.setdefault(_match_key(*op.signature), []).append(op.result_ids[0])

    @property
    def keeps_rules(self) -> bool:
        """Whether functions with derivatives of their own are recorded with them."""
        return bool(self.differentiated) or self.session.trains

    def end(self) -> None:
        """End the run: its tensors are invalid, and it drops its references to the call's objects."""
        self.alive = False
        self.breaker = self.environment = None
        self.paths.clear()
        self.wrapped_modules.clear()
        self.numbers.clear()
        self._lines.clear()
        self.placeholders.clear()
        self.external_generators.clear()
        self.active_branches.clear()
        self.loops.clear()
        self.feed_tensors.clear()  # they refer to this run: a cycle that keeps the call's arguments

    def raise_copied(self) -> NoReturn:
        """End this run; the next one runs all iterations of the loops whose replication is not confirmed."""
        assert self.breaker is not None
        self.breaker.decide(self.speculative_loops)

    def undo_conversion(self, site: Site | None = None) -> NoReturn:
        """Have Python decide at the captured loops, else at `site` or the innermost branch. Ends this run."""
        assert self.breaker is not None
        if self.loops:
            self.breaker.decide([loop.site for loop in self.loops])
        self.breaker.decide((site,) if site is not None else (self.active_branches[-1].both.site,))

    # ------------------------------------------------------------------ steps
    def emit(
        self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any] | Attrs = (), meta: Meta | None = None,
        source: str | None = None,
    ) -> int:
        """Record one operator over tensor ids and return its result's id.

        `meta` describes the result, if it is known. `source` is the user's line, if the caller has it.

        The second run of a trace reuses equal steps of the first: the n-th call of an operator with the same inputs
        and attributes matches the n-th.
        """
        row = ops.get(op_name)
        assert row is not None, op_name
        return self.record(row, inputs, attrs if type(attrs) is tuple else make_attrs(attrs), meta, source)  # type: ignore[arg-type]

    def record(
        self, row: ops.Op, inputs: tuple[int, ...], attrs: Attrs, meta: Meta | None = None, source: str | None = None
    ) -> int:
        """Record one operator by its row, as `emit` does by its name."""
        if error_state.current() is not self._errors:
            self._read_errors()
        if self.active_branches:
            inputs = self.active_branches[-1].checked(self, row, inputs)
        if row.name in FALLIBLE:
            try_blocks.check_caught(self, row, inputs, attrs)
        if self._earlier is not None:
            key = _match_key(row.name, inputs, attrs)
            nth = self._matched.get(key, 0)
            same = self._earlier.get(key, ())
            if nth < len(same):
                self._matched[key] = nth + 1
                return same[nth]
        graph = self.graph
        if meta is None:
            known = graph.metas
            metas = tuple([known[i] for i in inputs])
            once = not attrs or row.kind in _INFERRED_ONCE
            meta = _inferred(row, metas, attrs) if once else row.infer(metas, dict(attrs))
        if source is None:
            source = self.line()
        if len(graph.ops) >= self._most and self.breaker is not None:
            self._note_many(source)
        made = graph.add_op(row.name, inputs, attrs, meta, row.mode_sensitive, source)
        if self.differentiated and not meta.weak and row.name != "stop_gradient" and not self.has_gradients():
            return self.emit("stop_gradient", (made,), (), meta, source)
        return made

    def _note_many(self, source: str) -> None:
        """Report the number of operators; capture long loops after half of the budget, give up at its end."""
        assert self.breaker is not None
        count = len(self.graph.ops)
        self.breaker.note_operators(self.recorded, source)
        many = self.many_operators
        if count < self.most_operators:
            self._most = min(count + _NOTED, many if count < many else self.most_operators)
            if count >= many and not self._are_many:
                self._are_many = True
                self.environment.hooks.capture_long_loops()
            return
        self.breaker.give_up(reasons.LARGE_CALL,
                             f"its calls come to more than {self.most_operators:,} operators, last at {source}, and "
                             "each is traced. Work on whole arrays, or use jf.fori_loop, jf.scan and jf.map.")

    @property
    def many_operators(self) -> int:
        """How many operators make a run a long one, whose loops are captured."""
        return self.most_operators // CAPTURED

    @property
    def recorded(self) -> int:
        """How many operators the run has recorded; `_AS_LONG` replicated ones count as one."""
        return len(self.graph.ops) - self.replicated_ops + self.replicated_ops // _AS_LONG

    def _read_errors(self) -> None:
        error_state.reject_shown()
        self._errors = error_state.current()

    def line(self, above: int = 4) -> str:
        """Return the user's line that is running; the search begins `above` frames up."""
        return self.fixed_source or self._lines.at_work(above)  # at least two frames of ours are below the user's

    def emit_all(
        self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any], source: str | None = None
    ) -> tuple[int, ...]:
        """Record one operator with any number of results, as `emit` does, and return their ids."""
        row = ops.get(op_name)
        assert row is not None, op_name
        if error_state.current() is not self._errors:
            self._read_errors()
        if self.active_branches:
            self.undo_conversion()
        frozen = make_attrs(attrs)
        metas = row.result_metas([self.graph.metas[i] for i in inputs], dict(frozen))
        source = source or self.fixed_source or user_line()
        return self.graph.add_op_of_many(op_name, inputs, frozen, metas, source=source)

    def random_operands(self) -> tuple[int, int]:
        """Return the random state's feed and this call's index, counted in trace order."""
        if self.session.random_feed is None:
            meta = Meta((2,), "int64")
            feed = self.session.add_feed(
                RANDOM_STATE, RANDOM_STATE, None, meta, layouts.contiguous((2,), 8), "state"
            )
            self.session.random_feed = feed.id
        index = self.random_index()
        self.random_calls += 1
        return self.session.random_feed, index

    def random_index(self) -> int:
        """Return the index of the next random call."""
        count = self.scalar(self.random_calls, "int64")
        if self.random_base is None:
            return count
        return self.emit("add", (self.random_base, count)) if self.random_calls else self.random_base


_INFERRED_ONCE: Final = frozenset({ops.ELEMENTWISE, ops.REDUCTION, ops.SCAN})
"""Kinds whose attributes are few and small, so that the cache of `_inferred` hits."""


@lru_cache(maxsize=4096)
def _inferred(row: ops.Op, metas: tuple[Meta, ...], attrs: Attrs) -> Meta:
    return row.infer(metas, dict(attrs))


def _match_key(op_name: str, inputs: tuple[int, ...], attrs: Attrs) -> Any:
    """Return a key that tells 0.0 from -0.0 and 1 from True; a NaN equals itself."""
    return op_name, inputs, exact_text(attrs)


# ---------------------------------------------------------------- the active run
class _Active(threading.local):
    recorder: Recorder | None = None


_active = _Active()


def active() -> Recorder | None:
    """Return the recorder of the trace that runs in this thread, or None."""
    return _active.recorder


def activate(recorder: Recorder | None) -> Recorder | None:
    """Make a recorder the current one and return the one before it."""
    before = _active.recorder
    _active.recorder = recorder
    return before


def require_float(dtype: str, what: str) -> None:
    """Raise DTypeError unless the dtype of a random or scaled result is float32 or float64."""
    if dtype not in ("float32", "float64"):
        raise DTypeError(f"{what} is made in float32 or float64, not {dtype}")
