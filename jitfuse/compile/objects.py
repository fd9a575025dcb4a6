"""Objects: the native code of a set of kernel forms, from the cache or from LLVM, once per process.

Owns: keys, the wiring of cache and code generator, the totals that tests count, the runtime's own object.
Does not own what a kernel form means, the code generator, or the cache's files.
"""
from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jitfuse.backends.llvm.loader import Library, load
from jitfuse.backends.llvm.runtime import native
from jitfuse.backends.llvm.target import machine_identity
from jitfuse.cache import Entry, cache_key, compress_text, default_store, environment_parts, expand_text, publish
from jitfuse.compile.call_plan import KernelFacts
from jitfuse.errors import CompileError, FallbackWarning
from jitfuse.ir.program import FusedProgram
from jitfuse.records import Record

if TYPE_CHECKING:
    from jitfuse.ir.kernel import KernelForm

LEVEL: Final = 1
"""LLVM code generation level of kernels: explicit vectors leave nothing for the higher ones to do."""


class Totals(Record):
    """What was done so far: modules given to LLVM, objects found in and missing from the cache."""

    compiles: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


class _ThreadTotals(threading.local, Totals):
    pass


_totals = Totals()
_own_totals = _ThreadTotals()
_lock = threading.RLock()
_objects: weakref.WeakValueDictionary[str, KernelObject] = weakref.WeakValueDictionary()


def totals() -> Totals:
    """Return the counts of this process."""
    return _totals


def thread_totals() -> Totals:
    """Return the counts of this thread alone: what others compile meanwhile is not in them."""
    return _own_totals


def count(name: str) -> None:
    """Add one to a total."""
    for counts in (_totals, _own_totals):
        setattr(counts, name, getattr(counts, name) + 1)


class Origin(Record, frozen=True):
    """Whose kernels these are, for people: the function's name, its file and line, and the program they were first
    made for."""

    function: str
    source: str
    program: FusedProgram | None = None

    @property
    def program_text(self) -> dict[str, str]:
        """The program as metadata of an entry; what is long in it, such as literal arrays, is cut short."""
        lines = str(self.program).splitlines() if self.program is not None else []
        return compress_text("\n".join([line if len(line) <= 500 else f"{line[:500]} ..." for line in lines[:10_000]]))


class KernelObject:
    """Loaded native code of an ordered tuple of kernel forms; freed with its last user.

    Raises CompileError where the code cannot be loaded or lacks one of the kernels.
    """

    def __init__(self, entry: Entry, kernels: int, from_cache: bool) -> None:
        self.key = entry.key
        self.from_cache = from_cache
        self.load_ms = 0.0
        self.entry = entry
        self._library = load(entry.code)
        if lacking := {f"k{k}" for k in range(kernels)} - self._library.names:
            raise CompileError(f"the object has no kernel {', '.join(sorted(lacking))}")

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


def recorded_milliseconds(entry: Entry) -> float:
    """Return how long an entry's code took to make, as its metadata say; they are text that anything may be in."""
    value = entry.metadata.get("compile_ms")
    return float(value) if isinstance(value, int | float) else 0.0


@cache
def target_of_host() -> Any:
    """Return the target that kernels are made for."""
    from jitfuse.backends.llvm.jit import host_target

    return host_target()


@cache
def environment(*, touches_python: bool) -> dict[str, Any]:
    """Return the key parts that every object of this process has in common."""
    return dict(environment_parts("llvm", touches_python=touches_python, extra={"machine": machine_identity()}))


def object_key(canonical: bytes) -> str:
    """Return the key of the object of these forms for this machine, jitfuse and LLVM."""
    return cache_key({**kernel_parts(), "forms": canonical})


def find_object(key: str, canonical: bytes, facts: Sequence[KernelFacts], origin: Origin) -> KernelObject | None:
    """Return the object of a key from this process or the disk; None where it is not there or cannot be loaded.

    `facts` tells of each of its kernels.
    """
    with _lock:
        found = _objects.get(key)
        if found is not None:
            return found
        made = _loaded(key, canonical, len(facts))
        if made is not None:
            _objects[key] = made
            count("cache_hits")
            _report(made, facts, origin, made.load_ms)
        return made


def kernel_object(
    forms: Sequence[KernelForm], facts: Sequence[KernelFacts], origin: Origin, *, use_cache: bool = True
) -> tuple[KernelObject, Entry | None]:
    """Return the object of these forms, from this process, else from the disk, else compiled, and what to publish.

    Two threads that ask at once compile once. Raises CompileError where LLVM refuses the code.
    """
    canonical = b"\0".join(f.canonical_bytes for f in forms)
    key = object_key(canonical)
    with _lock:
        found = find_object(key, canonical, facts, origin) if use_cache else _objects.get(key)
        if found is not None:
            return found, None
        count("cache_misses")
        entry = _compiled(key, canonical, forms, origin)
        made = _objects[key] = KernelObject(entry, len(forms), False)
        _report(made, facts, origin, made.compile_ms)
        return made, entry if use_cache else None


def kernel_parts() -> dict[str, Any]:
    """Return the parts of the keys of this process's kernels, all but their forms."""
    return {**environment(touches_python=False), "level": LEVEL}


def _loaded(key: str, canonical: bytes, kernels: int) -> KernelObject | None:
    """Return the object from the cache; None where it is not there or, whole as it is, cannot be loaded."""
    begin = time.perf_counter()
    store = default_store()
    entry = store.load(key, canonical)
    if entry is None:
        return None
    try:
        made = KernelObject(entry, kernels, True)
    except CompileError as error:
        store.refuse(key, str(error))
        return None
    made.load_ms = (time.perf_counter() - begin) * 1e3
    return made


