"""Native code of kernel forms, from this process, the cache or LLVM, each made once.

Owns the wiring of cache and code generator. Does not own keys (`jitfuse.compile.objects.keys`), the meaning of kernel
forms, the code generator, or the cache's files.
"""
from __future__ import annotations

import marshal
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jitfuse.backends.llvm.loader import link
from jitfuse.base import forks
from jitfuse.cache import (
    Entry,
    default_store,
    find_entry,
    nothing_stored,
    sources_known,
    sources_now,
)
from jitfuse.compile.objects.kernel_object import REFERENCE, KernelObject, Kernels, Making, kernel_text
from jitfuse.compile.objects.keys import LEVEL, object_key
from jitfuse.compile.objects.origin import Origin
from jitfuse.compile.objects.totals import count
from jitfuse.errors import CompileError

if TYPE_CHECKING:
    from jitfuse.ir.kernels.form import KernelForm

_Made = TypeVar("_Made")
_lock = threading.RLock()
_objects: weakref.WeakValueDictionary[bytes, KernelObject] = weakref.WeakValueDictionary()
"""By canonical form: the rest of a key is the same for all objects of a process."""
_homes: weakref.WeakValueDictionary[bytes, KernelObject] = weakref.WeakValueDictionary()
"""The object that holds a kernel, by the canonical form of the kernel alone."""
_started = False


def find_object(key: Callable[[], str], canonical: bytes, origin: Origin) -> tuple[KernelObject, int] | None:
    """Return the object of a key from this process or the disk, and the number of its first kernel there.

    None if it is in neither or cannot be loaded. One kernel may lie in an object with others.
    """
    with _lock:
        found = _objects.get(canonical)
        if found is not None:
            return found, 0
        home = _homes.get(canonical)
        if home is not None:
            return home, home.members[canonical]
        return first_of(lambda accept: find_entry(key, canonical, accept=accept), lambda entry: _named(entry, origin))


def first_of(find: Callable[[Callable[[Entry], bool]], object], make: Callable[[Entry], _Made | None]) -> _Made | None:
    """Return the first result of `make` that is not None, over the entries that `find` offers; None if there is none.

    An entry in a read-only folder may name an object that was removed there: it must not hide entries of later folders.
    """
    made: list[_Made] = []

    def accept(entry: Entry) -> bool:
        found = make(entry)
        if found is not None:
            made.append(found)
        return found is not None

    find(accept)
    return made[0] if made else None


def kernels_for(forms: Sequence[KernelForm], origin: Origin, *, use_cache: bool = True) -> Kernels:
    """Return the kernels of these forms, each from this process, else from the disk, else compiled.

    A kernel is found by its form, whichever program it was first made for. Missing kernels are compiled together. Two
    threads that need the same kernel compile it once. Raises CompileError if LLVM rejects the code.
    """
    names = [form.canonical_bytes for form in forms]
    with _lock:
        found = {name: (home, home.members[name]) for name in names if (home := _homes.get(name)) is not None}
        if use_cache:
            _find_on_disk([name for name in names if name not in found], found, origin)
        lacking = [form for form in forms if form.canonical_bytes not in found]
        made = None
        if lacking:
            count("cache_misses")
            canonical = b"\0".join(form.canonical_bytes for form in lacking)
            compiled = _compiled(canonical, lacking, origin, use_cache)
            made = KernelObject(canonical, compiled.code, compiled)
            made.unpublished = True
            _keep(made)
            _report(made, origin, compiled.milliseconds)
            found.update({name: (made, k) for name, k in made.members.items()})
        return Kernels([found[name] for name in names], made)


def _find_on_disk(names: Sequence[bytes], found: dict[bytes, tuple[KernelObject, int]], origin: Origin) -> None:
    """Add the kernels found on disk: all in one object, as made for the same program before, or one by one."""
    if not names:
        return
    whole = b"\0".join(names)
    together = find_object(partial(object_key, whole), whole, origin)
    if together is not None:
        made, first = together
        found.update({name: (made, first + k) for k, name in enumerate(names)})
        return
    for name in names if len(names) > 1 and not nothing_stored(default_store()) else ():
        loaded = find_object(partial(object_key, name), name, origin)
        if loaded is not None:
            found[name] = loaded


