"""Recorder: one run of the user's function, writing into a process graph.

Owns the emission of steps, and which run is going on in a thread. What the runs of one trace share is in
`jitfuse.tracing.record.session`, constants in `...literals`, memory in `...memory`. Does not own the tensor class
(`jitfuse.tracing.tensor.traced`) nor what happens before and after the run (`jitfuse.tracing.tracer`).
"""
from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.errors import DTypeError
from jitfuse.ir.formats.floats import exact_text
from jitfuse.ir.operators import ops
from jitfuse.ir.program import RANDOM_STATE, Attrs, Meta, make_attrs
from jitfuse.ir.statuses import FALLIBLE
from jitfuse.tracing.record import error_state
from jitfuse.tracing.record import layout as layouts
from jitfuse.tracing.record.memory import Memory, Storage
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.source import UserLines, user_line

if TYPE_CHECKING:
    from jitfuse.tracing.control import long_loops, predication
    from jitfuse.tracing.observe import try_blocks
    from jitfuse.tracing.record.value_reads import GraphBreaker, Site
    from jitfuse.tracing.scalars import branch_values
else:
    predication = Later("jitfuse.tracing.control.predication")
    branch_values = Later("jitfuse.tracing.scalars.branch_values")
    try_blocks = Later("jitfuse.tracing.observe.try_blocks")
    long_loops = Later("jitfuse.tracing.control.long_loops")


MAX_OPS: Final = 500_000
"""Operators that one run of a function may record where plain Python can take over: they take seconds to trace, as ten
thousand iterations of a loop of fifty do, of which Python itself takes a tenth."""
_AS_LONG: Final = 10
"""Operators of replicated iterations that take as long as one that is recorded."""
_NOTED: Final = 16_384
"""Operators between two times that the breaker hears how many there are."""
MANY_OPS: Final = 262_144
"""Operators after which loops of the function are made loops of the program, where they can."""


