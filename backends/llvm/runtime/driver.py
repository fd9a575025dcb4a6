"""Emits the driver: it allocates a call's memory, runs a plan's ops on it, and releases it exactly once.

Owns: `jf_driver`. Does not own guards, ops, result objects or the allocator.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import EntryField, PauseField, PlanField, SpecField, StateField
from jitfuse.backends.llvm.runtime.ops import emit_ops
from jitfuse.backends.llvm.runtime.pauses import emit_pauses, start_pauses
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, decref, item, set_item, word
from jitfuse.backends.llvm.runtime.results import output_spec
from jitfuse.backends.llvm.text.builder import Function, Module, Value


def emit_driver(module: Module) -> None:
    """Add ``ptr jf_driver(ptr plan, ptr entry, ptr state, ptr frame)`` and the functions that it needs.

    Runs a plan on a frame whose guards have passed. Returns the result as a new reference, or null with
    the exception set. Needs results.py, pool and memory in the same module.
    """
    _emit_driver(module)
    emit_pauses(module)
    emit_ops(module)


def frame_values(f: Function, entry: Value, frame: Value) -> Value:
    """Return where a frame keeps its values: behind its objects and scalar cells."""
    return f.offset(frame, f.add(word(f, entry, EntryField.SLOTS), word(f, entry, EntryField.CELLS)), "i64")


def _emit_driver(module: Module) -> None:
    parameters = [("plan", "ptr"), ("entry_words", "ptr"), ("state", "ptr"), ("frame", "ptr")]
    f = module.function("jf_driver", "ptr", parameters, internal=True)
    plan, entry, state, frame = f.args
    values = frame_values(f, entry, frame)
    owners = f.offset(frame, word(f, plan, PlanField.OWNERS), "i64")
    outputs = word(f, plan, PlanField.OUTPUTS)
    with f.loop(ZERO, f.add(outputs, ONE)) as loop:
        set_item(f, f.null, owners, loop.index)
    arena_bytes = word(f, plan, PlanField.ARENA)
    f.store(f.null, values)
    f.cond_br(f.icmp("eq", arena_bytes, ZERO), "outputs", "arena")
    f.label("arena")
    arena = f.call("jf_alloc", "ptr", [arena_bytes])
    f.store(arena, values)
    f.cond_br(f.icmp("ne", arena, f.null), "outputs", "no_memory", likely=True)
    f.label("outputs")
    with f.loop(ZERO, outputs) as loop:
        spec = output_spec(f, plan, loop.index)
        value = word(f, spec, SpecField.VALUE)
        set_item(f, f.null, values, value)
        with f.if_(f.icmp("eq", word(f, spec, SpecField.LATE), ZERO), likely=True):
            data = f.call("jf_alloc", "ptr", [word(f, spec, SpecField.NBYTES)])
            more, allocated, at = f.fresh("more"), loop.index, f.block
            f.cond_br(f.icmp("ne", data, f.null), more, "no_memory", likely=True)
            f.label(more)
            set_item(f, data, values, value)
    pause = f.alloca("i64", layout.PAUSE_WORDS)
    start_pauses(f, pause)
    ran = f.call("jf_ops", "ptr", [*f.args, values, owners, pause])
    launches = f.offset(state, StateField.LAUNCHES * layout.WORD)
    f.store(f.add(f.load("i64", launches), word(f, pause, PauseField.LAUNCHES)), launches)
    after = f.block
    f.br("release")
    f.label("no_memory")
    count = f.phi("i64", [(ZERO, "arena"), (allocated, at)])
    f.call("PyErr_NoMemory", "ptr", [])
    f.label("release")
    result = f.phi("ptr", [(ran, after), (f.null, "no_memory")])
    live = f.phi("i64", [(outputs, after), (count, "no_memory")])
    with f.loop(ZERO, live) as loop:
        spec = output_spec(f, plan, loop.index)
        data = item(f, values, word(f, spec, SpecField.VALUE))
        _release(f, item(f, owners, f.add(loop.index, ONE)), data, word(f, spec, SpecField.NBYTES))
    with f.if_(f.icmp("ne", arena_bytes, ZERO)):
        _release(f, f.load("ptr", owners), f.load("ptr", values), arena_bytes)
    f.ret(result)


def _release(f: Function, owner: Value, data: Value, nbytes: Value) -> None:
    """Release the array that owns a buffer, or the buffer itself where no array owns it."""
    owned, free, end = f.fresh("owned"), f.fresh("free"), f.fresh("released")
    f.cond_br(f.icmp("ne", owner, f.null), owned, free)
    f.label(owned)
    decref(f, owner)
    f.br(end)
    f.label(free)
    f.call("jf_free", "void", [data, nbytes])
    f.label(end)
