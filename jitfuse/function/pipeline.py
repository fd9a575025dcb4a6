"""The pipeline of a call that native code declined, from its arguments to its result.

    answer        run plain Python where tracing is impossible or pointless
    _answer       normalise the arguments, offer them to native code, find the signature or trace
    _run          run the signature: on the GPU, by its kernels, in the interpreter
    _run_kernels  compile, attach to native code, run, deliver

Calls that a stage cannot handle fall back: `jitfuse.function.fallback`. Owns the order of the stages, and where each
failure leads. Does not own the stages: arguments are in `jitfuse.function.call`, signatures in
`jitfuse.function.table`, graph breaks in `jitfuse.graph_breaks.call_path`.
"""
from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.compile import interface as compiler
from jitfuse.compile import native_entries
from jitfuse.compile.interface import Specialisation
from jitfuse.compile.native_entries import Returned
from jitfuse.errors import CompileError, NeedsGradientsError, VolatileError
from jitfuse.function.adapters import needs_adapting, raising_error_state, reads_eager, reads_tensors
from jitfuse.function.call import Call, call_left_by_native_code, normalise
from jitfuse.function.fallback import Failed, attempt, attempt_trace, fall_back, interpret
from jitfuse.graph_breaks.call_path import Path
from jitfuse.random_state import state_feeds
from jitfuse.tracing.interruption import WORK, interrupts_trace, trace_suspended
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import hide_own_frames

if TYPE_CHECKING:
    from jitfuse.compile.run.delivery import Delivery
    from jitfuse.function.autograd import Gradients
    from jitfuse.function.parts import Parts
    from jitfuse.function.table import SignatureTable
    from jitfuse.graph_breaks.tree import TraceTree, TreePosition, Walk

_SETTLED: Final = 64
"""Types of arguments that are kept as those of settled calls."""
gpu: Any = None
"""`jitfuse.gpu.call`, handed in by `jitfuse`: arrays on the GPU compute by fused functions, so it stands above them."""


def answer(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a call that native code has declined; run plain Python where tracing is impossible or pointless."""
    definition, counters = parts.definition, parts.counters
    if interrupts_trace():
        with trace_suspended():
            return definition.run_fallback(args, kwargs)
    if active() is not None or WORK.going_on:
        return definition.run_fallback(args, kwargs)
    if parts.gradients is not None and parts.gradients.are_wanted(args, kwargs):
        if os.environ.get("JITFUSE_DISABLE"):
            return definition.run_fallback(args, kwargs)
        return _by_autograd(parts, parts.gradients, args, kwargs)
    settled = _settled(parts, args, kwargs)
    if settled is not None:
        settled.count_plain()
    if settled is not None or (os.environ.get("JITFUSE_DISABLE") and not definition.options.transforms):
        return definition.run_fallback(args, kwargs)
    refused = raising_error_state(definition.name) or definition.refuses(kwargs)
    if refused is not None:
        counters.note_fallback("plain Python", refused)
        return definition.run_fallback(args, kwargs)
    try:
        WORK.going_on = True
        return _answer(parts, args, kwargs)
    finally:
        WORK.going_on = False


def _settled(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SignatureTable | None:
    """Return the table of a call if it has settled and no argument has to be adapted to find it; else None."""
    table = parts.settled.get(_types(parts, args, kwargs)) if parts.settled else None
    if table is None and parts.plain.is_settled and not parts.counters.draws_global_rng:
        table = None if needs_adapting(args, kwargs) else parts.plain
        if table is not None:
            _note_settled(parts, table, args, kwargs)
    return table if table is not None and table.is_settled else None


def _note_settled(parts: Parts, table: SignatureTable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if len(parts.settled) >= _SETTLED:
        parts.settled.clear()  # calls have ever new classes and keywords
    parts.settled[_types(parts, args, kwargs)] = table


def _types(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """Return what tells the table of a settled call: containers of equal types may hold what would lead to others."""
    return (parts.counters.draws_global_rng, *map(type, args), *kwargs, *map(type, kwargs.values()))


def _answer(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The pipeline: normalise the arguments, find the signature or trace, compile, attach, run, deliver."""
    training, positional, named = parts.definition.pop_mode(args, kwargs)
    call = attempt(normalise, parts, training, positional, named)
    if isinstance(call, Failed) and call.is_a(NeedsGradientsError):
        return _first_by_autograd(parts, args, kwargs, by_name=False)
    if isinstance(call, Failed):
        return fall_back(Call(parts.plain, training, (positional, named)), call, None)
    with call.going_on():
        answered = attempt(_offer_adapted, call)
        if answered is None and call.table.is_settled:
            if call.table.reads_given_arguments:  # else the next call is adapted again, for native code to see
                _note_settled(parts, call.table, args, kwargs)
            call.table.count_plain()
            return call.run_fallback()
        if answered is None:
            call.release_generators()
            found = attempt_trace(_find_or_trace, call)
            if isinstance(found, Failed) and found.is_a(NeedsGradientsError):
                call.end_generators()
                return _first_by_autograd(parts, args, kwargs, by_name=True)
            if isinstance(found, Failed) and call.must_bring_global_rng():
                call.end_generators()
                return _answer(parts, args, kwargs)  # with a key that passes the state of the global RNG
            answered = _run(call, found)
        if isinstance(answered, Failed):
            if not call.moves_rng or call.is_final:
                raise answered.take()
            limits = call.table.breaks.limits
            answered = Returned(fall_back(call, answered, limits))  # nothing has been written, not even RNG states
        return call.returned(answered.value)


def _first_by_autograd(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any], *, by_name: bool) -> Any:
    """Answer a call that has found a tensor which requires gradients, `by_name`: that is no argument."""
    from jitfuse.function.autograd import Gradients

    gradients = parts.gradients = parts.gradients or Gradients(parts)
    gradients.reads_names = gradients.reads_names or by_name
    WORK.going_on = False  # its passes are fused functions, which are traced now
    try:
        return _by_autograd(parts, gradients, args, kwargs)
    finally:
        WORK.going_on = True