class Mixed(NamedTuple):
    """Of a scalar: the truth that it stands for a number of Python's, and the dtype that this number has then."""

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
        """Who answers when Python looks at traced data; None: nobody."""
        self.view: Any = None
        """The run's view of Python."""
        self.born: list[weakref.ref[Storage]] = []
        """The storages that the run has made, in order, where the program may be split."""
        self.placed: list[tuple[Any, str]] = []
        """The values that texts which are only printed leave places for, and how each is formatted."""
        self.value_reads = 0
        """How often Python has looked at data."""
        self.repeats = False
        """Whether Python's state at the last look was like the one before at that place, but for counters."""
        self.counted: dict[Any, int] = {}
        """How often it had when a counter was stored last, by name."""
        self.ranges: list[weakref.ref[Any]] = []
        """The ranges that loops go over whose variables are counters."""
        self.active_branches: list[Any] = []
        """The branches of branches that are being computed, the innermost last."""
        self.loops: list[Any] = []
        """The loops of Python whose iteration is being traced as one of the program's, the innermost last."""
        self.converted_sites: set[Site] = set()
        """Where branches have been if-converted, and loops have become loops of the program."""
        self.external_generators: dict[int, Any] = {}
        """What stands for generators from outside, by the tensors of their states."""
        self._most = min(_NOTED, MANY_OPS, MAX_OPS)
        self._are_many = False
        self.replicated_ops = 0
        """Operators that were written down for iterations of loops that Python did not run."""
        """Operators at which something is to be done about them."""
        self.profiled_loops: list[Any] = []
        """The loops that are gone through whose iterations may be copied, from the outside in."""
        self.speculative_loops: list[Site] = []
        """The loops iterations of which have been copied, as long as none after them has shown that they are as
        recorded.
        """
        self.slices: list[Any] | None = None
        """The bounds of slices that meet an end of their axis, in order, since somebody wants to know."""
        self.rng_calls = 0
        """How many draws from generators have been recorded."""
        self.mixed: dict[int, Mixed] = {}
        """Scalars that stand for a Python number where a branch has chosen one, and what is computed of these."""
        self.bounded: set[int] = set()
        """Indices that are within bounds where the branch that they were made in is off."""
        self.mode = mode
        self.mode_read = False
        self.mode_matters = False
        """Whether the run has been ended by a ModeMattersSignal, which user code may have caught."""
        self.alive = True
        self.fixed_source: str | None = None
        self.feed_tensors: dict[int, Any] = {}
        self.wrapped_modules: dict[int, Any] = {}
        """The tensors of feeds under another library's methods."""
        self.numbers: dict[int, Any] = {}
        """The tensors of Python's numbers as operands, by id; only operators hold them."""
        self._lines = UserLines()
        self._errors = error_state.current()
        """The last state of `np.errstate` that kernels may go by."""
        self.random_calls = 0
        self.random_base: int | None = None
        """What is added to the count of random calls: what loops before have drawn, known at run time alone."""
        self._earlier: dict[Any, list[int]] | None = None
        self._matched: dict[Any, int] = {}
        if replay:
            self._earlier = {}
            for op in self.graph.ops:
                self._earlier.setdefault(_match_key(*op.signature), []).append(op.result_ids[0])

    def end(self) -> None:
        """End the run: its tensors are dead, and what it held of the call goes with its last user."""
        self.alive = False
        self.breaker = self.view = None
        self.paths.clear()
        self.wrapped_modules.clear()
        self.numbers.clear()
        self._lines.clear()
        self.placed.clear()
        self.external_generators.clear()
        self.active_branches.clear()
        self.loops.clear()
        self.feed_tensors.clear()  # they refer to this run: a cycle that keeps the call's arguments

    def refuse_copies(self) -> NoReturn:
        """Have all iterations run of the loops that have not shown what copies of their iterations are."""
        assert self.breaker is not None
        self.breaker.decide(self.speculative_loops)

    # ------------------------------------------------------------------ steps
    def emit(
        self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any] | Attrs = (), meta: Meta | None = None,
        source: str | None = None,
    ) -> int:
        """Record one operator over tensor ids and return its result's id; `meta`: what is known of the result.

        `source`: the user's line, where several operators are of one.

        The second run of a trace takes the steps of the first where they are equal: the n-th call of a
        kind on the same inputs matches the n-th.
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
            inputs = predication.check_recorded(self, row, inputs)
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
        return graph.add_op(row.name, inputs, attrs, meta, row.mode_sensitive, source)

    def _note_many(self, source: str) -> None:
        """Have loops be loops of the program where they can; give up where there are too many ops for any other way."""
        assert self.breaker is not None
        count = len(self.graph.ops)
        self.breaker.note_operators(self.recorded, source)
        if count < MAX_OPS:
            self._most = min(count + _NOTED, MANY_OPS if count < MANY_OPS else MAX_OPS)
            if count >= MANY_OPS and not self._are_many:
                self._are_many = True
                long_loops.find_long_loops(self)
            return
        self.breaker.give_up(f"its calls come to more than {MAX_OPS:,} operators, last at {source}, and each is "
                              "traced. Work on whole arrays, or use jf.fori_loop, jf.scan and jf.map.")

    @property
    def recorded(self) -> int:
        """How many operators the run has recorded; so many that were copied take as long as one."""
        return len(self.graph.ops) - self.replicated_ops + self.replicated_ops // _AS_LONG

    def _read_errors(self) -> None:
        error_state.refuse_shown()
        self._errors = error_state.current()

    def line(self, above: int = 4) -> str:
        """Return the user's line that is at work: of a frame so many above the search at least."""
        return self.fixed_source or self._lines.at_work(above)  # two of ours at least call what asks

    def emit_all(self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any]) -> tuple[int, ...]:
        """Record one operator of any number of results, as `emit` does, and return their ids."""
        row = ops.get(op_name)
        assert row is not None, op_name
        if error_state.current() is not self._errors:
            self._read_errors()
        if self.active_branches:
            branch_values.refuse(self)
        frozen = make_attrs(attrs)
        metas = row.result_metas([self.graph.metas[i] for i in inputs], dict(frozen))
        return self.graph.add_op_of_many(op_name, inputs, frozen, metas, source=self.fixed_source or user_line())

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
"""Kinds whose attributes are few and small: the same come again and again."""


@lru_cache(maxsize=4096)
def _inferred(row: ops.Op, metas: tuple[Meta, ...], attrs: Attrs) -> Meta:
    return row.infer(metas, dict(attrs))


def _match_key(op_name: str, inputs: tuple[int, ...], attrs: Attrs) -> Any:
    """Return a key that tells 0.0 from -0.0 and 1 from True, and takes a NaN for itself."""
    return op_name, inputs, exact_text(attrs)


# ---------------------------------------------------------------- the run that is going on
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
    """Raise DTypeError where a random or scaled result is asked for in another kind of dtype."""
    if dtype not in ("float32", "float64"):
        raise DTypeError(f"{what} is made in float32 or float64, not {dtype}")
