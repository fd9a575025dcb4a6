"""Kernels: native code of kernel forms, from this process, the cache or LLVM, each made once.

Owns the wiring of cache and code generator. Does not own keys (`jitfuse.compile.keys`), what a kernel form means, the
code generator, or the cache's files.
"""
from __future__ import annotations

import marshal
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jitfuse.backends.llvm.loader import link, load
from jitfuse.cache import (
    Entry,
    compress_text,
    default_store,
    expand_text,
    find_entry,
    nothing_stored,
    sources_known,
    sources_now,
)
from jitfuse.compile.keys import LEVEL, kernel_parts, object_key
from jitfuse.compile.origin import Origin, entry_metadata, recorded_milliseconds
from jitfuse.compile.totals import count
from jitfuse.errors import CompileError

if TYPE_CHECKING:
    from jitfuse.ir.kernel import KernelForm

_lock = threading.RLock()
_objects: weakref.WeakValueDictionary[bytes, KernelObject] = weakref.WeakValueDictionary()
"""By canonical form: the rest of a key is the same for all objects of a process."""
_homes: weakref.WeakValueDictionary[bytes, KernelObject] = weakref.WeakValueDictionary()
"""The object that holds a kernel, by the canonical form of the kernel alone."""
_REFERENCE: Final = b"kernel in "
"""How an entry begins that says in which object a kernel lies; native code begins otherwise on every system."""
_MARSHAL: Final = 2
_started = False


class KernelObject:
    """Loaded native code of an ordered tuple of kernel forms; freed with its last user.

    Raises CompileError where the code cannot be loaded or lacks one of the kernels.
    """

    def __init__(self, canonical: bytes, code: bytes, entry: Entry | Making) -> None:
        self.canonical = canonical
        self.from_cache = isinstance(entry, Entry)
        self.load_ms = 0.0
        self.unpublished = False
        """Whether it was compiled here and is not in the cache yet."""
        self.members = {form: k for k, form in enumerate(canonical.split(b"\0"))}
        """The number of each kernel, by its canonical form."""
        self._entry = entry
        self._library = load(code)
        if lacking := {f"k{k}" for k in self.members.values()} - self._library.names:
            raise CompileError(f"the object has no kernel {', '.join(sorted(lacking))}")

    @property
    def entry(self) -> Entry:
        """The object as the cache has it."""
        if not isinstance(self._entry, Entry):
            self._entry = self._entry.entry()
        return self._entry

    @property
    def key(self) -> str:
        """The object's key in the cache."""
        return self.entry.key

    def entries(self) -> Iterator[Entry]:
        """Yield the object's entry, then those by which its kernels are found one by one."""
        yield self.entry
        yield from references(self.entry, object_key)

    def address(self, k: int) -> int:
        """Return the address of the k-th kernel."""
        return self._library.address(f"k{k}")

    @property
    def compile_ms(self) -> float:
        """Milliseconds that generating and compiling the code took, whichever process did it."""
        return recorded_milliseconds(self.entry)

    @property
    def source(self) -> str:
        """The LLVM IR of the object."""
        return expand_text(self.entry.metadata.get("ir"))

    @property
    def assembly(self) -> str:
        """The object's assembly: the cached IR through the same code generator."""
        from jitfuse.backends.llvm.jit import assembly

        return assembly(self.source, level=LEVEL)


class Kernels:
    """The kernels of a plan, by number: each is one of an object's. `compiled` is the object that was made for them."""

    def __init__(self, places: Sequence[tuple[KernelObject, int]], compiled: KernelObject | None = None) -> None:
        self.places = tuple(places)
        self.compiled = compiled

    @property
    def objects(self) -> tuple[KernelObject, ...]:
        """The objects, each once, in the order of the kernels."""
        return tuple(dict.fromkeys(made for made, _ in self.places))

    def address(self, k: int) -> int:
        """Return the address of the k-th kernel."""
        made, number = self.places[k]
        return made.address(number)


