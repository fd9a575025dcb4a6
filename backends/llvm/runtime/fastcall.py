"""Emits the vectorcall function of fused functions, and with it the whole native call path.

Owns: `jf_fastcall`, `jf_enter`, `jf_miss`: the mode, the walk over entries, the frame. Does not own guards, plans
and results.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.driver import emit_driver, frame_values
from jitfuse.backends.llvm.runtime.guards import emit_guards
from jitfuse.backends.llvm.runtime.layout import Config, EntryField, PlanField, StateField
from jitfuse.backends.llvm.runtime.op_basis import LEFT
from jitfuse.backends.llvm.runtime.pyobject import (
    ONE,
    ZERO,
    add_to_word,
    address,
    config,
    decref,
    decref_range,
    emit_configure,
    equal,
    item,
    set_item,
    word,
)
from jitfuse.backends.llvm.runtime.results import emit_results
from jitfuse.backends.llvm.text.builder import Function, Module, Value

_ACCEPTED = Value(f"@{layout.ERROR_STATE_ACCEPTED}", "ptr")

_FAILED = Value("inttoptr (i64 1 to ptr)", "ptr")
"""The result of `jf_enter` where the entry's guards do not pass."""

_NO_INDEX = Value(str(1 << 62), "i64")
"""A position that no argument has, also after adding one: no argument is skipped."""


def emit_call_path(module: Module) -> None:
    """Add all of the call path to a module that has, or will get, the pool and the allocator."""
    emit_configure(module)
    emit_guards(module)
    emit_results(module)
    emit_driver(module)
    emit_fastcall(module)


def emit_fastcall(module: Module) -> None:
    """Add ``ptr jf_fastcall(ptr self, ptr args, i64 nargsf, ptr kwnames)``, a vectorcallfunc."""
    module.global_(layout.ERROR_STATE_ACCEPTED, "global ptr null, align 8")
    _emit_find_name(module)
    _emit_names_match(module)
    _emit_fastcall(module)
    _emit_enter(module)
    _emit_miss(module)


def _emit_find_name(module: Module) -> None:
    """``i64 jf_find_name(ptr names, i64 count, ptr name)``: a name's index by identity, then by equality."""
    f = module.function("jf_find_name", "i64", [("names", "ptr"), ("count", "i64"), ("name", "ptr")],
                        internal=True)
    names, count, name = f.args
    with f.loop(ZERO, count) as loop, f.if_(f.icmp("eq", item(f, names, loop.index), name)):
        f.ret(loop.index)
    with f.loop(ZERO, count) as loop, f.if_(equal(f, item(f, names, loop.index), name)):
        f.ret(loop.index)
    f.ret(_NO_INDEX)


def _emit_names_match(module: Module) -> None:
    """``i1 jf_names_match(ptr wanted, i64 count, ptr names, i64 skip)``: equal names, except position `skip`."""
    parameters = [("wanted", "ptr"), ("count", "i64"), ("names", "ptr"), ("skip", "i64")]
    f = module.function("jf_names_match", "i1", parameters, internal=True)
    wanted, count, names, skip = f.args
    with f.loop(ZERO, count) as loop:
        a, b = item(f, wanted, loop.index), item(f, names, _skipping(f, loop.index, skip))
        with f.if_(f.icmp("ne", a, b), likely=False), f.if_(f.not_(equal(f, a, b)), likely=True):
            f.ret(f.const("i1", False))
    f.ret(f.const("i1", True))


def _skipping(f: Function, index: Value, skip: Value) -> Value:
    """Return `index`, plus 1 from position `skip` on."""
    return f.add(index, f.cast("zext", f.icmp("sge", index, skip), "i64"))


def _mode(f: Function, flag: Value) -> Value:
    """Return the mode for exactly True or False; any other object is a miss."""
    true = f.icmp("eq", flag, config(f, Config.TRUE))
    valid = f.fresh("valid")
    f.cond_br(f.or_(true, f.icmp("eq", flag, config(f, Config.FALSE))), valid, "miss", likely=True)
    f.label(valid)
    return f.cast("zext", true, "i64")


