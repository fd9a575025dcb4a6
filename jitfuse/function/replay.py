"""A program as a function of its feeds: what `jf.fuse(program)` compiles, through the same stages as functions.

In a trace the program's steps are recorded again; where Python runs, the interpreter runs them. Owns how feeds become
tensors of the trace, and which of the caller's arrays are written. Does not own the interpreter
(`jitfuse.backends.interpreter`), nor how steps are recorded (`jitfuse.tracing.control.derivatives`).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jitfuse.backends.interpreter import diagnostics
from jitfuse.backends.interpreter.runner import ProgramRunner, RunResult, check_complete, memory_order
from jitfuse.base.records import Record
from jitfuse.errors import ArgumentError, BoundInput
from jitfuse.function.options import Options
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.control.derivatives import spliced
from jitfuse.tracing.record.foreign import Foreign, bare
from jitfuse.tracing.record.mode import ModeFlag, is_training
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id


def program(feeds: Mapping[int, Any]) -> Mapping[int, Any]:
    """Run a program on {feed: array or number}, as `jf.ProgramRunner` does; return its `RunResult`.

    Arrays that the program writes, and its state, are changed in place; the result's `writes` and `state` are these.
    """
    return feeds


class Replay(Record, frozen=True):
    """The transform that runs a program on the feeds that a function returns."""

    program: FusedProgram

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that replays the program."""
        def replay(feeds: Mapping[int, Any]) -> RunResult:
            run, given = active(), function(feeds)
            return self._interpreted(given) if run is None else self._recorded(run, given)

        return replay

    def _interpreted(self, feeds: Mapping[int, Any]) -> RunResult:
        ran = ProgramRunner(self.program)(feeds, training=is_training())
        for feed, new in {**ran.writes, **ran.state}.items():
            feeds[feed][...] = new
        return self._result(ran.outputs, feeds)

    def _recorded(self, run: Recorder, feeds: Mapping[int, Any]) -> RunResult:
        mode, program = is_training(), self.program
        if type(mode) is not ModeFlag:
            raise ArgumentError(f"a fused program is called with training={bool(mode)} in another fused function, which"
                                " has a mode of its own: leave it out there, or call the program outside.")
        check_complete(program, feeds)
        tensors = {feed: self._bound(run, feed, feeds[feed]) for feed in program.ordered_feeds}
        ids = spliced(run, program, program.steps, {feed: tensor_id(x) for feed, x in tensors.items()})
        made = {v: self._delivered(run, v, ids[v], feeds) for v in dict.fromkeys(program.outputs.values())}
        outputs = {path: made[v] for path, v in program.outputs.items()}
        new = {feed: ids[value] for feed, value in program.writes.items()}
        for feed, value in program.state_out.items():
            by_mode = (ids[value], tensor_id(tensors[feed]))
            new[feed] = ids[value] if program.is_random_state(feed) else run.emit("mode_select", by_mode)
        for feed, value in new.items():
            tensors[feed][...] = fresh(run, value)
        return self._result(outputs, feeds)

    def _bound(self, run: Recorder, feed: int, value: Any) -> TracedTensor:
        """Return a feed's value as a tensor; raises CutWireError where it is none that the interpreter takes."""
        expected = self.program.meta[feed]
        x = lift(run, bare(value))
        if x.weak and not expected.weak and not expected.shape and x.dtype == expected.dtype:
            x = x.call("astype", dtype=expected.dtype)
        clash = diagnostics.clash(expected, x._meta._replace(axes=None))
        if clash:
            raise diagnostics.at_boundary(
                self.program, f"the feed {diagnostics.feed_text(self.program, feed)} has the wrong {clash.what}",
                [BoundInput(feed, True, x._meta)], expected=diagnostics.describe(expected),
                actual=diagnostics.describe(x._meta), kind=clash.kind)
        return x

    def _delivered(self, run: Recorder, value: int, tensor: int, feeds: Mapping[int, Any]) -> Any:
        """Return an output as the interpreter delivers it: a feed itself, or a value of the feeds' kind."""
        if value in feeds:
            return feeds[value]
        x = fresh(run, tensor)
        kind = next((type(v) for v in feeds.values() if isinstance(v, Foreign)), None)
        if kind is None or x.weak:
            return x.laid_out(memory_order(self.program, value, x.ndim))
        return kind(fresh(run, tensor, scalar=False))  # type: ignore[call-arg]

    def _result(self, outputs: dict[str, Any], feeds: Mapping[int, Any]) -> RunResult:
        held = self.program
        return RunResult(outputs, {f: feeds[f] for f in held.state_out}, {f: feeds[f] for f in held.writes})


def replayed(of: FusedProgram, options: Options) -> tuple[Callable[..., Any], Options]:
    """Return the function and the options of a fused program.

    Raises VerifyError for a program that is not valid, ArgumentError for static arguments.
    """
    verify(of)
    if options.static:
        raise ArgumentError("static_argnames: a program has no arguments but its feeds, and each is read in each call")
    return program, options.transformed(Replay(of), options.name or "program", strict=options.strict)