class Making:
    """What the entry of an object says that LLVM makes now, and once it is made, the entry.

    Most of a first entry is reading sources for its key: it is made beside the compilation where they are known
    already, else when somebody asks.
    """

    def __init__(self, canonical: bytes, forms: Sequence[KernelForm], origin: Origin, text: str) -> None:
        self.canonical = canonical
        self.code = b""
        self.milliseconds = 0.0
        self._forms = forms
        self._origin = origin
        self._text = text
        self._said: tuple[str, dict[str, Any]] | None = None

    def say(self) -> tuple[str, dict[str, Any]]:
        """Return key and metadata."""
        from jitfuse.cache.parts import describe

        if self._said is None:
            forms = self._forms
            self._said = object_key(self.canonical), {
                **entry_metadata(self._origin), "ir": compress_text(self._text),
                "kernels": [f"k{k}" for k in range(len(forms))],
                "forms": compress_text("\n\n".join(str(f) for f in forms)), "program": self._origin.program_text,
                **describe(kernel_parts(), "forms"),
            }
        return self._said

    def entry(self) -> Entry:
        """Return the entry of the object, which is compiled."""
        key, metadata = self.say()
        return Entry(key, {**metadata, "compile_ms": round(self.milliseconds, 3)}, self.canonical, self.code)


def references(entry: Entry, key_of: Callable[[bytes], str]) -> Iterator[Entry]:
    """Yield the entries by which the kernels of an object of several are found one by one.

    `key_of` returns the key that an object of a form alone would have where the object was made.
    """
    told = {name: entry.metadata.get(name) for name in ("function", "source", "created")}
    forms = entry.canonical.split(b"\0")
    for k, form in enumerate(forms) if len(forms) > 1 else ():
        place = _REFERENCE + marshal.dumps((entry.key, k), _MARSHAL)
        yield Entry(key_of(form), {"kind": "reference", **told}, form, place)


def find_object(key: Callable[[], str], canonical: bytes, origin: Origin) -> tuple[KernelObject, int] | None:
    """Return the object of a key from this process or the disk, and the number of the first of its kernels there.

    None where it is not there or cannot be loaded. One kernel may lie in an object with others.
    """
    with _lock:
        found = _objects.get(canonical)
        if found is not None:
            return found, 0
        home = _homes.get(canonical)
        if home is not None:
            return home, home.members[canonical]
        entry = find_entry(key, canonical)
        if entry is None:
            return None
        if not entry.code.startswith(_REFERENCE):
            made = _loaded(entry, origin)
            return None if made is None else (made, 0)
        return _referred(entry, origin)


def kernels_for(forms: Sequence[KernelForm], origin: Origin, *, use_cache: bool = True) -> Kernels:
    """Return the kernels of these forms, each from this process, else from the disk, else compiled.

    Whatever program a kernel was first made for, it is found by its form; those that nobody has made are compiled
    together. Two threads that ask at once compile once. Raises CompileError where LLVM refuses the code.
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
            compiled = _compiled(canonical, lacking, origin)
            made = KernelObject(canonical, compiled.code, compiled)
            made.unpublished = True
            _keep(made)
            _report(made, origin, compiled.milliseconds)
            found.update({name: (made, k) for name, k in made.members.items()})
        return Kernels([found[name] for name in names], made)


def _find_on_disk(names: Sequence[bytes], found: dict[bytes, tuple[KernelObject, int]], origin: Origin) -> None:
    """Add the kernels that the disk has: all of them in one object, as a program like this one made them, or each."""
    if not names:
        return
    whole = b"\0".join(names)
    together = find_object(partial(object_key, whole), whole, origin)
    if together is not None:
        made, first = together
        found.update({name: (made, first + k) for k, name in enumerate(names)})
        return
    for name in names if len(names) > 1 and not nothing_stored(default_store()) else ():
        place = find_object(partial(object_key, name), name, origin)
        if place is not None:
            found[name] = place


def start_compiler(*, use_cache: bool) -> None:
    """Import LLVM and let it compile a small loop beside what follows, where it will surely be asked for something.

    Its code generator takes 3 to 4 ms to start, holds no lock of the interpreter meanwhile, and is a tenth quicker with
    the first kernel for having seen vectors, masks and a branch before.
    """
    global _started
    if _started or (use_cache and not nothing_stored(default_store())):
        return
    from jitfuse.backends.llvm.jit import FIRST_TEXT, emitter
    from jitfuse.beside import Beside

    _started = True
    Beside(emitter(FIRST_TEXT, level=LEVEL))


def _loaded(entry: Entry, origin: Origin) -> KernelObject | None:
    """Return the object of an entry from the cache; None where, whole as it is, it cannot be loaded."""
    begin = time.perf_counter()
    try:
        made = KernelObject(entry.canonical, entry.code, entry)
    except CompileError as error:
        default_store().refuse(entry.key, str(error))
        return None
    made.load_ms = (time.perf_counter() - begin) * 1e3
    _keep(made)
    count("cache_hits")
    _report(made, origin, made.load_ms)
    return made


def _referred(entry: Entry, origin: Origin) -> tuple[KernelObject, int] | None:
    """Return the object that an entry says its kernel is in, and the kernel's number; None where it is not there."""
    try:
        key, number = marshal.loads(entry.code[len(_REFERENCE) :])
        whole = default_store().load(key, None)
    except (EOFError, TypeError, ValueError) as error:  # not what we write
        default_store().refuse(entry.key, f"it names no object: {error}")
        return None
    if whole is None or whole.code.startswith(_REFERENCE):
        return None
    made = _objects.get(whole.canonical) or _loaded(whole, origin)
    return None if made is None or made.members.get(entry.canonical) != number else (made, number)


