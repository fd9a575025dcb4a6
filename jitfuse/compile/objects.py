"""Objects: the native code of a set of kernel forms, from the cache or from LLVM, once per process.

Owns the wiring of cache and code generator. Does not own keys (`jitfuse.compile.keys`), what a kernel form means, the
code generator, or the cache's files.
"""
from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
from jitfuse.compile.call_plan import KernelFacts
from jitfuse.compile.keys import LEVEL, kernel_parts, object_key
from jitfuse.compile.origin import Origin, entry_metadata, recorded_milliseconds
from jitfuse.compile.totals import count
from jitfuse.errors import CompileError

if TYPE_CHECKING:
    from jitfuse.ir.kernel import KernelForm

_lock = threading.RLock()
_objects: weakref.WeakValueDictionary[bytes, KernelObject] = weakref.WeakValueDictionary()
"""By canonical form: the rest of a key is the same for all objects of a process."""
_started = False


class KernelObject:
    """Loaded native code of an ordered tuple of kernel forms; freed with its last user.

    Raises CompileError where the code cannot be loaded or lacks one of the kernels.
    """

    def __init__(self, code: bytes, kernels: int, entry: Entry | Making) -> None:
        self.from_cache = isinstance(entry, Entry)
        self.load_ms = 0.0
        self.unpublished = False
        """Whether it was compiled here and is not in the cache yet."""
        self._entry = entry
        self._library = load(code)
        if lacking := {f"k{k}" for k in range(kernels)} - self._library.names:
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


def find_object(
    key: Callable[[], str], canonical: bytes, facts: Sequence[KernelFacts], origin: Origin
) -> KernelObject | None:
    """Return the object of a key from this process or the disk; None where it is not there or cannot be loaded.

    `facts` tells of each of its kernels.
    """
    with _lock:
        found = _objects.get(canonical)
        if found is not None:
            return found
        made = _loaded(key, canonical, len(facts))
        if made is not None:
            _objects[canonical] = made
            count("cache_hits")
            _report(made, facts, origin, made.load_ms)
        return made


def kernel_object(
    forms: Sequence[KernelForm], facts: Sequence[KernelFacts], origin: Origin, *, use_cache: bool = True
) -> KernelObject:
    """Return the object of these forms, from this process, else from the disk, else compiled.

    Two threads that ask at once compile once. Raises CompileError where LLVM refuses the code.
    """
    canonical = b"\0".join(f.canonical_bytes for f in forms)
    with _lock:
        if use_cache:
            found = find_object(lambda: object_key(canonical), canonical, facts, origin)
        else:
            found = _objects.get(canonical)
        if found is not None:
            return found
        count("cache_misses")
        compiled = _compiled(canonical, forms, origin)
        made = _objects[canonical] = KernelObject(compiled.code, len(forms), compiled)
        made.unpublished = use_cache
        _report(made, facts, origin, compiled.milliseconds)
        return made


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


def _loaded(key: Callable[[], str], canonical: bytes, kernels: int) -> KernelObject | None:
    """Return the object from the cache; None where it is not there or, whole as it is, cannot be loaded."""
    begin = time.perf_counter()
    entry = find_entry(key, canonical)
    if entry is None:
        return None
    try:
        made = KernelObject(entry.code, kernels, entry)
    except CompileError as error:
        default_store().refuse(entry.key, str(error))
        return None
    made.load_ms = (time.perf_counter() - begin) * 1e3
    return made


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


def _report(made: KernelObject, facts: Sequence[KernelFacts], origin: Origin, elapsed: float) -> None:
    """Write one log line for each kernel where JITFUSE_LOG asks for it."""
    if not os.environ.get("JITFUSE_LOG"):
        return
    import logging

    log = logging.getLogger("jitfuse")
    for k, kernel in enumerate(facts):
        log.warning(
            "kernel %s/%d of %s: %d in, %d out, %d ops, %.2f ms, %s", made.key[:12], k, origin.function, kernel.inputs,
            kernel.outputs, kernel.instructions, elapsed, "hit" if made.from_cache else "miss",
        )


def _after_fork() -> None:
    """In a forked child: a fresh lock; a thread that is not there may have held the old one."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