def _emit_fastcall(module: Module) -> None:
    f = module.function(
        "jf_fastcall", "ptr", [("self", "ptr"), ("args", "ptr"), ("nargsf", "i64"), ("kwnames", "ptr")]
    )
    self_, args, nargsf, kwnames = f.args
    state = f.field("ptr", self_, layout.CALLABLE_STATE)
    positional = f.and_(nargsf, f.const("i64", layout.VECTORCALL_COUNT_MASK))
    _decline_other_error_states(f)
    default = word(f, state, StateField.DEFAULT_MODE)
    beginning = f.block
    f.cond_br(f.icmp("eq", kwnames, f.null), "start", "keywords")

    f.label("keywords")
    names = f.offset(kwnames, layout.TUPLE_ITEMS)
    all_ = f.field("i64", kwnames, layout.VAR_SIZE)
    skip = f.call("jf_find_name", "i64", [names, all_, address(f, state, StateField.TRAINING)])
    f.cond_br(f.icmp("eq", skip, _NO_INDEX), "start", "flag")
    f.label("flag")
    keyword_mode = _mode(f, item(f, args, f.add(positional, skip)))
    others, flag_block = f.sub(all_, ONE), f.block

    f.label("start")
    mode = f.phi("i64", [(default, beginning), (default, "keywords"), (keyword_mode, flag_block)])
    count = f.phi("i64", [(ZERO, beginning), (all_, "keywords"), (others, flag_block)])
    skipped = f.phi("i64", [(_NO_INDEX, beginning), (_NO_INDEX, "keywords"), (skip, flag_block)])
    kwitems = f.phi("ptr", [(f.null, beginning), (names, "keywords"), (names, flag_block)])
    first = address(f, state, StateField.FIRST_ENTRY)
    f.label("try")
    f.emit(f"%candidate = phi ptr [ {first.ref}, %start ], [ %after, %next ]")
    entry = Value("%candidate", "ptr")
    f.cond_br(f.icmp("eq", entry, f.null), "miss", "counts", likely=False)
    f.label("counts")
    same = f.and_(
        f.icmp("eq", word(f, entry, EntryField.POSITIONAL), positional),
        f.icmp("eq", word(f, entry, EntryField.KEYWORD_COUNT), count),
    )
    f.cond_br(same, "names", "next", likely=True)
    f.label("names")
    f.cond_br(f.icmp("eq", count, ZERO), "named", "compare")
    f.label("compare")
    matches = f.call("jf_names_match", "i1", [address(f, entry, EntryField.KEYWORDS), count, kwitems, skipped])
    f.cond_br(matches, "named", "next", likely=True)
    f.label("named")
    plan = item(f, f.offset(entry, EntryField.EVALUATION * layout.WORD), mode)
    f.cond_br(f.icmp("ne", plan, f.null), "enter", "next", likely=True)
    f.label("enter")
    result = f.call("jf_enter", "ptr", [entry, plan, state, args, f.add(positional, skipped)])
    f.cond_br(f.icmp("eq", result, _FAILED), "next", "finished", likely=False)
    f.label("finished")
    f.cond_br(f.icmp("eq", result, LEFT), "miss", "answered", likely=False)
    f.label("answered")
    add_to_word(f, entry, EntryField.ANSWERS, 1)
    f.ret(result)
    f.label("next")
    f.emit(f"%after = load ptr, ptr {f.offset(entry, EntryField.NEXT * layout.WORD).ref}")
    f.br("try")
    f.label("miss")
    add_to_word(f, state, StateField.MISSES, 1)
    f.ret(f.call("jf_miss", "ptr", [address(f, state, StateField.MISS), self_, args, positional, kwnames]))


def _decline_other_error_states(f: Function) -> None:
    """Miss where `np.errstate` is not the last one that Python has accepted for native calls."""
    found = f.alloca("ptr", 1)
    f.call("PyContextVar_Get", "i32", [config(f, Config.ERROR_STATE), f.null, found])
    current = f.load("ptr", found)
    decref(f, current)
    same = f.icmp("eq", current, f.load("ptr", _ACCEPTED))
    allowed = f.fresh("allowed")
    f.cond_br(same, allowed, "miss", likely=True)
    f.label(allowed)