def start_compiler(*, use_cache: bool) -> None:
    """Import LLVM and compile a small loop in the background, if kernels will surely be compiled.

    LLVM's code generator takes 3 to 4 ms to start, without the interpreter's lock. It is a tenth faster with the first
    kernel if it has compiled vectors, masks and a branch before.
    """
    global _started
    if _started or (use_cache and not nothing_stored(default_store())):
        return
    from jitfuse.backends.llvm.jit import FIRST_TEXT, emitter
    from jitfuse.base.future import Future

    _started = True
    Future(emitter(FIRST_TEXT, level=LEVEL))


def _loaded(entry: Entry, origin: Origin) -> KernelObject | None:
    """Return the object of an intact cache entry; None if it cannot be loaded."""
    begin = time.perf_counter()
    try:
        made = KernelObject(entry.canonical, entry.code, entry)
    except CompileError as error:
        default_store().reject(entry.key, str(error), count=False)
        return None
    made.load_ms = (time.perf_counter() - begin) * 1e3
    _keep(made)
    count("cache_hits")
    _report(made, origin, made.load_ms)
    return made


def _named(entry: Entry, origin: Origin) -> tuple[KernelObject, int] | None:
    """Return the object that an entry holds or refers to, and the kernel's number; None if it is gone."""
    if not entry.code.startswith(REFERENCE):
        made = _loaded(entry, origin)
        return None if made is None else (made, 0)
    store = default_store()
    try:
        key, number = marshal.loads(entry.code[len(REFERENCE) :])
        return first_of(lambda accept: store.load(key, None, accept=accept),
                        lambda whole: _member(whole, entry.canonical, number, origin))
    except (EOFError, MemoryError, TypeError, ValueError) as error:  # not written by jitfuse
        store.reject(entry.key, f"it names no object: {error}", count=False)
        return None


def _member(whole: Entry, form: bytes, number: object, origin: Origin) -> tuple[KernelObject, int] | None:
    """Return the object of an entry, and the kernel's number if that kernel has this form; else None."""
    if whole.code.startswith(REFERENCE):
        return None
    made = _objects.get(whole.canonical) or _loaded(whole, origin)
    return None if made is None or made.members.get(form) != number else (made, made.members[form])


def _keep(made: KernelObject) -> None:
    """Make an object and each of its kernels findable as long as it is used."""
    _objects[made.canonical] = made
    for form in made.members:
        _homes[form] = made


def _compiled(canonical: bytes, forms: Sequence[KernelForm], origin: Origin, use_cache: bool) -> Making:
    """Compile the forms; meanwhile make their metadata, if those are wanted and the sources have been read."""
    from jitfuse.backends.llvm.jit import emitter
    from jitfuse.base.future import Future

    begin = time.perf_counter()
    text = kernel_text(forms)
    emit = emitter(text, level=LEVEL)
    count("compiles")
    making = Making(canonical, origin, (forms, text) if use_cache else None)
    if use_cache and sources_known():
        made = Future(lambda: (emit(), time.perf_counter()))
        making.key_and_metadata()
        sources_now()  # last: later imports would make it read again
        code, end = made.result()
    else:
        code, end = emit(), time.perf_counter()
    making.code, making.milliseconds = link(code), (end - begin) * 1e3
    return making


def _report(made: KernelObject, origin: Origin, elapsed: float) -> None:
    """Write one log line per kernel if JITFUSE_LOG asks for it."""
    if not os.environ.get("JITFUSE_LOG"):
        return
    import logging

    from jitfuse.ir.kernels.decoding import form_of

    log = logging.getLogger("jitfuse")
    for form, k in made.members.items():
        kernel = form_of(form)
        inputs = sum(not o.out for o in kernel.operands)
        log.warning(
            "kernel %s/%d of %s: %d in, %d out, %d ops, %.2f ms, %s", made.key[:12], k, origin.function, inputs,
            len(kernel.operands) - inputs, sum(len(stage.body) for stage in kernel.stages), elapsed,
            "hit" if made.from_cache else "miss",
        )


@forks.renew
def _renew_lock() -> None:
    """Replace the lock in a forked child: a thread that does not exist there may have held the old one."""
    global _lock
    _lock = threading.RLock()