def _by_autograd(
    parts: Parts, gradients: Gradients, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Answer a call by results in torch's graph; by torch's own code where the function has no such passes."""
    limits = gradients.limits
    if limits.reason is not None:
        parts.counters.count_fallback()
        limits.note_plain()
        return parts.definition.run_fallback(args, kwargs)
    refused = gradients.refuses()
    computed = attempt_trace(gradients.computed, args, kwargs) if refused is None else Failed(refused)
    if not isinstance(computed, Failed):
        limits.refusals = 0
        return computed.joined()
    training, positional, named = parts.definition.pop_mode(args, kwargs)
    call = Call(parts.plain, training, (positional, named))
    return fall_back(call, computed, limits if refused is None else None)


def _run(call: Call, found: Returned | Specialisation | Failed) -> Returned | Failed:
    """Run the signature of a call. A call with graph breaks has its result already: its subgraphs have run."""
    if isinstance(found, Failed):
        return Returned(fall_back(call, found, call.table.breaks.limits))
    call.table.breaks.limits.refusals = 0
    if isinstance(found, Returned):
        return found
    if runs_on_gpu(call, found):
        return attempt(gpu.run, call, found)
    if call.table.definition.options.transforms and os.environ.get("JITFUSE_DISABLE"):
        return attempt(_interpret, call, found)
    answered = attempt(_run_kernels, call, found)
    if isinstance(answered, Failed) and answered.is_a(CompileError):
        answered = attempt(_interpret, call, found, answered)
    if isinstance(answered, Failed) and answered.is_a(VolatileError):  # a value that only plain Python can represent
        return Returned(fall_back(call, answered, call.table.breaks.limits))
    return answered


def go_on(
    table: weakref.ref[SignatureTable], tree: TraceTree, walk: Walk, arrive: Callable[[], TreePosition], training: bool
) -> Any:
    """Answer a call that native code has brought to the position that `arrive` returns."""
    owner = table()
    assert owner is not None, "the function is being called"
    call = call_left_by_native_code(owner, training, tuple(walk.args), dict(walk.kwargs))
    call.release_generators()
    before = WORK.going_on
    try:
        WORK.going_on = True
        found = attempt_trace(lambda: Path.from_tree(call, tree, walk, arrive).follow())
        if isinstance(found, Failed) and call.must_bring_global_rng():
            return call.run_fallback()  # the next call passes the state
        answered = _run(call, found)
        if isinstance(answered, Failed):
            raise answered.take()
        return answered.value
    except Exception as error:
        hide_frames(error)
        raise
    finally:
        WORK.going_on = before


def hide_frames(error: Exception) -> None:
    """Remove jitfuse's frames from a traceback, unless JITFUSE_DEBUG is set."""
    if not compiler.debugging():
        hide_own_frames(error)


# ---------------------------------------------------------------- stages of this module
def _offer_adapted(call: Call) -> Returned | None:
    """Offer a call to native code with its adapted arguments; native code has declined the caller's own.

    Not if effects could store adapted arrays, or write into copies of the caller's containers.
    """
    table, adapted = call.table, call.adapted
    if adapted is None or (table.binds_state and call.stands_for_others and not adapted.tensors):
        return None
    return call.offer(table.entries, call.args, call.kwargs)


def _find_or_trace(call: Call) -> Returned | Specialisation:
    """Return the signature of a call, or the call's result if it had graph breaks.

    Raises VolatileError if it has to run as plain Python, and whatever the function raises.
    """
    table, definition = call.table, call.table.definition
    with table.lock:
        spec = table.find(call)
    if spec is not None:
        return spec
    breaks = table.breaks
    if (table.specs or breaks.tree is not None) and native_entries.is_supported and compiler.runtime_is_ready():
        compiler.native_runtime().accept_error_state()
    if breaks.limits.reason is not None and not breaks.keeps_paths:
        raise VolatileError(breaks.limits.reason)
    if definition.options.strict or definition.runs_on_gpu:
        with table.lock:
            return table.find_or_trace(call)
    if breaks.limits.tree_is_full:
        with table.lock:
            breaks.forget()
    breaks.limits.begin_call()
    return Path(call).follow()


def _run_kernels(call: Call, spec: Specialisation) -> Returned:
    """Compile a signature if its mode is new, attach it to native code, and run it there if its entry is new.

    Raises CompileError if kernels cannot be built, and the errors of the statuses that they return.
    """
    table, trace = call.table, spec.trace
    eager = reads_eager(trace, call.args, call.kwargs)
    from_python = eager or (not spec.tensors and (
        reads_tensors(trace, call.args, call.kwargs) or (bool(trace.result.effects) and call.stands_for_others)))
    with table.lock:
        table.compile(spec, call.training)
        is_native = not from_python and table.attach(spec, call.training)
    call.hold_generators()
    done = call.offer_again(spec) if is_native else None
    return done or Returned(call.deliver(_launch(call, spec), torch=trace.torch, eager=eager))


def _launch(call: Call, spec: Specialisation) -> Delivery:
    """Launch the kernels from Python; then start to compile the runtime, if it is supported."""
    from jitfuse.compile.run.direct import call_directly

    table, made = call.table, spec.plans[call.training]
    table.counters.launches += made.call.launches
    name = table.definition.name
    try:
        return call_directly(
            spec.trace, made.call, made.kernels, made.constants, call.args, call.kwargs, state_feeds(),
            functools.partial(compiler.raise_status, name), name,
        )
    finally:
        if native_entries.is_supported:
            compiler.build_runtime()


def _interpret(call: Call, spec: Specialisation, failed: Failed | None = None) -> Returned:
    """Run a signature in the interpreter, because its kernels cannot be built, or are not wanted."""
    eager = reads_eager(spec.trace, call.args, call.kwargs)
    return Returned(call.deliver(interpret(call, spec, failed), torch=spec.trace.torch, eager=eager))


def runs_on_gpu(call: Call, spec: Specialisation) -> bool:
    """Return whether a call runs on the GPU: by option, or because a tensor lives there."""
    return call.table.definition.runs_on_gpu or ("jitfuse.gpu" in sys.modules and gpu.reads_tensors(call, spec))