def _emit_enter(module: Module) -> None:
    """``ptr jf_enter(ptr entry, ptr plan, ptr state, ptr args, i64 skip)``: try an entry whose arity fits.

    Argument number `skip` (the keyword `training`) is skipped. Returns the result of `jf_driver`, which may be `LEFT`
    (the call continues as a miss), or `_FAILED`.
    """
    parameters = [("entry_words", "ptr"), ("plan", "ptr"), ("state", "ptr"), ("args", "ptr"), ("skip", "i64")]
    f = module.function("jf_enter", "ptr", parameters, internal=True)
    entry, plan, state, args, skip = f.args
    size = word(f, plan, PlanField.FRAME_WORDS)
    on_stack = f.alloca("i64", layout.FRAME_WORDS_ON_STACK)
    small = f.icmp("sle", size, f.const("i64", layout.FRAME_WORDS_ON_STACK))
    f.cond_br(small, "framed", "heap", likely=True)
    f.label("heap")
    memory = f.call("PyMem_Malloc", "ptr", [f.mul(size, f.const("i64", layout.WORD))])
    with f.if_(f.icmp("eq", memory, f.null), likely=False):
        f.ret(f.call("PyErr_NoMemory", "ptr", []))
    heap = f.block
    f.label("framed")
    frame = f.phi("ptr", [(on_stack, "entry"), (memory, heap)])
    arguments = f.add(word(f, entry, EntryField.POSITIONAL), word(f, entry, EntryField.KEYWORD_COUNT))
    with f.loop(ZERO, arguments) as loop:
        set_item(f, item(f, args, _skipping(f, loop.index, skip)), frame, loop.index)
    cells = f.offset(frame, word(f, entry, EntryField.SLOTS), "i64")
    filled = f.call("jf_guards", "i64", [entry, frame, cells, frame_values(f, entry, frame)])
    f.cond_br(f.icmp("sge", filled, ZERO), "run", "failed", likely=True)
    f.label("failed")
    partly = f.not_(filled)
    f.br("release")
    f.label("run")
    ran = f.call("jf_driver", "ptr", [plan, entry, state, frame])
    f.label("release")
    result = f.phi("ptr", [(_FAILED, "failed"), (ran, "run")])
    stop = f.phi("i64", [(partly, "failed"), (filled, "run")])
    decref_range(f, frame, arguments, stop)
    with f.if_(f.not_(small), likely=False):
        f.call("PyMem_Free", "void", [frame])
    f.ret(result)


def _emit_miss(module: Module) -> None:
    """``ptr jf_miss(ptr miss, ptr self, ptr args, i64 positional, ptr kwnames)``: miss(self, ...)."""
    parameters = [("function", "ptr"), ("self", "ptr"), ("args", "ptr"), ("positional", "i64"),
                  ("kwnames", "ptr")]
    f = module.function("jf_miss", "ptr", parameters, internal=True)
    function, self_, args, positional, kwnames = f.args
    f.cond_br(f.icmp("eq", kwnames, f.null), "counted", "keywords")
    f.label("keywords")
    names = f.field("i64", kwnames, layout.VAR_SIZE)
    f.label("counted")
    count = f.add(positional, f.phi("i64", [(ZERO, "entry"), (names, "keywords")]))
    memory = f.call("PyMem_Malloc", "ptr", [f.mul(f.add(count, ONE), f.const("i64", layout.WORD))])
    with f.if_(f.icmp("eq", memory, f.null), likely=False):
        f.ret(f.call("PyErr_NoMemory", "ptr", []))
    f.store(self_, memory)
    rest = f.offset(memory, layout.WORD)
    with f.loop(ZERO, count) as loop:
        set_item(f, item(f, args, loop.index), rest, loop.index)
    result = f.call("PyObject_Vectorcall", "ptr", [function, memory, f.add(positional, ONE), kwnames])
    f.call("PyMem_Free", "void", [memory])
    f.ret(result)