def _keep(made: KernelObject) -> None:
    """Have an object found, and each of its kernels, as long as somebody uses it."""
    _objects[made.canonical] = made
    for form in made.members:
        _homes[form] = made


def _compiled(canonical: bytes, forms: Sequence[KernelForm], origin: Origin) -> Making:
    """Have the forms compiled, and beside it what their entry says, if that takes no reading of sources."""
    from jitfuse.backends.llvm.jit import emitter
    from jitfuse.beside import Beside

    begin = time.perf_counter()
    text = kernel_text(forms)
    emit = emitter(text, level=LEVEL)
    count("compiles")
    making = Making(canonical, forms, origin, text)
    if sources_known():
        made = Beside(lambda: (emit(), time.perf_counter()))
        making.say()
        sources_now()  # last: what is imported after it has it done again
        code, end = made.result()
    else:
        code, end = emit(), time.perf_counter()
    making.code, making.milliseconds = link(code), (end - begin) * 1e3
    return making


def kernel_text(forms: Sequence[KernelForm]) -> str:
    """Return the LLVM IR of kernel forms; the same in every process on this kind of machine."""
    from jitfuse.backends.llvm.builder import Module
    from jitfuse.backends.llvm.codegen.kernel import emit_kernel
    from jitfuse.backends.llvm.jit import host_target

    module = Module()
    for k, form in enumerate(forms):
        emit_kernel(module, f"k{k}", form, host_target())
    return module.text()


def kernel_code(forms: Sequence[KernelForm]) -> bytes:
    """Return the code of kernel forms as it is stored; the same in every process on this kind of machine."""
    from jitfuse.backends.llvm.jit import compile_text

    return link(compile_text(kernel_text(forms), level=LEVEL))


def _report(made: KernelObject, origin: Origin, elapsed: float) -> None:
    """Write one log line for each kernel where JITFUSE_LOG asks for it."""
    if not os.environ.get("JITFUSE_LOG"):
        return
    import logging

    from jitfuse.ir.form_codec import form_of

    log = logging.getLogger("jitfuse")
    for form, k in made.members.items():
        kernel = form_of(form)
        inputs = sum(not o.out for o in kernel.operands)
        log.warning(
            "kernel %s/%d of %s: %d in, %d out, %d ops, %.2f ms, %s", made.key[:12], k, origin.function, inputs,
            len(kernel.operands) - inputs, sum(len(stage.body) for stage in kernel.stages), elapsed,
            "hit" if made.from_cache else "miss",
        )


def _after_fork() -> None:
    """In a forked child: a fresh lock; a thread that is not there may have held the old one."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