def _compiled(key: str, canonical: bytes, forms: Sequence[KernelForm], origin: Origin) -> Entry:
    from jitfuse.cache.parts import describe

    begin = time.perf_counter()
    text, code = generate(forms)
    count("compiles")
    elapsed = (time.perf_counter() - begin) * 1e3
    metadata = {
        **_metadata(origin, elapsed, text), "kernels": [f"k{k}" for k in range(len(forms))],
        "forms": compress_text("\n\n".join(str(f) for f in forms)), "program": origin.program_text,
        **describe(kernel_parts(), "forms"),
    }
    return Entry(key, metadata, canonical, code)


def generate(forms: Sequence[KernelForm]) -> tuple[str, bytes]:
    """Return the LLVM IR and the machine code of kernel forms; the same in every process on this kind of machine."""
    from jitfuse.backends.llvm.builder import Module
    from jitfuse.backends.llvm.codegen.kernel import emit_kernel
    from jitfuse.backends.llvm.jit import compile_text

    module = Module()
    for k, form in enumerate(forms):
        emit_kernel(module, f"k{k}", form, target_of_host())
    text = module.text()
    return text, compile_text(text, level=LEVEL)


def _metadata(origin: Origin, compile_ms: float, text: str) -> dict[str, Any]:
    """Return what an entry says of itself to people, whatever it holds."""
    from llvmlite import __version__ as llvmlite_version  # type: ignore[import-untyped]

    target = target_of_host()
    return {
        "function": origin.function, "source": origin.source, "backend": "llvm",
        "target": f"{target.triple} {target.cpu}", "features": compress_text(target.features),
        "compile_ms": round(compile_ms, 3), "created": int(time.time()), "ir": compress_text(text),
        "versions": {"llvm": f"llvmlite {llvmlite_version}"},
    }


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
    """In a forked child: a fresh lock, and no thread that builds the runtime; the parent's do not exist here."""
    global _lock, _runtime_build
    _lock, _runtime_build = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_runtime_build: threading.Thread | None = None
_runtime_failure: CompileError | None = None
_runtime_seen: Entry | None = None
"""The runtime's entry as `runtime_is_ready` has just found it: the next who asks need not read it again."""


def _runtime_entry(name: str, key_parts: Mapping[str, str | int]) -> tuple[str, bytes, Entry | None]:
    """Return key, canonical form and, where there is one, the cached object of the runtime."""
    canonical = repr(sorted(key_parts.items())).encode()
    global _runtime_seen
    key = cache_key(runtime_parts(name, key_parts))
    seen, _runtime_seen = _runtime_seen, None
    if seen is not None and (seen.key, seen.canonical) == (key, canonical):
        return key, canonical, seen
    return key, canonical, default_store().load(key, canonical)


def runtime_parts(name: str, key_parts: Mapping[str, str | int]) -> dict[str, Any]:
    """Return the parts of the key of a part of the runtime."""
    return {**environment(touches_python=True), "runtime": name, **key_parts}


def load_runtime_object(
    name: str, make_text: Callable[[], str], key_parts: Mapping[str, str | int], link: native.Link
) -> Library:
    """Return the loaded native runtime, from the cache or compiled: the runtime's loader."""
    key, canonical, entry = _runtime_entry(name, key_parts)
    if entry is not None:
        try:
            library = link(entry.code)
        except CompileError as error:
            default_store().refuse(key, str(error))
        else:
            count("cache_hits")
            return library
    from jitfuse.backends.llvm.jit import compile_text
    from jitfuse.cache.parts import describe

    begin = time.perf_counter()
    text = make_text()
    code = compile_text(text, level=int(key_parts["level"]))
    count("compiles")
    count("cache_misses")
    metadata = _metadata(Origin(f"jitfuse {name}", ""), (time.perf_counter() - begin) * 1e3, text)
    metadata |= {"kernels": [], **describe(runtime_parts(name, key_parts), None)}
    library = link(code)
    publish(Entry(key, metadata, canonical, code))
    return library


def native_runtime() -> Any:
    """Return the process's native runtime, whose object comes through the cache; compile it where it must be."""
    native.set_loader(load_runtime_object)
    return native.runtime()


def runtime_is_ready() -> bool:
    """Return whether `native_runtime` would compile nothing: it is loaded, or its object is there."""
    global _runtime_seen
    if native.loaded():
        return True
    if _runtime_failure is not None or (_runtime_build is not None and _runtime_build.is_alive()):
        return False
    if _runtime_build is not None:
        return True
    _runtime_seen = _runtime_entry("runtime", native.key_parts())[2]
    return _runtime_seen is not None


def build_runtime() -> None:
    """Compile the native runtime in a thread of its own; the process does not end before it is stored."""
    global _runtime_build
    with _lock:
        if _runtime_build is None and not native.loaded():
            _runtime_build = threading.Thread(target=_build_quietly, name="jitfuse-runtime")
            _runtime_build.start()


def _build_quietly() -> None:
    global _runtime_failure
    try:
        native_runtime()
    except CompileError as error:
        _runtime_failure = error
        message = f"kernels are launched from Python, some microseconds slower a call: {str(error).splitlines()[0]}"
        warnings.warn(message, FallbackWarning, stacklevel=1)
